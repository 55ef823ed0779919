package couchdb

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// decode decompresses a response that a proxy has compressed although that was not requested.
func (db *DB) decode(q Request, resp *http.Response) error {
	switch encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		resp.Body = &gzipBody{ReadCloser: resp.Body}
		resp.Header.Del("Content-Encoding")
		resp.ContentLength = -1
		return nil
	default:
		return fmt.Errorf("%s: %w: unexpected Content-Encoding %q", db.what(q), ErrMalformed, encoding)
	}
}

// A gzipBody decompresses a response body.
type gzipBody struct {
	io.ReadCloser
	src *gzip.Reader // nil until its header has been read
}

func (b *gzipBody) Read(p []byte) (n int, err error) {
	if b.src == nil {
		if b.src, err = gzip.NewReader(b.ReadCloser); err != nil {
			return 0, err
		}
	}
	return b.src.Read(p)
}
