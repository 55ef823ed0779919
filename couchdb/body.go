package couchdb

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// A Body is a sequence of bytes, held in memory or, if large, in a temporary file.
type Body struct {
	data []byte
	file *os.File
	size int64
}

// NewBody returns a Body of data, which it takes ownership of.
func NewBody(data []byte) *Body { return &Body{data: data, size: int64(len(data))} }

// Spool returns a Body with the bytes that fill writes. If their number exceeds whole, they are put
// into a temporary file in dir (empty: [os.TempDir]). An error of fill is returned unwrapped.
func Spool(dir string, whole int, fill func(io.Writer) error) (*Body, error) {
	s := &spool{dir: dir, whole: whole}
	if err := fill(s); err != nil {
		s.body.Close()
		return nil, err
	}
	return &s.body, nil
}

// SpoolJSON returns a Body of the next value of r, as [Spool] does.
func SpoolJSON(dir string, whole int, r *jsonscan.Reader) (*Body, error) {
	b, ended, err := r.Value(whole)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return NewBody(bytes.Clone(b)), nil
	}
	return Spool(dir, 0, func(w io.Writer) error {
		if _, err := w.Write(b); err != nil {
			return err
		}
		return r.Rest(w)
	})
}

// A spool is a Body that is being written.
type spool struct {
	dir   string
	whole int
	body  Body
}

func (s *spool) Write(p []byte) (n int, err error) {
	b := &s.body
	if b.file == nil && len(b.data)+len(p) <= s.whole {
		b.data = append(b.data, p...)
		b.size += int64(len(p))
		return len(p), nil
	}
	if b.file == nil {
		err = s.spill()
	}
	if err == nil {
		n, err = b.file.Write(p)
		b.size += int64(n)
	}
	if err != nil {
		err = fmt.Errorf("spool a large document: %w", err)
	}
	return n, err
}

// spill moves the bytes written so far to a file.
func (s *spool) spill() error {
	file, err := os.CreateTemp(s.dir, "feedctl-couchdb-*")
	if err != nil {
		return err
	}
	// An unlinked file vanishes with the process. Where an open file cannot be
	// unlinked, Close removes it.
	os.Remove(file.Name())
	b := &s.body
	b.file = file
	_, err = file.Write(b.data)
	b.data = nil
	return err
}

// Bytes returns the body if it is in memory, and nil otherwise. An empty body is
// not nil. The caller must not modify it.
func (b *Body) Bytes() []byte {
	if b.file == nil && b.data == nil {
		return []byte{}
	}
	return b.data
}

// Size returns the size of the body in bytes.
func (b *Body) Size() int64 { return b.size }

// Reader returns a new reader of the body. It is valid until Close. Readers may be
// used concurrently.
func (b *Body) Reader() io.Reader {
	if b.file == nil {
		return bytes.NewReader(b.data)
	}
	return io.NewSectionReader(b.file, 0, b.size)
}

// Close removes the temporary file, if there is one.
func (b *Body) Close() error {
	if b == nil || b.file == nil {
		return nil
	}
	err := b.file.Close()
	os.Remove(b.file.Name())
	return err
}

// Meta describes the members of a document whose names begin with an underscore.
type Meta struct {
	ID, Rev        string
	Deleted        bool
	HasAttachments bool // the document has a member _attachments
	HasRevisions   bool // the document has a member _revisions
}

// maxMember is the maximum size, in bytes, of the _id and the _rev of a document in a file. No id or
// revision is that large.
const maxMember = 64 << 10

// Scan returns the Meta of the document, which is empty if the document is not a JSON object. It
// returns an error if the document is not valid JSON, or if the temporary file cannot be read.
func (b *Body) Scan() (Meta, error) {
	if b.file == nil {
		return scanDoc(b.data), nil
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

// scanDoc returns the Meta of a document, which must be valid JSON. If it is not an object, the
// Meta is empty. Members whose names have escape sequences are ignored; no server writes such names.
func scanDoc(doc []byte) Meta {
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
		m.ID, _ = jsonscan.Unquote(value) // empty if the value is not a string
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
