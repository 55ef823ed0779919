package feed

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
)

// ChainHeader is the response header field that gives the position of a page in
// the chain of pages. It is not part of the specification; readers work without it.
const ChainHeader = "Feedctl-Chain"

// A Chain is the position of a page in the chain of pages. The digest of a page
// covers all pages up to it. Digests are opaque, in hex, and empty if unknown.
//
// After a store has been restored to an older state, new pages of its feeds have
// different digests. A page whose Prev is not the Self of the page before it
// therefore belongs to another timeline of the feed.
type Chain struct {
	Self string // digest of the page; empty while it may grow
	Prev string // digest of the page before; empty in the first page of the feed
	// First marks the first page of a feed that was published to after it had been deleted. Its
	// Prev is a digest that no page has.
	First bool
}

// Header returns the value of [ChainHeader], a dictionary of byte sequences (RFC
// 9651, section 3.2), or "" if c has no digests.
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
	if c.First && b != nil {
		b = append(b, ", first"...) // the Boolean value true (RFC 9651, section 3.2)
	}
	return string(b)
}

// Contradicts reports whether c and d cannot describe the same page of one timeline.
func (c Chain) Contradicts(d Chain) bool { return Differ(c.Self, d.Self) || Differ(c.Prev, d.Prev) }

// Differ reports whether two digests are both known and not equal.
func Differ(a, b string) bool { return a != "" && b != "" && a != b }

// ParseChain parses [ChainHeader]. Unknown members are ignored. If the field is
// missing, the Chain is zero; if it is malformed, the error is a [*HeaderError].
func ParseChain(h http.Header) (Chain, error) {
	var c Chain
	value := strings.Join(h.Values(ChainHeader), ",")
	for _, member := range splitMembers(value) {
		key, item, _ := strings.Cut(strings.Trim(member, " \t"), "=")
		if key == "first" {
			item, _, _ = strings.Cut(item, ";")
			c.First = strings.TrimRight(item, " \t") != "?0"
			continue
		}
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

// splitMembers splits a dictionary at the commas between its members, but not at
// commas within strings and inner lists.
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
