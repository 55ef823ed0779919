package kinto

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/sink/internal/content"
)

// metaMember is the member of a record with the fields of the entity other than its body.
const metaMember = "feedctl"

// validID matches the ids of records that all servers accept (Kinto API documentation, "Records").
var validID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,254}$`)

// madeID is the prefix of the ids of keys that are not valid ids.
const madeID = "fc-"

// recordID returns the id of the record for a key: the key itself if it is a valid id, and
// otherwise its digest.
func recordID(key string) string {
	if validID.MatchString(key) && !strings.HasPrefix(key, madeID) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return madeID + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

// A form is how a record holds a body.
type form int

const (
	wrapped   form = iota // as text in metaMember
	asMembers             // as its members
	asBoth                // as both, because servers would return the members in another notation
	asIs                  // as a record of Kinto, without metaMember
)

// formOf returns how a record holds a body.
func formOf(contentType string, body []byte) form {
	if !content.IsJSON(contentType) || !utf8.Valid(body) {
		return wrapped
	}
	text, ok := jsonscan.AppendCompact(nil, body)
	if !ok || len(text) == 0 || text[0] != '{' {
		return wrapped
	}
	n := notation{fits: true, same: true}
	n.object(text, true)
	switch {
	case !n.fits:
		return wrapped
	case !n.same:
		return asBoth
	}
	return asMembers
}

// storable reports whether servers store an object, which must be compact.
func storable(object []byte) bool {
	n := notation{fits: true}
	n.object(object, false)
	return n.fits
}

// reserved holds the members that have a meaning to Kinto or to this package.
var reserved = map[string]bool{"id": true, "last_modified": true, "deleted": true, "schema": true, metaMember: true}

// A notation says whether a server stores JSON, and returns its numbers as they were. The order
// of members and the escapes of strings do not count.
type notation struct{ fits, same bool }

func (n *notation) value(text []byte) {
	switch c := text[0]; {
	case c == '{':
		n.object(text, false)
	case c == '[':
		for e := range jsonscan.Elements(text) {
			n.value(e)
		}
	case c == '"':
		n.string(text)
	case c == '-' || '0' <= c && c <= '9':
		n.number(string(text))
	}
}

func (n *notation) object(text []byte, top bool) {
	names := map[string]bool{}
	for quoted, value := range jsonscan.Members(text) {
		name := n.string(quoted)
		n.same = n.same && !names[name] // of two members with the same name, the last one stays
		n.fits = n.fits && !(top && reserved[name])
		names[name] = true
		n.value(value)
	}
}

// string checks a string, and returns it decoded. PostgreSQL cannot store NUL, and answers 503.
func (n *notation) string(quoted []byte) string {
	text, _ := jsonscan.Unquote(quoted)
	if jsonscan.Halved(quoted, text) || strings.ContainsRune(text, 0) {
		n.fits = false
	}
	return text
}

// maxDigits is how many decimal digits a float64 always preserves.
const maxDigits = 15

// number checks a number. Servers keep integers of 64 bits, and write other numbers as the shortest text of
// the same float64.
func (n *notation) number(text string) {
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		n.fits = false // out of range
		return
	}
	if text == "-0" {
		n.same = false
		return
	}
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	if strings.ContainsAny(text, "eE") || len(whole)+len(fraction) > maxDigits ||
		strings.HasSuffix(fraction, "0") || fraction == "" || whole == "0" && strings.HasPrefix(fraction, "000") {
		n.same = false
	}
}

// appendAbout appends the members of metaMember that a PATCH leaves alone.
func appendAbout(dst []byte, e *feed.Entity) []byte {
	dst = jsonscan.AppendText(append(dst, `"contentType":`...), e.ContentType)
	return content.AppendHeaders(append(dst, `,"headers":`...), e.Header)
}

// appendKey appends the member with the key. PostgreSQL does not accept NUL in text.
func appendKey(dst []byte, key string) []byte {
	if strings.ContainsRune(key, 0) {
		dst = base64.StdEncoding.AppendEncode(append(dst, `"keyBase64":"`...), []byte(key))
		return append(dst, '"')
	}
	return content.AppendKey(dst, key)
}

// appendBody appends the member with a body.
func appendBody(dst, body []byte) []byte {
	if utf8.Valid(body) && bytes.IndexByte(body, 0) < 0 {
		return jsonscan.AppendString(append(dst, `"body":`...), body)
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, `"bodyBase64":"`...), body)
	return append(dst, '"')
}

// record returns the record of a change.
func (t *target) record(c *change) ([]byte, error) {
	body, err := t.spool.Append(nil, c.body)
	if err != nil || c.form == asIs {
		return body, err
	}
	doc := make([]byte, 1, len(body)+int(c.about.Size)+300)
	doc[0] = '{'
	if c.form != wrapped {
		doc, _ = jsonscan.AppendCompact(doc[:0], body) // it was valid when it was applied
		if doc = doc[:len(doc)-1]; len(doc) > 1 {
			doc = append(doc, ',')
		}
	}
	doc = append(doc, `"`+metaMember+`":{`...)
	doc = content.AppendEvent(doc, &feed.Entity{ContentID: c.contentID, LastModified: c.lastModified})
	doc = append(doc, ',')
	if doc, err = t.spool.Append(doc, c.about); err != nil {
		return nil, err
	}
	if c.key != c.id {
		doc = appendKey(append(doc, ','), c.key)
	}
	if c.form != asMembers {
		doc = appendBody(append(doc, ','), body)
	}
	return append(doc, "}}"...), nil
}

// A meta is the value of metaMember.
type meta struct {
	ContentID   string          `json:"contentId"`
	ContentType string          `json:"contentType"`
	Headers     json.RawMessage `json:"headers"`
	Key         *string         `json:"key"`
	KeyBase64   *[]byte         `json:"keyBase64"`
	Body        *string         `json:"body"`
	BodyBase64  *[]byte         `json:"bodyBase64"`
}

// keyOf returns the key of the record with the given id, according to its metaMember.
func (m *meta) keyOf(id string) string {
	switch {
	case m.Key != nil:
		return *m.Key
	case m.KeyBase64 != nil:
		return string(*m.KeyBase64)
	}
	return id
}

// contents returns the metaMember of a record, or nil if there is none, and its body.
func contents(record []byte) (*meta, []byte, error) {
	var r struct {
		Meta *meta `json:"feedctl"`
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return nil, nil, err
	}
	m := r.Meta
	switch {
	case m != nil && m.Body != nil:
		return m, []byte(*m.Body), nil
	case m != nil && m.BodyBase64 != nil:
		return m, *m.BodyBase64, nil
	}
	return m, without(record, func(name string) bool {
		return name == "last_modified" || m != nil && (name == "id" || name == metaMember)
	}), nil
}

// withoutStamp returns a record without its stamp, which the server sets.
func withoutStamp(record []byte) []byte {
	return without(record, func(name string) bool { return name == "last_modified" })
}

// without returns an object without some of its members.
func without(object []byte, drop func(name string) bool) []byte {
	text, _ := jsonscan.AppendCompact(nil, object)
	kept := []byte{'{'}
	for quoted, value := range jsonscan.Members(text) {
		if name, _ := jsonscan.Unquote(quoted); drop(name) {
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(append(append(kept, quoted...), ':'), value...)
	}
	return append(kept, '}')
}
