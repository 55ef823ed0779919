// Package origins limits the rate of requests to servers. A [Limiter] is for clients that share a
// rate; a [Pool] is for the runs of jobs, and also records which server is to blame for an error.
package origins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// Of returns the origin of a URL: scheme, host and port, such as https://example.org:443.
func Of(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// An Error is a failure of a server as a whole rather than of one request.
type Error struct {
	Origin string
	Err    error
	// RetryAfter is how long the server asks its clients to wait; 0 if it does not.
	RetryAfter time.Duration
	// Throttled reports whether the server works but has too many requests.
	Throttled bool
}

func (e *Error) Error() string { return fmt.Sprintf("server %s: %v", e.Origin, e.Err) }

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// requestsPerOrigin is how many requests of a process may wait for one origin. Reading a body does not
// count, since its reader may need further responses to make room. Nor do requests that wait for news:
// those of idle jobs would keep others waiting.
const requestsPerOrigin = 50

// silentAfter is how long a request must have been without an answer to count against the server if its sender gives
// it up.
const silentAfter = 10 * time.Second

// MaxRetryAfter limits the time that a server may ask its clients to wait. Otherwise, a server could by mistake keep
// all clients away for years.
const MaxRetryAfter = 5 * time.Minute

// Config configures a [Pool].
type Config struct {
	// Transport sends the requests.
	Transport http.RoundTripper
	// Patience returns how long a run may fail to use an origin before the run is ended.
	Patience func() time.Duration
	// Wait is called if a server asks its clients to wait. It must not block.
	Wait func(*Error)
	// Works is called when a run has used an origin successfully for the first time, or again after
	// a failure. It must not block.
	Works func(origin string)
}

// A Pool holds what the runs of a process share: the limits of origins.
type Pool struct {
	Limiter
	config Config
}

// New returns a pool.
func New(c Config) *Pool { return &Pool{config: c, Limiter: Limiter{AtOnce: requestsPerOrigin}} }

// A Client sends the requests of one run.
type Client struct {
	pool *Pool
	ctx  context.Context
	end  context.CancelCauseFunc

	mu      sync.Mutex
	failing map[string]*failing
	works   map[string]bool // origins whose last request succeeded
}

// failing describes the failures of an origin since its last success.
type failing struct {
	since time.Time
	last  *Error
}

// Client returns the client of a run. If a server has failed for long enough, or allows too few
// requests, the client calls end with an [*Error]; the function must end the run and cancel ctx.
func (p *Pool) Client(ctx context.Context, end context.CancelCauseFunc) *Client {
	return &Client{pool: p, ctx: ctx, end: end, failing: map[string]*failing{}, works: map[string]bool{}}
}

// Failure returns the error of an origin to which the run's last request failed, or nil if there is none.
func (c *Client) Failure() *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.failing {
		return f.last
	}
	return nil
}

// RoundTrip implements [http.RoundTripper].
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	origin := Of(r.URL)
	turn, err := c.pool.begin(r.Context(), origin, r.Method, longestInterval, !waitsForNews(r))
	if err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		if e, ok := errors.AsType[*Error](err); ok {
			c.end(e)
		}
		return nil, err
	}
	sent := time.Now()
	response, err := c.pool.config.Transport.RoundTrip(r)
	switch {
	case err != nil:
		turn.Failed()
		if !isLocal(err) && c.ctx.Err() == nil && (r.Context().Err() == nil || time.Since(sent) >= silentAfter) {
			c.failed(&Error{Origin: origin, Err: err})
		}
	case response.StatusCode == http.StatusTooManyRequests:
		c.throttled(origin, turn.Refused(), response)
	case response.StatusCode == http.StatusRequestTimeout || response.StatusCode >= 500:
		turn.Failed()
		c.failed(&Error{Origin: origin, Err: statusError(response), RetryAfter: RetryAfter(response)})
	default:
		turn.Succeeded()
		c.succeeded(origin)
		if wait := RetryAfter(response); wait > 0 {
			c.wait(&Error{Origin: origin, Err: statusError(response), RetryAfter: wait, Throttled: true})
		}
	}
	return response, err
}

// isLocal reports whether a request failed on this machine: the machine has no socket left, or a file
// that was to be sent cannot be read.
func isLocal(err error) bool {
	_, file := errors.AsType[*fs.PathError](err)
	return file || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// waitsForNews reports whether a request may be answered only when the server has news: a request
// with the preference wait (RFC 7240, section 4.3), or for a feed of CouchDB, which sends the header
// with the first row or heartbeat.
func waitsForNews(r *http.Request) bool {
	for _, field := range r.Header.Values("Prefer") {
		for preference := range strings.SplitSeq(field, ",") {
			if name, _, _ := strings.Cut(preference, "="); strings.EqualFold(strings.TrimSpace(name), "wait") {
				return true
			}
		}
	}
	feed := r.URL.Query().Get("feed")
	return feed == "continuous" || feed == "longpoll"
}

func statusError(r *http.Response) error { return fmt.Errorf("status %s", r.Status) }

// RetryAfter returns how long a server asks its clients to wait, at most [MaxRetryAfter]: according to
// the field Retry-After of an error, or the field Backoff of any response, a number of seconds sent by Kinto.
func RetryAfter(r *http.Response) time.Duration {
	var wait time.Duration
	if r.StatusCode >= http.StatusBadRequest {
		wait = backoff.RetryAfter(r.Header)
	}
	if seconds, err := strconv.ParseUint(r.Header.Get("Backoff"), 10, 31); err == nil {
		wait = max(wait, time.Duration(seconds)*time.Second)
	}
	return min(wait, MaxRetryAfter)
}

func (c *Client) succeeded(origin string) {
	c.mu.Lock()
	known := c.works[origin]
	c.works[origin] = true
	delete(c.failing, origin)
	c.mu.Unlock()
	if !known {
		c.pool.config.Works(origin)
	}
}

func (c *Client) throttled(origin string, interval time.Duration, r *http.Response) {
	e := &Error{Origin: origin, Err: statusError(r), Throttled: true, RetryAfter: RetryAfter(r)}
	if interval >= longestInterval {
		e.RetryAfter = max(e.RetryAfter, interval)
		c.end(e)
	}
	c.failed(e)
}

// failed records a failure. It ends the run if the origin has failed for too long without a success.
func (c *Client) failed(e *Error) {
	c.wait(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.failing[e.Origin]
	if !ok {
		f = &failing{since: time.Now()}
		c.failing[e.Origin] = f
	}
	f.last = e
	delete(c.works, e.Origin)
	if time.Since(f.since) >= c.pool.config.Patience() {
		c.end(e)
	}
}

// wait makes all clients wait for as long as the server has asked, if it has.
func (c *Client) wait(e *Error) {
	if e.RetryAfter <= 0 {
		return
	}
	c.pool.Block(e.Origin, e.RetryAfter)
	c.pool.config.Wait(e)
}
