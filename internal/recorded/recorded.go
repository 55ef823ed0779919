// Package recorded records the status and size of the response of an HTTP handler, for the handlers around it.
package recorded

import (
	"cmp"
	"io"
	"net/http"
)

// A Response passes on what a handler writes, and records its status and size. It implements
// [io.ReaderFrom], so that files are sent without copying.
type Response struct {
	http.ResponseWriter
	Bytes int64 // of the body

	status int // 0 until it is written
}

// Status returns the status of the response: 200 if the handler has written none.
func (r *Response) Status() int { return cmp.Or(r.status, http.StatusOK) }

// Unwrap is for [http.ResponseController].
func (r *Response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (r *Response) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK { // a lower status is informational, and another one follows
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (r *Response) Write(p []byte) (int, error) {
	n, err := r.ResponseWriter.Write(p)
	r.Bytes += int64(n)
	return n, err
}

// ReadFrom implements [io.ReaderFrom].
func (r *Response) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(r.ResponseWriter, src)
	r.Bytes += n
	return n, err
}
