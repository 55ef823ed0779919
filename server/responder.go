package server

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/internal/tcp"
)

// piece is how many bytes a client has to receive within one timeout.
const piece = 512 << 10

// A responder is the ResponseWriter of all handlers. It counts what is sent and sets a new deadline for every
// piece, so that only a stalled client is cut off. It also implements [io.ReaderFrom], so that the kernel can
// send files.
type responder struct {
	http.ResponseWriter
	control http.ResponseController
	timeout time.Duration
	joined  *tcp.Joined // the connection; nil if it cannot join writes

	status int   // 0 until the header is written
	bytes  int64 // of the body
	waited bool  // in a long-poll
}

func newResponder(w http.ResponseWriter, timeout time.Duration) *responder {
	return &responder{ResponseWriter: w, control: *http.NewResponseController(w), timeout: timeout}
}

// Unwrap returns the underlying writer, for [http.ResponseController].
func (w *responder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// renew sets the deadline for the next piece. It has no effect on writers without
// deadlines, as in tests.
func (w *responder) renew() { _ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) }

func (w *responder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.renew()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [io.Writer]. If p is the whole body, it is sent together with the header.
func (w *responder) Write(p []byte) (written int, err error) {
	if w.joined == nil || w.bytes > 0 || len(p) > piece || w.Header().Get("Content-Length") != strconv.Itoa(len(p)) {
		return w.write(p)
	}
	w.joined.Begin()
	written, err = w.write(p)
	if err == nil {
		err = w.control.Flush()
	}
	if endErr := w.joined.End(); err == nil {
		err = endErr
	}
	return written, err
}

func (w *responder) write(p []byte) (written int, err error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	for len(p) > 0 && err == nil {
		var n int
		w.renew()
		n, err = w.ResponseWriter.Write(p[:min(len(p), piece)])
		w.bytes += int64(n)
		written += n
		p = p[n:]
	}
	return written, err
}

// ReadFrom implements [io.ReaderFrom], piece by piece. It replaces the limit of a
// limited file instead of nesting it, since the net package unwraps only one.
func (w *responder) ReadFrom(src io.Reader) (read int64, err error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	limited, ok := src.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: src, N: 1<<63 - 1}
	}
	for limited.N > 0 {
		w.renew()
		want := min(limited.N, piece)
		n, err := io.Copy(w.ResponseWriter, &io.LimitedReader{R: limited.R, N: want})
		limited.N -= n
		w.bytes += n
		read += n
		if err != nil || n < want {
			return read, err
		}
	}
	return read, nil
}

// minProgress is the number of bytes that a client has to send within one timeout.
const minProgress = 1 << 10

// errBody is matched by errors from reading a request's body.
var errBody = errors.New("read request body")

type bodyError struct{ err error }

func (e bodyError) Error() string   { return errBody.Error() + ": " + e.err.Error() }
func (e bodyError) Unwrap() []error { return []error{errBody, e.err} }

// A bodyReader reads the body of a request with a new deadline for each minProgress
// bytes. The time between calls of Read does not count.
type bodyReader struct {
	body    io.Reader
	control *http.ResponseController
	timeout time.Duration

	left     time.Duration // for the next minProgress bytes
	progress int
}

func newBodyReader(body io.Reader, w *responder) *bodyReader {
	return &bodyReader{body: body, control: &w.control, timeout: w.timeout, left: w.timeout}
}

func (b *bodyReader) Read(p []byte) (int, error) {
	start := time.Now()
	_ = b.control.SetReadDeadline(start.Add(b.left)) // as in responder.renew
	n, err := b.body.Read(p)
	b.left -= time.Since(start)
	if b.progress += n; b.progress >= minProgress {
		b.left, b.progress = b.timeout, 0
	}
	switch {
	case err == io.EOF:
		// From now on, the server watches the connection with a read, which must not end at this deadline.
		_ = b.control.SetReadDeadline(time.Time{})
	case err != nil:
		err = bodyError{err}
	}
	return n, err
}
