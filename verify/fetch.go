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

// stallLimit is how long a server may send nothing.
const stallLimit = time.Minute

var errStalled = errors.New("nothing came for too long")

// A fetcher makes requests.
type fetcher struct {
	client      http.Client
	header      http.Header
	credentials Credentials
	origin      string // that header and credentials are for
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
		return nil, fmt.Errorf("check %q: give the credentials beside the URL, not in it", u.Redacted())
	}
	f := &fetcher{header: c.Header, credentials: c.Credentials, origin: origin(u), stall: stallLimit}
	if c.HTTPClient != nil {
		f.client = *c.HTTPClient
	}
	redirect := f.client.CheckRedirect
	f.client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
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

// authorize puts in what is for our origin, and takes it out for others: a
// redirected request begins with the headers of the one before it.
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
	// Set last: the bytes as they are stored are what is checked.
	r.Header.Set("Accept-Encoding", "identity")
}

// A StatusError is an answer other than 200 to the first request of a check.
type StatusError struct{ StatusCode int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("answered %d %s, not 200", e.StatusCode, http.StatusText(e.StatusCode))
}

// isGone reports whether an error says that a page does not exist.
func isGone(err error) bool {
	return hasStatus(err, http.StatusNotFound, http.StatusGone)
}

func hasStatus(err error, codes ...int) bool {
	var status *StatusError
	return errors.As(err, &status) && slices.Contains(codes, status.StatusCode)
}

// do makes a request and returns the answer if it is 200. The caller closes the
// body.
func (f *fetcher) do(ctx context.Context, method, rawURL string) (*http.Response, error) {
	stallable, cancel := context.WithCancelCause(ctx)
	request, err := http.NewRequestWithContext(stallable, method, rawURL, nil)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	f.authorize(request)
	body := &stallReader{ctx: stallable, cancel: cancel, limit: f.stall}
	body.timer = time.AfterFunc(f.stall, func() { cancel(errStalled) })
	response, err := f.client.Do(request)
	if err != nil {
		body.stop()
		return nil, body.explain(err)
	}
	body.body = response.Body
	response.Body = body
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(&StatusError{response.StatusCode}, body.Close())
	}
	return response, nil
}

// A stallReader reads a body, and gives up if nothing comes.
type stallReader struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
	body   io.ReadCloser
}

func (r *stallReader) Read(p []byte) (int, error) {
	r.timer.Reset(r.limit)
	n, err := r.body.Read(p)
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
		return fmt.Errorf("%w (%v)", errStalled, r.limit)
	}
	return err
}
