// Package inprocess sends HTTP requests to a handler in the same process, without a network.
package inprocess

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// Transport returns a RoundTripper that lets h respond to requests in the same process, without a network.
// Bodies are streamed: h blocks while the client does not read. The host of a URL has no effect, except that
// it becomes the request's Host. Cancelling a request, or closing the body of its response, cancels the
// context of the request that h gets. A panic of h is returned as an error of the request, or of the
// response's body.
func Transport(h http.Handler) http.RoundTripper { return transport{handler: h} }

type transport struct{ handler http.Handler }

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	pipe := newHandover()
	w := &pipeWriter{body: pipe, header: make(http.Header), ready: make(chan struct{}), head: request.Method == http.MethodHead}
	go func() {
		if request.Body != nil {
			defer request.Body.Close()
		}
		defer func() { w.finish(ctx, recover()) }()
		t.handler.ServeHTTP(w, received(ctx, request))
	}()
	select {
	case <-w.ready:
	case <-ctx.Done():
		// The handler continues until it notices this; what it writes is discarded.
		cancel()
		pipe.close(io.ErrClosedPipe)
		return nil, context.Cause(ctx)
	}
	if w.err != nil {
		cancel()
		return nil, w.err
	}
	body := &pipeBody{pipe: pipe, cancel: cancel}
	body.stop = context.AfterFunc(ctx, func() { pipe.close(context.Cause(ctx)) })
	return w.response(request, body), nil
}

// received returns the request as a server receives it.
func received(ctx context.Context, request *http.Request) *http.Request {
	r := request.Clone(ctx)
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if r.Host == "" {
		r.Host = r.URL.Host
	}
	if r.URL.Scheme == "https" {
		r.TLS = &tls.ConnectionState{}
	}
	r.RequestURI = r.URL.RequestURI()
	r.URL.Scheme, r.URL.Host, r.URL.User, r.URL.Fragment, r.URL.RawFragment = "", "", nil, "", ""
	r.RemoteAddr = "127.0.0.1:0"
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	return r
}

type pipeWriter struct {
	body   *handover
	header http.Header
	head   bool

	ready  chan struct{} // closed when the following fields are set
	once   sync.Once
	status int
	sent   http.Header
	err    error // set if the handler panicked before it sent the header
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	if status < 200 {
		return // informational responses are dropped
	}
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.ready)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	if w.bodiless() {
		return len(p), nil
	}
	return w.body.Write(p)
}

// ReadFrom implements [io.ReaderFrom].
func (w *pipeWriter) ReadFrom(src io.Reader) (int64, error) {
	if w.bodiless() {
		return io.Copy(io.Discard, src)
	}
	return w.body.ReadFrom(src)
}

// bodiless sends the header and reports whether no body may follow it.
func (w *pipeWriter) bodiless() bool {
	w.WriteHeader(http.StatusOK)
	return w.head || w.status == http.StatusNoContent || w.status == http.StatusNotModified
}

// Flush implements [http.Flusher]. It only sends the header, since bodies are not buffered.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

// finish ends the response, with an error if the handler has panicked or ctx has
// ended.
func (w *pipeWriter) finish(ctx context.Context, panicked any) {
	if panicked == nil {
		w.WriteHeader(http.StatusOK)
		w.body.close(context.Cause(ctx)) // a nil cause means that the response is complete
		return
	}
	err, ok := panicked.(error)
	switch {
	case !ok || !errors.Is(err, http.ErrAbortHandler):
		err = fmt.Errorf("answer request: handler panicked: %v", panicked)
	default:
		err = fmt.Errorf("answer request: %w", io.ErrUnexpectedEOF)
	}
	w.once.Do(func() {
		w.err = err
		close(w.ready)
	})
	w.body.close(err)
}

func (w *pipeWriter) response(request *http.Request, body io.ReadCloser) *http.Response {
	size := int64(-1)
	if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil {
		size = n
	}
	return &http.Response{
		Status:     strconv.Itoa(w.status) + " " + http.StatusText(w.status),
		StatusCode: w.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        w.sent,
		Body:          body,
		ContentLength: size,
		Request:       request,
	}
}

type pipeBody struct {
	pipe   *handover
	cancel context.CancelFunc
	stop   func() bool
}

// Read implements [io.Reader].
func (b *pipeBody) Read(p []byte) (int, error) { return b.pipe.Read(p) }

// Close implements [io.Closer]. It cancels the context of the handler, in case the handler has not ended
// yet.
func (b *pipeBody) Close() error {
	b.stop()
	b.pipe.close(io.ErrClosedPipe)
	b.cancel()
	return nil
}
