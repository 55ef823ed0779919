package couchdb

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

// A document is the parsed top level of a document's JSON text. The text is never
// decoded and encoded again: numbers keep their digits and members their order.
type document struct {
	text    []byte
	id, rev string
	deleted bool
	bare    bool // it has only _id, _rev, _deleted and _revisions
	history bool // it has _revisions
	// attachments is the value of _attachments; nil if there is none.
	attachments []byte
	// member is the span of the member _attachments in text, with its comma.
	member span
}

// A span is the part [start:end] of a text.
type span struct{ start, end int }

var (
	errNotJSON   = errors.New("is not a JSON object")
	errNoID      = errors.New("has no _id")
	errNoRev     = errors.New("has no _rev")
	errWrongID   = errors.New("is another document")
	errSurrogate = errors.New("has an unpaired UTF-16 surrogate")
)

// parseDocument parses the top level of a document. The text must be valid JSON. The error
// is a reason for quarantine.
func parseDocument(text []byte) (document, error) {
	text = bytes.TrimSpace(text)
	d := document{text: text, bare: true}
	if !utf8.Valid(text) {
		return d, fmt.Errorf("document %w at byte %d", bridge.ErrNotUTF8, invalidAt(text))
	}
	if len(text) == 0 || text[0] != '{' {
		return d, fmt.Errorf("document %w", errNotJSON)
	}
	before := 1 // end of the previous member
	for name, value := range jsonscan.Members(text) {
		start := cap(text) - cap(name) // name is a part of text
		end := cap(text) - cap(value) + len(value)
		if d.member == (span{1, before}) { // it was the first member: include the comma after it
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

// take records one member of the document.
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

// withoutAttachments returns the text without the member _attachments, otherwise unchanged.
func (d *document) withoutAttachments() []byte {
	if d.attachments == nil {
		return d.text
	}
	cut := make([]byte, 0, len(d.text)-(d.member.end-d.member.start))
	cut = append(cut, d.text[:d.member.start]...)
	return append(cut, d.text[d.member.end:]...)
}

// text decodes a string. It returns "" for other JSON.
func text(value []byte) (string, error) {
	s, err := jsonscan.Unquote(value)
	if err == nil && jsonscan.Halved(value, s) { // decoding could make different ids equal
		return "", errSurrogate
	}
	return s, nil
}

// invalidAt returns the offset of the first byte that is not valid UTF-8.
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
