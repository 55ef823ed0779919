package couchdb

import (
	"io"
	"strings"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// Meta has the members of a document that begin with an underscore.
type Meta struct {
	ID, Rev        string
	Deleted        bool
	HasAttachments bool // it has a member _attachments
	HasRevisions   bool // it has a member _revisions
}

// maxMember limits _id and _rev of a document in a file, in bytes. No id or revision is that large.
const maxMember = 64 << 10

// Scan returns the Meta of the document, which is empty if the document is not a JSON object. It
// returns an error if the document is not valid JSON, or if the temporary file cannot be read.
func (b *Body) Scan() (Meta, error) {
	if b.file == nil {
		return ScanDoc(b.data), nil
	}
	r := jsonscan.NewReader(b.Reader())
	if c, err := r.Peek(); err == io.EOF || err == nil && c != '{' {
		return Meta{}, nil
	}
	return ReadMeta(r)
}

// ReadMeta reads a document in constant memory. It returns an error if the next value is not a JSON
// object.
func ReadMeta(r *jsonscan.Reader) (m Meta, err error) {
	err = r.Object(func(quoted []byte) error {
		name, _ := jsonscan.Unquote(quoted)
		if !strings.HasPrefix(name, "_") {
			return r.Skip()
		}
		value, whole, err := r.Value(maxMember)
		if err != nil {
			return err
		}
		if !whole {
			value = nil
		}
		m.set([]byte(name), value)
		return r.Rest(io.Discard)
	})
	return m, err
}

// ScanDoc returns the Meta of a document, which must be valid JSON. If it is not an object, the
// Meta is empty. Members whose names have escape sequences are ignored; no server writes such names.
func ScanDoc(doc []byte) Meta {
	var m Meta
	for quoted, value := range jsonscan.Members(doc) {
		if quoted[1] == '_' {
			m.set(quoted[1:len(quoted)-1], value)
		}
	}
	return m
}

func (m *Meta) set(name, value []byte) {
	switch string(name) {
	case "_id":
		m.ID, _ = jsonscan.Unquote(value) // empty if it is not a string
	case "_rev":
		m.Rev, _ = jsonscan.Unquote(value)
	case "_deleted":
		m.Deleted = string(value) == "true"
	case "_attachments":
		m.HasAttachments = true
	case "_revisions":
		m.HasRevisions = true
	}
}
