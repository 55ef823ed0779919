package kinto

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/idle"
	"github.com/feedctl/feedctl/internal/origins"
)

// A Request is an HTTP request. The zero Request is a GET of the server's root.
type Request struct {
	Method string // empty: GET
	// Path below the server's URL, percent-encoded: "/buckets/blog". See [Collection.Path].
	Path   string
	Query  url.Values
	Header http.Header
	Body   []byte // JSON unless Header has a Content-Type; nil: no body
	// Repeat marks a request that is idempotent, so that it may be repeated although its outcome is
	// unknown. GET and HEAD always are. After status 429 any request is repeated.
	Repeat bool

	absolute string // instead of Path: a URL that may have another origin
}

// Do makes a request. If the error is nil, the response has status 2xx or 304 and a body that the
// caller must close; reads of the body fail after the idle timeout. Otherwise the error is an
// [*Error], a network error or that of ctx, and contains no credentials. See also [Retryable].
func (s *Server) Do(ctx context.Context, q Request) (*http.Response, error) {
	var resp *http.Response
	err := s.repeat(ctx, &q, func() (err error) {
		resp, err = s.try(ctx, q) //nolint:bodyclose // the caller closes it
		return err
	})
	return resp, err
}

// maxJSON limits a response that is decoded as a whole, in bytes.
const maxJSON = 64 << 20

// JSON makes a request and decodes its response, of at most 64 MiB, into v. v may be nil. It returns
// the header of the response. A truncated response is requested again, like a missing one.
func (s *Server) JSON(ctx context.Context, q Request, v any) (http.Header, error) {
	var data []byte
	var header http.Header
	err := s.repeat(ctx, &q, func() error {
		resp, err := s.try(ctx, q)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		header = resp.Header
		data, err = io.ReadAll(io.LimitReader(resp.Body, maxJSON+1))
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxJSON:
		return nil, s.malformed(q, fmt.Errorf("more than %d bytes", maxJSON))
	case v == nil || len(data) == 0:
		return header, nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, s.malformed(q, err)
	}
	return header, nil
}

// repeat calls try until it succeeds, fails with an error that is not worth retrying, or has been
// called Config.Attempts times.
func (s *Server) repeat(ctx context.Context, q *Request, try func() error) error {
	q.Method = cmp.Or(q.Method, http.MethodGet)
	for n := 1; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		if n >= s.config.Attempts || !q.mayRepeat(err) {
			return err
		}
		pause := backoff.Backoff{Min: 250 * time.Millisecond, Max: 30 * time.Second}.After(n)
		s.config.Log.WarnContext(ctx, "request failed, retrying", "error", err, "try", n, "pause", pause)
		if err := backoff.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// mayRepeat reports whether the request may be made again after err.
func (q *Request) mayRepeat(err error) bool {
	repeatable := q.Repeat || q.Method == http.MethodGet || q.Method == http.MethodHead
	return Retryable(err) && (repeatable || Status(err) == http.StatusTooManyRequests) // which had no effect
}

// try makes a request once, when Limits allows it.
func (s *Server) try(ctx context.Context, q Request) (_ *http.Response, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			cancel(nil)
		}
	}()
	r, origin, err := s.request(ctx, q)
	if err != nil {
		return nil, err
	}
	turn, err := s.config.Limits.limiter.Begin(ctx, origin, q.Method, origins.MaxRetryAfter)
	if err != nil {
		return nil, err
	}
	timer := time.AfterFunc(s.config.HeaderTimeout, func() { cancel(errHeaderTimeout) })
	resp, err := s.http.Do(r)
	if !timer.Stop() && err == nil {
		resp.Body.Close() // the timer won: the body is already cancelled
		err = errHeaderTimeout
	}
	if err != nil {
		turn.Failed()
		return nil, s.transportError(q, err, context.Cause(ctx))
	}
	turn.Answered(resp)
	s.alert(ctx, resp.Header.Get("Alert"))
	what := s.what(q)
	resp.Body = &idle.Body{Src: resp.Body, Context: ctx, Cancel: cancel, Timeout: s.config.IdleTimeout, Broken: func(err error) error {
		if err == context.Canceled || err == context.DeadlineExceeded {
			return err // the caller's
		}
		return &transportError{what: what, err: err}
	}}
	if resp.StatusCode/100 != 2 && resp.StatusCode != http.StatusNotModified {
		err = s.responseError(q, resp)
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// request returns the request and its origin. It has credentials if that is the server's.
func (s *Server) request(ctx context.Context, q Request) (*http.Request, string, error) {
	var body io.Reader
	if q.Body != nil {
		body = bytes.NewReader(q.Body)
	}
	r, err := http.NewRequestWithContext(ctx, q.Method, s.address(q), body)
	if err != nil {
		return nil, "", fmt.Errorf("%s: invalid URL", s.what(q))
	}
	r.Header.Set("User-Agent", "feedctl")
	r.Header.Set("Accept", "application/json")
	if q.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, values := range q.Header {
		r.Header[name] = values
	}
	origin := origins.Of(r.URL)
	if origin != s.origin {
		return r, origin, nil
	}
	for name, values := range s.config.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	switch a := &s.config.Auth; {
	case a.Token != nil:
		token, err := a.Token(ctx)
		if err != nil {
			return nil, "", fmt.Errorf("get bearer token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	case a.Username != "" || a.Password != "":
		r.SetBasicAuth(a.Username, a.Password)
	}
	return r, origin, nil
}

// address returns the URL of a request, without credentials.
func (s *Server) address(q Request) string {
	address := s.root + q.Path
	if q.absolute != "" {
		address = q.absolute
	} else if q.Path == "" {
		address += "/"
	}
	if len(q.Query) > 0 {
		address += "?" + q.Query.Encode()
	}
	return address
}

// what names a request, without its query, in errors.
func (s *Server) what(q Request) string {
	q.Query = nil
	return q.Method + " " + s.scrub(s.address(q))
}

// alert logs what a server announces, such as the end of its service, once (Kinto API documentation,
// "Deprecation").
func (s *Server) alert(ctx context.Context, field string) {
	if field == "" {
		return
	}
	if _, known := s.alerts.LoadOrStore(field, true); known {
		return
	}
	var alert struct{ Code, Message, URL string }
	if json.Unmarshal([]byte(field), &alert) != nil {
		alert.Message = field
	}
	s.config.Log.WarnContext(ctx, "server sent an alert", "server", s.root, "code", alert.Code, "message", s.scrub(alert.Message), "url", s.scrub(alert.URL))
}

// transportError returns the error of a request that got no response.
func (s *Server) transportError(q Request, err, cause error) error {
	if errors.Is(cause, errHeaderTimeout) {
		err = cause
	}
	var repeated *url.Error // repeats the URL
	if errors.As(err, &repeated) {
		err = repeated.Err
	}
	if errors.Is(err, io.EOF) { // callers must not take it for the end of a body
		err = io.ErrUnexpectedEOF
	}
	if strings.Contains(err.Error(), tlsAlert) {
		err = errTLS
	}
	if errors.Is(err, errOrigin) || errors.Is(err, errRedirects) || errors.Is(err, errTLS) {
		return fmt.Errorf("%s: %w", s.what(q), err)
	}
	return &transportError{what: s.what(q), err: err}
}
