// Package roundtrip sends the requests of the clients of CouchDB and Kinto: with time limits, rate
// limits and retries, to one origin only, and with errors that contain no password.
package roundtrip

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/internal/tcp"
)

// A Client sends requests to one server.
type Client struct {
	Origin   string           // redirects to others are not followed
	Username string           // the user with Password
	Password string           // see Hide
	Limits   *origins.Limiter // may be shared with other clients

	HTTP          *http.Client  // without a Timeout, which would cut off streams. nil: a new one
	HeaderTimeout time.Duration // from the end of a request to the header of its response. 0: 1 min
	IdleTimeout   time.Duration // between two bytes of a response. 0: 1 min
	Attempts      int           // for a request that may be repeated. 0: 6
	Log           *slog.Logger  // logs failed attempts. nil: they are not logged
}

// New returns c with its defaults filled in, or an error if c is invalid.
func New(c Client) (*Client, error) {
	if c.HTTP == nil {
		c.HTTP = &http.Client{Transport: newTransport()}
	}
	if c.HTTP.Timeout != 0 {
		return nil, errors.New("HTTP.Timeout must be 0: use HeaderTimeout and IdleTimeout")
	}
	client := *c.HTTP
	client.CheckRedirect = c.checkRedirect
	c.HTTP = &client
	c.HeaderTimeout = cmp.Or(max(c.HeaderTimeout, 0), time.Minute)
	c.IdleTimeout = cmp.Or(max(c.IdleTimeout, 0), time.Minute)
	c.Attempts = cmp.Or(max(c.Attempts, 0), 6)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return &c, nil
}

// newTransport returns a transport that keeps as many idle connections per host as CouchDB's own
// replicator does by default.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            tcp.Dialer(10 * time.Second).DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    20,
		IdleConnTimeout:        60 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		ReadBufferSize:         64 << 10,
		WriteBufferSize:        64 << 10,
	}
}

// checkRedirect refuses redirects that would send credentials or data to another origin.
func (c *Client) checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errRedirects
	}
	if origins.Of(r.URL) != c.Origin {
		return errOrigin
	}
	return nil
}

// Hide removes the password from a string, such as a server's message, which may quote a URL or the
// field Authorization.
func (c *Client) Hide(text string) string {
	if c.Password == "" {
		return text
	}
	basic := base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
	for _, secret := range []string{basic, c.Password, url.QueryEscape(c.Password), url.PathEscape(c.Password)} {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// Repeat calls try until it succeeds, fails with an error after which it must not be repeated, or
// has been called c.Attempts times.
func (c *Client) Repeat(ctx context.Context, mayRepeat func(error) bool, try func() error) error {
	for n := 1; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		if n >= c.Attempts || !mayRepeat(err) {
			return err
		}
		pause := backoff.Backoff{Min: 250 * time.Millisecond, Max: 30 * time.Second}.After(n)
		c.Log.WarnContext(ctx, "request failed, retrying", "error", err, "try", n, "pause", pause)
		if err := backoff.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}
