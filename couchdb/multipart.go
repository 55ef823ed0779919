package couchdb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"strings"

	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/page"
)

// multipart reads a multipart/mixed response with a part for each document. A part is JSON,
// multipart/related if the document has attachments, or the JSON of an error if the media type has
// the parameter error="true".
func (d *docReader) multipart(body io.Reader, contentType string) error {
	boundary, err := page.Boundary(contentType)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	parts := page.NewReader(body, boundary, page.ReaderOptions{MaxWhole: d.db.config.MaxWhole})
	for part, err := range parts.Parts() {
		if err != nil {
			return err
		}
		if err := d.part(part); err != nil {
			return err
		}
	}
	return nil
}

func (d *docReader) part(part *page.Part) error {
	contentType := string(part.Header.Get("Content-Type"))
	kind, params, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && strings.HasPrefix(kind, "multipart/"):
		return d.related(part, contentType)
	case err == nil && params["error"] == "true":
		return d.refused(part)
	}
	body, err := d.spoolJSON(part)
	if err != nil {
		return err
	}
	return d.giveJSON(body)
}

// spoolJSON returns the body of a part, which must be JSON.
func (d *docReader) spoolJSON(part *page.Part) (*Body, error) {
	body, err := Spool(d.db.config.SpoolDir, d.db.config.MaxWhole, func(w io.Writer) error {
		_, err := io.Copy(w, content(part))
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := valid(body); err != nil {
		body.Close()
		return nil, err
	}
	return body, nil
}

// content returns the body of a part.
func content(part *page.Part) io.Reader {
	if part.Stream != nil {
		return part.Stream
	}
	return bytes.NewReader(part.Body)
}

// valid checks that a body is JSON.
func valid(b *Body) error {
	r := jsonscan.NewReader(b.Reader())
	if err := r.Skip(); err != nil {
		return fmt.Errorf("%w: document: %w", ErrMalformed, err)
	}
	if _, err := r.Peek(); err != io.EOF {
		return fmt.Errorf("%w: more than one document in a part", ErrMalformed)
	}
	return nil
}

// refused reads a part with an error about a document.
func (d *docReader) refused(part *page.Part) error {
	data, err := io.ReadAll(io.LimitReader(content(part), maxError))
	if err != nil {
		return err
	}
	var no refusal
	if err := json.Unmarshal(data, &no); err != nil {
		return fmt.Errorf("%w: error in a part: %w", ErrMalformed, err)
	}
	return d.refusal(no)
}

// related reads a part with a document and its attachments.
func (d *docReader) related(part *page.Part, contentType string) error {
	doc := &Doc{ContentType: contentType}
	if part.Stream == nil {
		doc.Body = NewBody(bytes.Clone(part.Body))
		var err error
		if doc.Meta, err = d.relatedMeta(doc.Body.Reader(), contentType); err != nil {
			return err
		}
		return d.give(doc)
	}
	// The JSON comes first. The bytes that are read from the stream to parse the JSON are spooled,
	// because Stream must return the whole document.
	var meta Meta
	head, err := Spool(d.db.config.SpoolDir, 2*d.db.config.MaxWhole, func(w io.Writer) (err error) {
		meta, err = d.relatedMeta(io.TeeReader(part.Stream, w), contentType)
		return err
	})
	if err != nil {
		return err
	}
	defer head.Close()
	doc.Meta = meta
	doc.Stream = io.MultiReader(head.Reader(), &partReader{d, part.Stream})
	return d.give(doc)
}

// A partReader reads a part and converts errors with docReader.broken.
type partReader struct {
	d *docReader
	r io.Reader
}

func (p *partReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if err != nil && err != io.EOF {
		err = p.d.broken(err)
	}
	return n, err
}

// relatedMeta returns the Meta of a document in multipart/related, which is in the first part.
func (d *docReader) relatedMeta(r io.Reader, contentType string) (m Meta, err error) {
	boundary, err := page.Boundary(contentType)
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for part, err := range page.NewReader(r, boundary, page.ReaderOptions{MaxWhole: d.db.config.MaxWhole}).Parts() {
		if err != nil {
			return m, err
		}
		body, err := d.spoolJSON(part)
		if err != nil {
			return m, err
		}
		defer body.Close()
		return body.Scan()
	}
	return m, fmt.Errorf("%w: document without parts", ErrMalformed)
}
