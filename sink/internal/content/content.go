// Package content implements what sinks have in common: writing the fields of an entity
// as JSON, deciding which bodies are text, and reading a body.
package content

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/sink"
)

// IsJSON reports whether a content type is application/json or has the suffix
// +json (RFC 6839).
func IsJSON(contentType string) bool {
	t := mediaType(contentType)
	return equal(t, "application/json") || hasSuffix(t, "+json")
}

// IsText reports whether a content type is text/* or XML (RFC 7303).
func IsText(contentType string) bool {
	t := mediaType(contentType)
	return len(t) > 5 && equal(t[:5], "text/") || equal(t, "application/xml") || hasSuffix(t, "+xml")
}

func mediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.TrimSpace(t)
}

func equal(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }

func hasSuffix(t, suffix string) bool {
	return len(t) > len(suffix) && strings.EqualFold(t[len(t)-len(suffix):], suffix)
}

// appendTime appends t in UTC as a JSON string in the form of RFC 3339 with whole
// seconds, as on the wire; null if t is zero.
func appendTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	dst = t.UTC().AppendFormat(append(dst, '"'), time.RFC3339) // which AppendFormat optimizes
	return append(dst, '"')
}

// AppendHeaders appends header fields as a JSON object: name to array of values, in order of the first field
// with that name. Names are compared without regard to case, and written as in the first field.
func AppendHeaders(dst []byte, fields []feed.Field) []byte {
	dst = append(dst, '{')
	empty := true
	for i, f := range fields {
		if indexName(fields[:i], f.Name) >= 0 {
			continue
		}
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		dst = jsonscan.AppendText(dst, f.Name)
		dst = append(dst, ':', '[')
		dst = jsonscan.AppendText(dst, f.Value)
		for rest := fields[i+1:]; ; {
			n := indexName(rest, f.Name)
			if n < 0 {
				break
			}
			dst = append(dst, ',')
			dst = jsonscan.AppendText(dst, rest[n].Value)
			rest = rest[n+1:]
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func indexName(fields []feed.Field, name string) int {
	for i, f := range fields {
		if equal(f.Name, name) {
			return i
		}
	}
	return -1
}

// AppendKey appends the member "key", or "keyBase64" for a key that is not
// UTF-8.
func AppendKey(dst []byte, key string) []byte {
	if utf8.ValidString(key) {
		return jsonscan.AppendString(append(dst, `"key":`...), key)
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, `"keyBase64":"`...), []byte(key))
	return append(dst, '"')
}

// AppendFields appends the members "contentId", "lastModified",
// "contentType" and "headers".
func AppendFields(dst []byte, e *feed.Entity) []byte {
	dst = AppendEvent(dst, e)
	dst = jsonscan.AppendText(append(dst, `,"contentType":`...), e.ContentType)
	return AppendHeaders(append(dst, `,"headers":`...), e.Header)
}

// AppendEvent appends the members "contentId" and "lastModified".
func AppendEvent(dst []byte, e *feed.Entity) []byte {
	dst = jsonscan.AppendText(append(dst, `"contentId":`...), e.ContentID)
	return appendTime(append(dst, `,"lastModified":`...), e.LastModified)
}

// A Reader reads bodies into one buffer, which it reuses.
type Reader struct {
	buf []byte
}

// Read returns the body of e if it has up to [sink.MaxInline] bytes. A larger body is returned as a stream of
// size bytes, or of unknown size if size is -1. Both are valid until the next call.
func (r *Reader) Read(e *feed.Entity) (whole []byte, stream io.Reader, size int64, err error) {
	switch {
	case e.Stream == nil && len(e.Body) <= sink.MaxInline:
		return e.Body, nil, int64(len(e.Body)), nil
	case e.Stream == nil:
		return nil, bytes.NewReader(e.Body), int64(len(e.Body)), nil
	case e.Size > sink.MaxInline:
		return nil, e.Stream, e.Size, nil
	}
	if r.buf == nil {
		r.buf = make([]byte, sink.MaxInline+1)
	}
	n, err := Fill(e.Stream, r.buf)
	if n == len(r.buf) && (err == nil || err == io.EOF) {
		return nil, &prefixed{r.buf, e.Stream}, e.Size, nil
	}
	if err != io.EOF {
		return nil, nil, 0, fmt.Errorf("read body after %d bytes: %w", n, err)
	}
	if err := CheckSize(e.Size, int64(n)); err != nil {
		return nil, nil, 0, err
	}
	return r.buf[:n], nil, int64(n), nil
}

// Fill reads until b is full or the stream ends. Unlike [io.ReadFull] it returns io.ErrUnexpectedEOF only if
// the stream returns this error, because it was truncated.
func Fill(stream io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = stream.Read(b[n:])
		n += m
	}
	return n, err
}

// CheckSize returns an error if the size of a stream, got, is not want; -1 means any
// size.
func CheckSize(want, got int64) error {
	if want < 0 || got == want {
		return nil
	}
	return fmt.Errorf("read body: it has %d bytes, want %d", got, want)
}

// Exact returns an entity whose stream returns an error at its end if it does not have
// e.Size bytes.
func Exact(e *feed.Entity) *feed.Entity {
	if e.Stream == nil || e.Size < 0 {
		return e
	}
	checked := *e
	checked.Stream = &exact{r: e.Stream, size: e.Size}
	return &checked
}

type exact struct {
	r       io.Reader
	size, n int64
}

func (x *exact) Read(p []byte) (int, error) {
	n, err := x.r.Read(p)
	x.n += int64(n)
	if x.n > x.size || err == io.EOF {
		if wrong := CheckSize(x.size, x.n); wrong != nil {
			return n, wrong
		}
	}
	return n, err
}

type prefixed struct {
	prefix []byte
	rest   io.Reader
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.prefix) == 0 {
		return p.rest.Read(b)
	}
	n := copy(b, p.prefix)
	p.prefix = p.prefix[n:]
	return n, nil
}
