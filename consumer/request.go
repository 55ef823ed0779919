package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/idle"
)

// A request is what to ask for.
type request struct {
	method string
	url    string
	etag   string        // answer 304 if this is still right
	wait   time.Duration // let the server hold the request so long
	offset int64         // ask for the bytes from here on, if not 0
}

// A response is the answer to a request, with a body that is decoded and
// limited.
type response struct {
	url    *url.URL // after redirects
	status int
	header http.Header
	body   io.ReadCloser
	cancel func() // makes a Read of body return
	// verified says that the end of body comes only if it has a digest or checksum that it
	// came with, or that its transport knows.
	verified bool
}

// send makes a request until there is an answer, as often as the configuration
// says. An answer is a 200, a 204, a 206 or a 304.
func (s *session) send(q request) (*response, error) {
	retry := s.newRetry()
	for {
		r, err := s.try(q)
		if err == nil {
			return r, nil
		}
		if err := retry.pause(s.ctx, err); err != nil {
			return nil, err
		}
	}
}

// try makes a request once.
func (s *session) try(q request) (*response, error) {
	u, err := parseURL(q.url)
	if err != nil {
		return nil, err
	}
	u.User = nil
	if err := s.permit(u); err != nil {
		return nil, fmt.Errorf("get %s: %w", u, err)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	req, err := http.NewRequestWithContext(ctx, q.method, u.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("get %s: %w", u, err)
	}
	s.setHeader(req)
	q.setHeader(req.Header)
	limit := s.headerTimeout(q)
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w of %v", errHeaderTimeout, limit)) })
	resp, err := s.http.Do(req)
	if !timer.Stop() && err == nil {
		resp.Body.Close() // the timer won: the body is cancelled already
		err = context.Cause(ctx)
	}
	if err != nil {
		if errors.Is(context.Cause(ctx), errHeaderTimeout) {
			s.http.CloseIdleConnections() // which may be as dead
		}
		err = s.requestError(u.String(), err, context.Cause(ctx))
		cancel(nil)
		return nil, err
	}
	body := &idle.Body{Src: resp.Body, Context: ctx, Cancel: cancel, Timeout: s.config.IdleTimeout, Least: s.config.IdleBytes, Broken: func(err error) error {
		if ended := s.ctx.Err(); ended != nil {
			return ended
		}
		return &transportError{url: u.String(), err: err}
	}}
	r := &response{url: resp.Request.URL, status: resp.StatusCode, header: resp.Header, body: body,
		cancel: func() { cancel(nil) }, verified: isVerified(resp.Body)}
	if err := s.accept(q, r); err != nil {
		body.Close()
		return nil, err
	}
	return r, nil
}

// pollMargin is how much later than asked for the answer of a held request may be.
const pollMargin = 10 * time.Second

// headerTimeout returns how long a request may take until its response header is there.
func (s *session) headerTimeout(q request) time.Duration {
	if q.wait > 0 {
		return q.wait + min(pollMargin, s.config.HeaderTimeout)
	}
	return s.config.HeaderTimeout
}

func (q *request) setHeader(h http.Header) {
	if q.etag != "" {
		h.Set("If-None-Match", q.etag)
	}
	if q.wait > 0 {
		h.Set("Prefer", "wait="+strconv.Itoa(int(q.wait/time.Second)))
	}
	if q.offset > 0 {
		h.Set("Range", "bytes="+strconv.FormatInt(q.offset, 10)+"-")
		h.Set("Accept-Encoding", "identity") // offsets are those of the page as it is
	}
}

// accept decides whether r is an answer, and makes its body readable.
func (s *session) accept(q request, r *response) (err error) {
	switch r.status {
	case http.StatusPartialContent:
		if q.offset == 0 {
			break // nobody asked for a part
		}
		fallthrough
	case http.StatusOK:
		if q.method == http.MethodHead {
			return nil
		}
		if want := declaredDigest(r.status, r.header); want != nil && !r.verified {
			r.body, r.verified = newDigestBody(r.body, r.url.String(), want), true
		}
		r.body, err = decode(r, s.config.MaxPage)
		return err
	case http.StatusNoContent, http.StatusNotModified:
		return nil
	}
	return newStatusError(r)
}

var errHeaderTimeout = errors.New("no response header within the time limit")

// requestError makes the error of a request that got no response.
func (s *session) requestError(target string, err, cause error) error {
	if ended := s.ctx.Err(); ended != nil {
		return ended
	}
	if errors.Is(cause, errHeaderTimeout) {
		err = cause
	}
	var repeated *url.Error // repeats the URL
	if errors.As(err, &repeated) {
		err = repeated.Err
	}
	if errors.Is(err, ErrOrigin) || errors.Is(err, errRedirects) {
		return fmt.Errorf("get %s: %w", shown(target), err)
	}
	return &transportError{url: target, err: err}
}

// maxProblem is how much of an error's body is read, in bytes.
const maxProblem = 64 << 10

func newStatusError(r *response) error {
	e := &StatusError{URL: redact(r.url.String()), StatusCode: r.status, RetryAfter: backoff.RetryAfter(r.header)}
	if kind, _, _ := mime.ParseMediaType(r.header.Get("Content-Type")); kind != "application/problem+json" {
		return e
	}
	if body, err := decode(r, maxProblem); err == nil {
		// What cannot be read is no reason to hide the status.
		if data, err := io.ReadAll(body); err == nil {
			_ = json.Unmarshal(data, &e.Problem)
		}
	}
	return e
}
