package couchdb

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/internal/jsonscan"
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
	before := 1 // the end of the member before
	for name, value := range jsonscan.Members(text) {
		start := cap(text) - cap(name) // name is a part of text
		end := cap(text) - cap(value) + len(value)
		if d.member == (span{1, before}) { // it was the first: the comma behind goes with it
			d.member.end = start
		}
		if err := d.take(name, value); err != nil {
			return d, err
		}
		if string(name) == `"_attachments"` {
			d.member = span{before, end}
		}
		before = end
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
	for range jsonscan.Members(d.attachments) {
		return true
	}
	return false
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
	s, err := jsonscan.Unquote(value)
	if err == nil && jsonscan.Halved(value, s) { // two ids would become one
		return "", errSurrogate
	}
	return s, nil
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
