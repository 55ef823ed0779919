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

// Scan returns the Meta of the document, which is empty if the document is not a
// JSON object. It returns an error if the document is not valid JSON, or if the
// temporary file cannot be read.
func (b *Body) Scan() (Meta, error) {
	var m Meta
	if b.file == nil {
		return ScanDoc(b.data), nil
	}
	r := jsonscan.NewReader(b.Reader())
	if c, err := r.Peek(); err == io.EOF || err == nil && c != '{' {
		return m, nil
	}
	err := r.Object(func(name []byte) error { return m.read(r, name) })
	return m, err
}

// read reads the value of a member.
func (m *Meta) read(r *jsonscan.Reader, name []byte) error {
	if len(name) < 2 || name[1] != '_' {
		return r.Skip()
	}
	own := string(name)
	value, whole, err := r.Value(maxMember)
	if err != nil {
		return err
	}
	if whole {
		m.set([]byte(own), value)
		return nil
	}
	m.set([]byte(own), nil) // no id or revision is that large
	return r.Rest(io.Discard)
}

// maxMember limits _id and _rev of a document in a file, in bytes.
const maxMember = 64 << 10

// ScanDoc returns the Meta of a document, which must be valid JSON. If it is not an
// object, the Meta is empty. Members whose names have escape sequences are ignored;
// no server writes such names.
func ScanDoc(doc []byte) Meta {
	var m Meta
	for name, value := range jsonscan.Members(doc) {
		m.set(name, value)
	}
	return m
}

func (m *Meta) set(name, value []byte) {
	if len(name) < 2 || name[1] != '_' {
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
