package couchdb

import (
	"io"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// Meta has the members of a document that begin with an underscore.
type Meta struct {
	ID, Rev        string
	Deleted        bool
	HasAttachments bool // it has an _attachments member
}

// maxMember limits _id and _rev of a document in a file, in bytes. No id or revision is that large.
const maxMember = 64 << 10

// Scan returns the Meta of the document, which is empty if the document is not a JSON object. It
// returns an error if the document is not valid JSON, or if the temporary file cannot be read.
func (b *Body) Scan() (m Meta, err error) {
	if b.file == nil {
		return ScanDoc(b.data), nil
	}
	r := jsonscan.NewReader(b.Reader())
	if c, err := r.Peek(); err == io.EOF || err == nil && c != '{' {
		return m, nil
	}
	err = r.Object(func(name []byte) error {
		if name[1] != '_' {
			return r.Skip()
		}
		own := string(name) // name is valid only until the next read
		value, whole, err := r.Value(maxMember)
		if err != nil {
			return err
		}
		if !whole {
			value = nil
		}
		m.set([]byte(own), value)
		return r.Rest(io.Discard)
	})
	return m, err
}

// ScanDoc returns the Meta of a document, which must be valid JSON. If it is not an object, the
// Meta is empty. Members whose names have escape sequences are ignored; no server writes such names.
func ScanDoc(doc []byte) Meta {
	var m Meta
	for name, value := range jsonscan.Members(doc) {
		m.set(name, value)
	}
	return m
}

func (m *Meta) set(name, value []byte) {
	if name[1] != '_' {
		return
	}
	switch string(name) {
	case `"_id"`:
		m.ID, _ = jsonscan.Unquote(value) // empty if it is not a string
	case `"_rev"`:
		m.Rev, _ = jsonscan.Unquote(value)
	case `"_deleted"`:
		m.Deleted = string(value) == "true"
	case `"_attachments"`:
		m.HasAttachments = true
	}
}
