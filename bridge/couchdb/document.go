package couchdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/feedctl/feedctl/bridge"
)

// A document is what the bridge has to know of a document's JSON text. The text
// itself is never decoded and encoded again: numbers keep their digits and members
// their order.
type document struct {
	text    []byte
	id, rev string
	deleted bool
	// bare: nothing is in it but who it is, that it is deleted, and its history.
	bare bool
	// history: it has _revisions.
	history bool
	// attachments is the value of _attachments; nil if there is none.
	attachments []byte
	// member is where the member _attachments is in text, with the comma that goes
	// with it.
	member span
}

// A span is a part of a text: from start up to, but not with, end.
type span struct{ start, end int }

var (
	errNotJSON   = errors.New("is not a JSON object")
	errNoID      = errors.New("has no _id")
	errNoRev     = errors.New("has no _rev")
	errWrongID   = errors.New("is another document")
	errSurrogate = errors.New("has a half of a surrogate pair, which is no character")
)

// parseDocument looks through the top level of a document, whose text is valid JSON: who
// read it from the source has made sure of that. Its error says why it cannot be
// published.
func parseDocument(text []byte) (document, error) {
	text = bytes.TrimSpace(text)
	d := document{text: text, bare: true}
	if !utf8.Valid(text) {
		return d, fmt.Errorf("document %w at byte %d", bridge.ErrNotUTF8, invalidAt(text))
	}
	if len(text) == 0 || text[0] != '{' {
		return d, fmt.Errorf("document %w", errNotJSON)
	}
	comma := 0 // where the comma before the member is; 0 before the first
	for i := space(text, 1); text[i] == '"'; {
		nameEnd := skipString(text, i)
		start := space(text, space(text, nameEnd)+1) // behind the colon
		end := skipValue(text, start)
		next := space(text, end) // the comma, or the closing brace
		if err := d.take(text[i:nameEnd], text[start:end]); err != nil {
			return d, err
		}
		if string(text[i:nameEnd]) == `"_attachments"` {
			d.member = span{comma, end}
			if comma == 0 { // the first member: the comma behind goes with it
				d.member = span{i, next}
				if text[next] == ',' {
					d.member.end = space(text, next+1)
				}
			}
		}
		if text[next] != ',' {
			break
		}
		comma = next
		i = space(text, next+1)
	}
	switch {
	case d.id == "":
		return d, fmt.Errorf("document %w", errNoID)
	case d.rev == "":
		return d, fmt.Errorf("document %w", errNoRev)
	}
	return d, nil
}

// take notes one member of the document. Its text is valid JSON.
func (d *document) take(name, value []byte) (err error) {
	switch string(name) {
	case `"_id"`:
		d.id, err = text(value)
	case `"_rev"`:
		d.rev, err = text(value)
	case `"_deleted"`:
		d.deleted = string(value) == "true"
	case `"_revisions"`:
		d.history = true
	case `"_attachments"`:
		d.attachments = value
		d.bare = false
	default:
		d.bare = false
	}
	if err != nil {
		return fmt.Errorf("document's %s %w", name, err)
	}
	return nil
}

// attached reports whether the document has attachments.
func (d *document) attached() bool {
	return len(d.attachments) > 0 && space(d.attachments, 1) != len(d.attachments)-1
}

// withoutAttachments returns the text without the member _attachments: all other
// bytes are as they were.
func (d *document) withoutAttachments() []byte {
	if d.attachments == nil {
		return d.text
	}
	cut := make([]byte, 0, len(d.text)-(d.member.end-d.member.start))
	cut = append(cut, d.text[:d.member.start]...)
	return append(cut, d.text[d.member.end:]...)
}

// text decodes a string. Anything else is an empty one.
func text(value []byte) (string, error) {
	if value[0] != '"' {
		return "", nil
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), nil
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return "", errNotJSON
	}
	// The decoder puts U+FFFD in the place of a half: two ids would become one.
	if bytes.ContainsRune([]byte(s), utf8.RuneError) && !bytes.ContainsRune(value, utf8.RuneError) && !escapesRuneError(value) {
		return "", errSurrogate
	}
	return s, nil
}

// escapesRuneError reports whether the string has U+FFFD as an escape.
func escapesRuneError(value []byte) bool {
	return bytes.Contains(bytes.ToLower(value), []byte(`\ufffd`))
}

// The functions below walk over text that is known to be valid JSON.

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; ; i++ {
		switch n := bytes.IndexByte(b[i:], '"'); {
		case !escaped(b, i+n):
			return i + n + 1
		default:
			i += n
		}
	}
}

// escaped reports whether an odd number of backslashes is before i.
func escaped(b []byte, i int) bool {
	n := 0
	for i-n > 0 && b[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}

// skipValue returns the index behind the value that begins at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
			continue
		default: // a number or a word
			for i < len(b) && !bytes.ContainsRune([]byte(",]} \n\t\r"), rune(b[i])) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// invalidAt returns where the text ceases to be UTF-8.
func invalidAt(b []byte) int {
	at := 0
	for at < len(b) {
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		at += size
	}
	return at
}
