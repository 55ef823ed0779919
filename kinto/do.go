package kinto

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/internal/roundtrip"
)

// A Request is an HTTP request. The zero Request is a GET of the server's root.
type Request struct {
	Method string // empty: GET
	// Path is the percent-encoded path relative to the server's URL: "/buckets/blog". See
	// [Collection.Path].
	Path   string
	Query  url.Values
	Header http.Header
	Body   []byte // JSON, unless Header has a Content-Type; nil means no body
	// Repeat marks a request as idempotent: it may be repeated if its outcome is unknown. GET and HEAD
	// requests are always idempotent. After status 429, any request is repeated.
	Repeat bool

	absolute string // a URL to use instead of Path, possibly with another origin
}

// Do makes a request. If the error is nil, the response has status 2xx or 304, and the caller must
// close its body; reads of the body fail after the idle timeout. If the error is not nil, it is an
// [*Error], a network error or the error of ctx, and contains no credentials. See also [Retryable].
func (s *Server) Do(ctx context.Context, q Request) (*http.Response, error) {
	var resp *http.Response
	err := s.repeat(ctx, &q, func() (err error) {
		resp, err = s.try(ctx, q) //nolint:bodyclose // the caller closes it
		return err
	})
	return resp, err
}

// JSON makes a request and decodes the response, of at most 64 MiB, into v, which may be nil. It
// returns the header of the response. If the response is truncated, the request is repeated, as if
// there had been no response.
func (s *Server) JSON(ctx context.Context, q Request, v any) (http.Header, error) {
	var header http.Header
	err := s.repeat(ctx, &q, func() error {
		resp, err := s.try(ctx, q)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		header = resp.Header
		return roundtrip.JSON(resp.Body, v, func(err error) error { return s.malformed(q, err) })
	})
	return header, err
}

func (s *Server) repeat(ctx context.Context, q *Request, try func() error) error {
	q.Method = cmp.Or(q.Method, http.MethodGet)
	return s.client.Repeat(ctx, q.mayRepeat, try)
}

// mayRepeat reports whether the request may be made again after err.
func (q *Request) mayRepeat(err error) bool {
	repeatable := q.Repeat || q.Method == http.MethodGet || q.Method == http.MethodHead
	return Retryable(err) && (repeatable || Status(err) == http.StatusTooManyRequests) // a request with status 429 had no effect
}

// try sends a request once, as soon as Limits allows it.
func (s *Server) try(ctx context.Context, q Request) (*http.Response, error) {
	r, err := s.request(ctx, q)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Send(r, s.what(q), roundtrip.Options{})
	if err != nil {
		return nil, err
	}
	s.alert(ctx, resp.Header.Get("Alert"))
	if !roundtrip.OK(resp.StatusCode) {
		return nil, s.responseError(q, resp)
	}
	return resp, nil
}

// request returns the HTTP request for q. It contains credentials only if it goes to the origin of the
// server.
func (s *Server) request(ctx context.Context, q Request) (*http.Request, error) {
	var body io.Reader
	if q.Body != nil {
		body = bytes.NewReader(q.Body)
	}
	r, err := http.NewRequestWithContext(ctx, q.Method, s.address(q), body)
	if err != nil {
		return nil, fmt.Errorf("%s: invalid URL", s.what(q))
	}
	r.Header.Set("User-Agent", "feedctl")
	r.Header.Set("Accept", "application/json")
	if q.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, values := range q.Header {
		r.Header[name] = values
	}
	if origins.Of(r.URL) != s.client.Origin {
		return r, nil
	}
	for name, values := range s.config.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	switch a := &s.config.Auth; {
	case a.Token != nil:
		token, err := a.Token(ctx)
		if err != nil {
			return nil, fmt.Errorf("get bearer token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	case a.Username != "" || a.Password != "":
		r.SetBasicAuth(a.Username, a.Password)
	}
	return r, nil
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

// what describes a request in errors, by its method and its URL without the query.
func (s *Server) what(q Request) string {
	q.Query = nil
	return q.Method + " " + s.client.Hide(s.address(q))
}

// alert logs an announcement by the server, such as the end of its service. Each announcement is logged
// once (Kinto API documentation, "Deprecation").
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
	s.client.Log.WarnContext(ctx, "server sent an alert", "server", s.root, "code", alert.Code, "message", s.client.Hide(alert.Message), "url", s.client.Hide(alert.URL))
}
