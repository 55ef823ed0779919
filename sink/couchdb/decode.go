package couchdb

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"strings"

	"github.com/feedctl/feedctl/couchdb"
)

// maxHead is the maximum size, in bytes, of a document in multipart/related that is parsed: CouchDB's own
// limit for documents.
const maxHead = 8 << 20

// decode decompresses the attachments of p if the server does not support compressed
// attachments. CouchDB compresses text attachments and sends them compressed
// (att_encoding_info); PouchDB Server would store the compressed bytes as the text.
func (t *target) decode(ctx context.Context, p *couchdb.Put) error {
	boundary := boundaryOf(p.ContentType)
	if boundary == "" {
		return nil
	}
	body, err := p.Open()
	if err != nil {
		return err
	}
	if !compressed(body, boundary) {
		return nil
	}
	takes, err := t.takesCompressed(ctx)
	if err != nil || takes {
		return err
	}
	open := p.Open
	p.Length = -1
	p.Open = func() (io.Reader, error) {
		body, err := open()
		if err != nil {
			return nil, err
		}
		r, w := io.Pipe()
		go func() { w.CloseWithError(decompress(w, body, boundary)) }() // the goroutine ends with the reader
		return r, nil
	}
	return nil
}

// takesCompressed reports whether the server supports compressed attachments: every server except PouchDB
// Server does. The server is asked once. A server behind a proxy that exposes only databases is assumed to be
// CouchDB.
func (t *target) takesCompressed(ctx context.Context) (bool, error) {
	if t.vendor == "" {
		s, err := t.db.Server(ctx)
		if err != nil && (couchdb.Retryable(err) || ctx.Err() != nil) {
			return false, fmt.Errorf("request server version: %w", err)
		}
		t.vendor = "of " + s.Vendor.Name
	}
	return !strings.HasPrefix(t.vendor, "of PouchDB"), nil
}

// readHead reads the first part of a multipart body: its header, and the document.
func readHead(parts *multipart.Reader) (textproto.MIMEHeader, []byte, error) {
	first, err := parts.NextRawPart()
	if err != nil {
		return nil, nil, fmt.Errorf("read document: %w", err)
	}
	head, err := io.ReadAll(io.LimitReader(first, maxHead))
	if err != nil {
		return nil, nil, fmt.Errorf("read document: %w", err)
	}
	return first.Header, head, nil
}

// compressed reports whether the document at the head of a multipart body has attachments that are
// compressed.
func compressed(body io.Reader, boundary string) bool {
	_, head, err := readHead(multipart.NewReader(body, boundary))
	var doc struct {
		Attachments map[string]struct {
			Encoding string `json:"encoding"`
			Follows  bool   `json:"follows"`
		} `json:"_attachments"`
	}
	if err != nil || json.Unmarshal(head, &doc) != nil {
		return false // the server will report the error
	}
	for _, a := range doc.Attachments {
		if a.Follows && a.Encoding == "gzip" {
			return true
		}
	}
	return false
}

// decompress copies a multipart body with its attachments decompressed.
func decompress(w io.Writer, body io.Reader, boundary string) error {
	in, out := multipart.NewReader(body, boundary), multipart.NewWriter(w)
	if err := out.SetBoundary(boundary); err != nil {
		return err
	}
	header, head, err := readHead(in)
	if err == nil {
		err = copyPart(out, header, bytes.NewReader(withoutEncoding(head)))
	}
	if err != nil {
		return err
	}
	for {
		p, err := in.NextRawPart()
		if err == io.EOF {
			return out.Close()
		}
		if err != nil {
			return fmt.Errorf("read attachment: %w", err)
		}
		var content io.Reader = p
		if p.Header.Get("Content-Encoding") == "gzip" {
			content, err = gzip.NewReader(p)
		}
		if err == nil {
			err = copyPart(out, p.Header, content)
		}
		if err != nil {
			return fmt.Errorf("decompress attachment %q: %w", p.FileName(), err)
		}
	}
}

// copyPart copies a part without the header fields that describe the compressed content.
func copyPart(out *multipart.Writer, header textproto.MIMEHeader, content io.Reader) error {
	header.Del("Content-Encoding")
	header.Del("Content-Length")
	w, err := out.CreatePart(header)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return err
}

// withoutEncoding removes the members that describe the compression from the attachments of a document. The
// length of an attachment is already that of the decompressed content.
func withoutEncoding(doc []byte) []byte {
	text, ok := editAttachments(doc, func(a member) []byte {
		return a.with(edit(a.value, func(m member) []byte {
			if m.name == "encoding" || m.name == "encoded_length" || m.name == "digest" {
				return nil
			}
			return m.text
		}))
	})
	if !ok {
		return doc
	}
	return text
}
