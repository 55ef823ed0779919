package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/tcp"
)

// endpoint returns the handler of one route, with what all routes share: methods,
// deadlines, problems, metrics and the log. The handler of GET also serves HEAD.
func (s *Server) endpoint(route string, methods map[string]handler) http.Handler {
	if get, ok := methods[http.MethodGet]; ok {
		methods[http.MethodHead] = get
	}
	allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		start := time.Now()
		w := newResponder(rw, s.config.Timeout)
		w.joined = tcp.JoinedFrom(r.Context())
		w.renew()
		if r.ContentLength != 0 {
			// The server also reads bodies that the handler leaves unread.
			_ = w.control.SetReadDeadline(start.Add(s.config.Timeout))
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		defer func() { s.observe(w, r, route, time.Since(start)) }()
		h := methods[r.Method]
		if h == nil {
			h = refuseMethod(allowed)
		}
		if err := h(w, tolerateHalfClose(r)); err != nil {
			s.fail(w, r, err)
		}
	})
}

// tolerateHalfClose returns a request whose context is not cancelled when the client closes its side of the
// connection. [http.Server] assumes that such a connection is closed, but the client may still read. If it
// does not, sending fails. Long-polls and publishes keep their context: a long-poll has to notice at once
// that the connection was closed, and a publish has to see that its body is incomplete.
func tolerateHalfClose(r *http.Request) *http.Request {
	served := r.Context().Value(http.ServerContextKey) != nil
	if !served || r.ProtoMajor != 1 || r.Method != http.MethodGet || r.Header.Get("Prefer") != "" {
		return r
	}
	return r.WithContext(context.WithoutCancel(r.Context()))
}

// refuseMethod answers a method that a route does not have. allowed is empty for a
// method that no route has.
func refuseMethod(allowed string) handler {
	return func(w *responder, r *http.Request) error {
		if allowed == "" {
			return problem.New(http.StatusNotImplemented, "method", "method %.20q is not known", r.Method)
		}
		w.Header().Set("Allow", allowed)
		return problem.New(http.StatusMethodNotAllowed, "method", "method %s is not allowed here: want one of %s", r.Method, allowed)
	}
}

// fail answers with a problem, or aborts the connection if a response has begun:
// what the client received must not look complete.
func (s *Server) fail(w *responder, r *http.Request, err error) {
	if w.status != 0 {
		s.log.LogAttrs(r.Context(), failureLevel(r, err), "aborted a response", slog.String("path", r.URL.Path), slog.Any("error", err))
		panic(http.ErrAbortHandler)
	}
	p := problemOf(err)
	if p.Status == http.StatusGone {
		s.explainGone(w, r, p)
	}
	if p.Status >= http.StatusInternalServerError && p.Status != http.StatusNotImplemented {
		s.log.LogAttrs(r.Context(), failureLevel(r, err), "answered with an error",
			slog.String("path", r.URL.Path), slog.Int("status", p.Status), slog.Any("error", err))
	}
	if r.ContentLength != 0 && p.Status != http.StatusRequestTimeout {
		// Before it sends the response, the server reads the rest of the request's body, so that the client
		// finishes sending and reads the response. This must not use up the time for the response.
		_ = w.control.SetReadDeadline(time.Now().Add(s.config.Timeout / 2))
	}
	p.Send(w, r)
}

// failureLevel returns LevelDebug for clients that disconnected, or else LevelError.
func failureLevel(r *http.Request, err error) slog.Level {
	if r.Context().Err() != nil || errors.Is(err, context.Canceled) || clientGone(err) {
		return slog.LevelDebug
	}
	return slog.LevelError
}

// clientGone reports whether err is from sending to a client that closed the connection or stalled until the
// deadline. In that case, writes by [http.Server] cancel the request's context. A connection's ReadFrom,
// which sends files, does not cancel it, and its errors may also come from the file.
func clientGone(err error) bool {
	var sending *net.OpError
	if !errors.As(err, &sending) || sending.Op != "readfrom" {
		return false
	}
	switch cause := sending.Err.(type) { //nolint:errorlint // a wrapped error is from the file
	case *net.OpError:
		return cause.Op == "write"
	case *os.SyscallError:
		return cause.Err == syscall.EPIPE || cause.Err == syscall.ECONNRESET
	case net.Error:
		return cause.Timeout()
	}
	return false
}

// observe counts and logs a request.
func (s *Server) observe(w *responder, r *http.Request, route string, took time.Duration) {
	s.metrics.observe(w, r, route, took)
	s.log.LogAttrs(r.Context(), slog.LevelDebug, "request",
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", w.status),
		slog.Int64("bytes", w.bytes), slog.Duration("took", took))
}

// NewHTTPServer returns an http.Server for h that limits request headers to 10 seconds
// and 64 KiB, and idle connections to two minutes. A [Server] sets all other limits
// itself.
func NewHTTPServer(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}
