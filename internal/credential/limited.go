package credential

import (
	"errors"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/consumer"
)

// A Limited is a credential that may be limited to namespaces.
type Limited struct {
	consumer.Credentials
	Namespaces []string // empty if the credential is not limited
}

var errNamespaces = errors.New("want namespace=NAME or namespace=NAME,NAME before basic or bearer; a name has up to 64 of a-z 0-9 . _ -, a letter or digit first and last")

// ReadLimited reads the credentials of a source as [Source.ReadAll] does, but lines may begin with
// namespace=NAME,NAME. The caller decides which names are valid.
//
// The namespaces come first, where other lines have their scheme. Thus, they cannot be mistaken for
// a part of a secret, and ReadAll refuses such a line instead of taking the credential for an
// unlimited one.
func (s Source) ReadLimited(valid func(namespace string) bool) ([]Limited, error) {
	return readAll(s, func(line string) (l Limited, err error) {
		if first, rest, _ := strings.Cut(line, " "); strings.HasPrefix(first, "namespace=") {
			l.Namespaces = strings.Split(strings.TrimPrefix(first, "namespace="), ",")
			if slices.ContainsFunc(l.Namespaces, func(name string) bool { return !valid(name) }) {
				return l, errNamespaces
			}
			line = strings.TrimSpace(rest)
		}
		l.Credentials, err = parse(line)
		return l, err
	})
}
