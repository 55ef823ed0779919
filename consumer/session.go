package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/feedctl/feedctl/page"
)

const defaultUserAgent = "feedctl"

// maxRedirects is how many redirects one request may take.
const maxRedirects = 10

// A session is one use of a Client: one iteration, or one run of a Job. It
// knows the origin that the credentials are for, and the goroutines that have
// to end with it.
type session struct {
	*Client
	ctx         context.Context
	cancel      context.CancelFunc
	workers     sync.WaitGroup
	home        string   // the origin that credentials and headers are for
	trusted     []string // further origins
	credentials Credentials
	http        http.Client // with the redirect rules

	// One page is parsed at a time, so that these are used again.
	parser *page.Reader
	entity Entity

	undated bool // it was said that entities of a snapshot have no time
}

// open starts a session for the URL that a caller gave, and returns the URL
// without its user name and password. The session must be closed.
func (c *Client) open(ctx context.Context, raw string) (*session, string, error) {
	u, err := parseURL(raw)
	if err != nil {
		return nil, "", err
	}
	s := &session{Client: c, home: origin(u), credentials: c.config.Credentials, http: *c.config.HTTPClient}
	if u.User != nil && s.credentials == (Credentials{}) {
		s.credentials.Username = u.User.Username()
		s.credentials.Password, _ = u.User.Password()
	}
	u.User, u.Fragment = nil, ""
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.http.CheckRedirect = s.redirect
	s.parser = page.NewReader(nil, "", page.ReaderOptions{MaxPart: c.config.MaxEntity, MaxWhole: c.config.MaxWhole, Strict: true})
	return s, u.String(), nil
}

// close ends all requests and waits for all goroutines.
func (s *session) close() {
	s.cancel()
	s.workers.Wait()
}

// trust permits requests to the origin of a URL that the caller gave besides
// the first. It does not get the credentials. An invalid URL is reported when
// it is used.
func (s *session) trust(raw string) {
	if u, err := parseURL(raw); err == nil {
		s.trusted = append(s.trusted, origin(u))
	}
}

// permit refuses URLs that no request may go to.
func (s *session) permit(u *url.URL) error {
	if o := origin(u); o != s.home && !s.allowed[o] && !slices.Contains(s.trusted, o) {
		return fmt.Errorf("%w: %s (the feed is at %s); allow it if you trust it", ErrOrigin, o, s.home)
	}
	return nil
}

// redirect is the http.Client's CheckRedirect. What it copied from the request
// before is what must not go to another origin, so the header is made anew.
func (s *session) redirect(next *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errRedirects
	}
	if next.URL.Scheme != "http" && next.URL.Scheme != "https" {
		return fmt.Errorf("%w: redirect to scheme %q", ErrOrigin, next.URL.Scheme)
	}
	if err := s.permit(next.URL); err != nil {
		return err
	}
	next.URL.User = nil
	own := next.Header
	next.Header = make(http.Header)
	for _, name := range [...]string{"Prefer", "If-None-Match", "Range"} {
		if values := own.Values(name); len(values) > 0 {
			next.Header[name] = values
		}
	}
	s.setHeader(next)
	if own.Get("Range") != "" {
		next.Header.Set("Accept-Encoding", "identity")
	}
	return nil
}

var errRedirects = errors.New("too many redirects")

// encodings returns the codings to ask a host for. To compress what stays on this
// machine takes longer than to send it.
func encodings(host string) string {
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return "identity"
	}
	return "gzip, zstd"
}

// setHeader adds the headers that every request to its origin has.
func (s *session) setHeader(r *http.Request) {
	r.Header.Set("User-Agent", defaultUserAgent)
	r.Header.Set("Accept-Encoding", encodings(r.URL.Hostname()))
	for _, name := range [...]string{"User-Agent", "Accept-Encoding"} {
		if values := s.config.Header.Values(name); len(values) > 0 {
			r.Header[name] = values
		}
	}
	if origin(r.URL) != s.home {
		return
	}
	for name, values := range s.config.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	switch c := s.credentials; {
	case c.Bearer != "":
		r.Header.Set("Authorization", "Bearer "+c.Bearer)
	case c != Credentials{}:
		r.SetBasicAuth(c.Username, c.Password)
	}
}
