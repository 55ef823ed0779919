package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A server may take stallLimit for the header of a response, for every stallBytes of the body, and
// for the rest of the body.
const (
	stallLimit = time.Minute
	stallBytes = 64 << 10
)

var errStalled = errors.New("the server is too slow")

// ErrOrigin means that a link or a redirect leads to an origin that is not allowed.
var ErrOrigin = errors.New("origin is not allowed")

// A fetcher makes requests.
type fetcher struct {
	client      http.Client
	header      http.Header
	credentials Credentials
	origin      string // the only origin to which header and credentials are sent
	allowed     map[string]bool
	stall       time.Duration
}

func newFetcher(c Config, rawURL string) (*fetcher, error) {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("check %q: %w", rawURL, err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("check %q: not an absolute HTTP URL", rawURL)
	case u.User != nil:
		return nil, fmt.Errorf("check %q: pass credentials separately, not in the URL", u.Redacted())
	}
	f := &fetcher{header: c.Header, credentials: c.Credentials, origin: origin(u), stall: stallLimit, allowed: make(map[string]bool)}
	for _, raw := range c.AllowOrigins {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("check %q: %q is not an origin such as https://pages.example.com", rawURL, raw)
		}
		f.allowed[origin(u)] = true
	}
	if c.HTTPClient != nil {
		f.client = *c.HTTPClient
	}
	redirect := f.client.CheckRedirect
	f.client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if err := f.permit(r.URL); err != nil {
			return err
		}
		f.authorize(r)
		if redirect != nil {
			return redirect(r, via)
		}
		if len(via) >= 10 {
			return errors.New("more than 10 redirects")
		}
		return nil
	}
	return f, nil
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// permit returns an error if requests to u are not allowed.
func (f *fetcher) permit(u *url.URL) error {
	if o := origin(u); o != f.origin && !f.allowed[o] {
		return fmt.Errorf("%w: %s (the check began at %s); allow it if you trust it", ErrOrigin, o, f.origin)
	}
	return nil
}

// authorize sets the configured header and credentials in a request to f.origin, and removes them
// from a request to another origin: a redirected request has the headers of the previous request.
func (f *fetcher) authorize(r *http.Request) {
	r.Header.Del("Authorization")
	for name := range f.header {
		r.Header.Del(name)
	}
	if origin(r.URL) == f.origin {
		for name, values := range f.header {
			for _, value := range values {
				r.Header.Add(name, value)
			}
		}
		switch {
		case f.credentials.Username != "":
			r.SetBasicAuth(f.credentials.Username, f.credentials.Password)
		case f.credentials.Bearer != "":
			r.Header.Set("Authorization", "Bearer "+f.credentials.Bearer)
		}
	}
	// This is set last, since the stored bytes, without a content coding, are to be checked.
	r.Header.Set("Accept-Encoding", "identity")
}

// A StatusError means that the status of the first response of a check is not 200.
type StatusError struct{ StatusCode int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("answered %d %s, not 200", e.StatusCode, http.StatusText(e.StatusCode))
}

// isGone reports whether err means that, according to the server, a page does not exist.
func isGone(err error) bool {
	return hasStatus(err, http.StatusNotFound, http.StatusGone)
}

func hasStatus(err error, codes ...int) bool {
	var status *StatusError
	return errors.As(err, &status) && slices.Contains(codes, status.StatusCode)
}

// do makes a request and returns the response if its status is 200. The caller
// closes the body.
func (f *fetcher) do(ctx context.Context, method, rawURL string) (*http.Response, error) {
	stallable, cancel := context.WithCancelCause(ctx)
	request, err := http.NewRequestWithContext(stallable, method, rawURL, nil)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if err := f.permit(request.URL); err != nil {
		cancel(nil)
		return nil, err
	}
	f.authorize(request)
	body := &stallReader{ctx: stallable, cancel: cancel, limit: f.stall}
	body.timer = time.AfterFunc(f.stall, func() { cancel(errStalled) })
	response, err := f.client.Do(request)
	if err != nil {
		body.stop()
		var repeated *url.Error // repeats the URL
		if errors.As(err, &repeated) {
			err = repeated.Err
		}
		return nil, body.explain(err)
	}
	body.timer.Reset(f.stall)
	body.body = response.Body
	response.Body = body
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(&StatusError{response.StatusCode}, body.Close())
	}
	return response, nil
}

// A stallReader reads a body, and fails if the body arrives too slowly.
type stallReader struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	timer    *time.Timer
	limit    time.Duration
	received int // bytes received since the timer was set
	body     io.ReadCloser
}

func (r *stallReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if r.received += n; r.received >= stallBytes {
		r.received = 0
		r.timer.Reset(r.limit)
	}
	if err != nil && err != io.EOF {
		err = r.explain(err)
	}
	return n, err
}

func (r *stallReader) Close() error {
	err := r.body.Close()
	r.stop()
	return err
}

func (r *stallReader) stop() {
	r.timer.Stop()
	r.cancel(nil)
}

func (r *stallReader) explain(err error) error {
	if context.Cause(r.ctx) == errStalled {
		return fmt.Errorf("%w: less than %d bytes in %v", errStalled, stallBytes, r.limit)
	}
	return err
}
