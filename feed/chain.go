package feed

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
)

// ChainHeader is the response header field that says where a page is in the
// chain of pages. It is not of the specification: readers do without it.
const ChainHeader = "Feedctl-Chain"

// A Chain says where a page is in the chain of pages: the digest of a page
// stands for all pages up to it. Digests are opaque, in hex, and empty if the
// page does not say.
//
// The pages of a feed whose store was restored to an older state have other
// digests from there on. So a page whose Prev is not the Self of the page
// before it is of another timeline of the feed.
type Chain struct {
	Self string // of the page; empty as long as it may grow
	Prev string // of the page before; empty in the first page of the feed
}

// Header returns the value of [ChainHeader], a dictionary of byte sequences (RFC
// 9651, section 3.2), or "" if c says nothing.
func (c Chain) Header() string {
	var b []byte
	for _, m := range [...]struct{ key, digest string }{{"self", c.Self}, {"prev", c.Prev}} {
		sum, err := hex.DecodeString(m.digest)
		if err != nil || len(sum) == 0 {
			continue
		}
		if b != nil {
			b = append(b, ", "...)
		}
		b = append(append(b, m.key...), "=:"...)
		b = append(base64.StdEncoding.AppendEncode(b, sum), ':')
	}
	return string(b)
}

// Contradicts reports whether c and d cannot be of the same page of one timeline.
func (c Chain) Contradicts(d Chain) bool { return Differ(c.Self, d.Self) || Differ(c.Prev, d.Prev) }

// Differ reports whether two digests are given and are not the same.
func Differ(a, b string) bool { return a != "" && b != "" && a != b }

// ParseChain reads [ChainHeader]. Members that it does not know are left alone.
// Without the field the Chain is zero; a field that cannot be read is a
// [*HeaderError].
func ParseChain(h http.Header) (Chain, error) {
	var c Chain
	value := strings.Join(h.Values(ChainHeader), ",")
	for _, member := range splitMembers(value) {
		key, item, _ := strings.Cut(strings.Trim(member, " \t"), "=")
		target := map[string]*string{"self": &c.Self, "prev": &c.Prev}[key]
		if target == nil {
			continue
		}
		item, _, _ = strings.Cut(item, ";") // parameters
		text, opened := strings.CutPrefix(strings.TrimRight(item, " \t"), ":")
		text, closed := strings.CutSuffix(text, ":")
		sum, err := base64.StdEncoding.DecodeString(text)
		if err != nil || !opened || !closed || len(sum) == 0 {
			return Chain{}, &HeaderError{Part: -1, Name: ChainHeader, Value: value,
				Err: fmt.Errorf("%w: %q is not a byte sequence", ErrInvalidHeader, key)}
		}
		*target = hex.EncodeToString(sum)
	}
	return c, nil
}

// splitMembers splits a dictionary at the commas between its members: not at
// those in strings and inner lists.
func splitMembers(value string) []string {
	var members []string
	quoted, depth, start := false, 0, 0
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			members = append(members, value[start:i])
			start = i + 1
		}
	}
	return append(members, value[start:])
}
