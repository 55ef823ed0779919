package feed

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
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
	// First marks the first page of a feed that was deleted and then published to again. Its Prev is a digest
	// that no page has.
	First bool
	// Identity is the identity of the feed. Its Epoch is set only in the response for the newest page, and zero
	// elsewhere: other pages are immutable, and the epoch may change.
	Identity Identity
}

// Header returns the value of [ChainHeader], a dictionary (RFC 9651, section 3.2), or "" if
// nothing is known.
func (c Chain) Header() string {
	b := appendMember(nil, "self", c.Self)
	b = appendMember(b, "prev", c.Prev)
	if c.First && b != nil {
		b = append(b, ", first"...) // the Boolean value true
	}
	b = appendMember(b, "identity", c.Identity.ID)
	if e := c.Identity.Epoch; e.Number > 0 && b != nil {
		b = fmt.Appendf(b, ", epoch=%d;id=%s;last=@%d", e.Number, byteSequence(e.ID), e.Last.Unix())
		if e.Kept {
			b = append(b, ";kept"...)
		}
	}
	return string(b)
}

// appendMember appends a member to a dictionary. The value of the member is a byte sequence, given in hex. It
// appends nothing if digest is empty or malformed.
func appendMember(b []byte, key, digest string) []byte {
	value := byteSequence(digest)
	if value == "" {
		return b
	}
	if b != nil {
		b = append(b, ", "...)
	}
	return append(append(append(b, key...), '='), value...)
}

// byteSequence converts a digest in hex to the form that RFC 9651 defines for bytes in section 3.3.5. It
// returns "" if digest is empty or malformed.
func byteSequence(digest string) string {
	sum, err := hex.DecodeString(digest)
	if err != nil || len(sum) == 0 {
		return ""
	}
	return ":" + base64.StdEncoding.EncodeToString(sum) + ":"
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
		var err error
		switch key {
		case "self":
			c.Self, err = parseBytes(item)
		case "prev":
			c.Prev, err = parseBytes(item)
		case "first":
			item, _, _ = strings.Cut(item, ";")
			c.First = strings.TrimRight(item, " \t") != "?0"
		case "identity":
			c.Identity.ID, err = parseBytes(item)
		case "epoch":
			c.Identity.Epoch, err = parseEpoch(item)
		}
		if err != nil {
			return Chain{}, &HeaderError{Part: -1, Name: ChainHeader, Value: value,
				Err: fmt.Errorf("%w: %q %w", ErrInvalidHeader, key, err)}
		}
	}
	return c, nil
}

var (
	errNotBytes = errors.New("is not a byte sequence")
	errNotEpoch = errors.New("is not an epoch number with the parameters id and last")
)

// parseBytes parses a byte sequence and returns it in hex. It ignores parameters.
func parseBytes(item string) (string, error) {
	item, _, _ = strings.Cut(item, ";")
	text, opened := strings.CutPrefix(strings.TrimRight(item, " \t"), ":")
	text, closed := strings.CutSuffix(text, ":")
	sum, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !opened || !closed || len(sum) == 0 {
		return "", errNotBytes
	}
	return hex.EncodeToString(sum), nil
}

// parseEpoch parses the number of an epoch and its parameters. Unknown parameters are ignored.
func parseEpoch(item string) (Epoch, error) {
	number, rest, _ := strings.Cut(item, ";")
	n, err := strconv.ParseInt(strings.TrimRight(number, " \t"), 10, 64)
	if err != nil || n < 1 {
		return Epoch{}, errNotEpoch
	}
	e := Epoch{Number: n}
	for parameter := range strings.SplitSeq(rest, ";") {
		key, value, _ := strings.Cut(strings.Trim(parameter, " \t"), "=")
		switch key {
		case "id":
			e.ID, err = parseBytes(value)
		case "last": // the value is a date (RFC 9651, section 3.3.7)
			var seconds int64
			date, ok := strings.CutPrefix(value, "@")
			if seconds, err = strconv.ParseInt(date, 10, 64); !ok {
				err = errNotEpoch
			}
			e.Last = time.Unix(seconds, 0).UTC()
		case "kept":
			e.Kept = value != "?0"
		}
		if err != nil {
			return Epoch{}, errNotEpoch
		}
	}
	if e.ID == "" || e.Last.IsZero() {
		return Epoch{}, errNotEpoch
	}
	return e, nil
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
