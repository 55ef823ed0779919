package couchdb

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// decode decompresses a response that a proxy has compressed unasked.
func (db *DB) decode(q Request, resp *http.Response) error {
	encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	switch encoding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		resp.Body = &gzipBody{raw: resp.Body, what: db.what(q)}
		resp.Header.Del("Content-Encoding")
		resp.ContentLength = -1
		return nil
	}
	return fmt.Errorf("%s: %w: unexpected Content-Encoding %q", db.what(q), ErrMalformed, encoding)
}

// A gzipBody decompresses a response body.
type gzipBody struct {
	raw  io.ReadCloser
	what string
	src  *gzip.Reader // nil before the first Read
	err  error        // of gzip.NewReader
}

func (b *gzipBody) Read(p []byte) (int, error) {
	if b.src == nil && b.err == nil {
		b.src, b.err = gzip.NewReader(b.raw)
	}
	if b.err != nil {
		return 0, b.broken(b.err)
	}
	n, err := b.src.Read(p)
	return n, b.broken(err)
}

// broken turns an error about malformed gzip data into a transportError, which is retryable.
func (b *gzipBody) broken(err error) error {
	if corrupt := flate.CorruptInputError(0); err == io.ErrUnexpectedEOF || err == gzip.ErrHeader || err == gzip.ErrChecksum || errors.As(err, &corrupt) {
		return &transportError{what: b.what, err: err}
	}
	return err // raw's, or io.EOF
}

func (b *gzipBody) Close() error { return b.raw.Close() }
