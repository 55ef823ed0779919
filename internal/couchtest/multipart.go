package couchtest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"
)

// readDocument reads a document's JSON, and the attachments that follow it in a
// multipart/related body.
func readDocument(r *http.Request) ([]byte, parts, error) {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/related" {
		text, err := io.ReadAll(r.Body)
		return text, nil, err
	}
	var text []byte
	sent := parts{}
	for reader := multipart.NewReader(r.Body, params["boundary"]); ; {
		part, err := reader.NextRawPart()
		if err == io.EOF {
			return text, sent, nil
		}
		if err != nil {
			return nil, nil, badRequest("Malformed multipart/related: " + err.Error())
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return nil, nil, badRequest("Malformed multipart/related: " + err.Error())
		}
		if text == nil {
			text = body
			continue
		}
		_, disposition, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			return nil, nil, badRequest("Malformed multipart/related: " + err.Error())
		}
		sent[disposition["filename"]] = body // the name unchanged; Part.FileName would remove what looks like a directory
	}
}

// boundary returns a random boundary like those of CouchDB.
func boundary() string { return strings.ToLower(rand.Text()) + "000000" }

// related returns a multipart/related body with a document and the attachments that follow it.
func related(boundary string, doc []byte, attachments []attachment) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "--%s\r\nContent-Type: application/json\r\n\r\n%s\r\n--%s", boundary, doc, boundary)
	for _, a := range attachments {
		fmt.Fprintf(&b, "\r\nContent-Disposition: attachment; filename=%s\r\n", quote(a.name))
		fmt.Fprintf(&b, "Content-Type: %s\r\nContent-Length: %d\r\n", a.contentType, len(a.stored))
		if a.gzipped {
			b.WriteString("Content-Encoding: gzip\r\n")
		}
		fmt.Fprintf(&b, "\r\n%s\r\n--%s", a.stored, boundary)
	}
	b.WriteString("--")
	return b.Bytes()
}

// accepts reports whether the client accepts a media type. A client that sends no Accept field
// accepts all types.
func accepts(r *http.Request, mediaType string) bool {
	header := r.Header.Get("Accept")
	if header == "" {
		return true
	}
	major, _, _ := strings.Cut(mediaType, "/")
	for accepted := range strings.SplitSeq(header, ",") {
		accepted, _, _ = strings.Cut(strings.TrimSpace(accepted), ";")
		if accepted == mediaType || accepted == major+"/*" || accepted == "*/*" {
			return true
		}
	}
	return false
}

// writeAttachment sends one attachment, compressed if it is stored compressed and the client accepts
// that.
func writeAttachment(w http.ResponseWriter, r *http.Request, a attachment) error {
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("ETag", `"`+strings.TrimPrefix(a.digest(), "md5-")+`"`)
	body := a.stored
	if a.gzipped {
		w.Header().Set("Accept-Ranges", "none")
		r.Header.Del("Range")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
		} else {
			var err error
			if body, err = a.plain(); err != nil {
				return err
			}
		}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	return nil
}
