// Package origins is how all jobs of a process use servers: by shared connections, no faster
// than a server allows, and with a record of which server is to blame for an error.
package origins

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// Of returns the origin of a URL: scheme, host and port, as in https://example.org:443.
func Of(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// An Error is a failure of a server rather than of what it was asked for.
type Error struct {
	Origin string
	Err    error
	// RetryAfter is how long the server asks its clients to wait; 0 if it does not.
	RetryAfter time.Duration
	// Throttled: the server works, but has too many requests.
	Throttled bool
}

func (e *Error) Error() string { return fmt.Sprintf("server %s: %v", e.Origin, e.Err) }

// Unwrap implements the interface of [errors.Is].
func (e *Error) Unwrap() error { return e.Err }

// requestsPerOrigin is how many requests of a process may wait for one origin, to be sent or
// answered. Bodies do not count: their readers may need further answers to make room.
const requestsPerOrigin = 50

// silentAfter is the time without an answer after which a request that its sender gives up
// counts against the server.
const silentAfter = 10 * time.Second

// Config is for [New].
type Config struct {
	// Transport sends the requests.
	Transport http.RoundTripper
	// Patience returns how long a run may fail to use an origin before the run is ended.
	Patience func() time.Duration
	// Wait is called if a server asks its clients to wait. It must not block.
	Wait func(*Error)
	// Works is called when a run has used an origin with success for the first time, and when
	// it has after a failure. It must not block.
	Works func(origin string)
}

// A Pool has what the runs of a process share.
type Pool struct {
	config  Config
	mu      sync.Mutex
	origins map[string]*origin
}

// An origin is what is known of a server while it is in use or not to be used.
type origin struct {
	name     string
	requests chan struct{} // has a value for each one that waits

	mu    sync.Mutex
	users int
	until time.Time // no request before
	paces map[string]*pace
}

// New returns a pool.
func New(c Config) *Pool { return &Pool{config: c, origins: map[string]*origin{}} }

// use returns an origin, which must be released.
func (p *Pool) use(name string) *origin {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, ok := p.origins[name]
	if !ok {
		maps.DeleteFunc(p.origins, func(_ string, o *origin) bool { return o.unused() })
		o = &origin{name: name, requests: make(chan struct{}, requestsPerOrigin), paces: map[string]*pace{}}
		p.origins[name] = o
	}
	o.mu.Lock()
	o.users++
	o.mu.Unlock()
	return o
}

func (o *origin) release() {
	o.mu.Lock()
	o.users--
	o.mu.Unlock()
}

func (o *origin) unused() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.users == 0 && len(o.paces) == 0 && time.Now().After(o.until)
}

// Block keeps the process from using an origin for a time.
func (p *Pool) Block(name string, wait time.Duration) {
	o := p.use(name)
	defer o.release()
	o.mu.Lock()
	defer o.mu.Unlock()
	if until := time.Now().Add(wait); until.After(o.until) {
		o.until = until
	}
}

// Delays returns the longest delay between two requests of a job, by origin. Origins without
// one are left out.
func (p *Pool) Delays() map[string]time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]time.Duration{}
	for name, o := range p.origins {
		o.mu.Lock()
		for _, x := range o.paces {
			if d := x.current(); d > 0 {
				all[name] = max(all[name], d)
			}
		}
		o.mu.Unlock()
	}
	return all
}

// A Client sends the requests of one run.
type Client struct {
	pool *Pool
	ctx  context.Context
	end  context.CancelCauseFunc

	mu      sync.Mutex
	failing map[string]*failing
	works   map[string]bool // origins whose last request succeeded
}

// failing are the failures of an origin since its last success.
type failing struct {
	since time.Time
	last  *Error
}

// Client returns the client of a run. End ends the run, and with it ctx: with an [*Error], if
// the run has used a server in vain for long enough, or the server allows too few requests.
func (p *Pool) Client(ctx context.Context, end context.CancelCauseFunc) *Client {
	return &Client{pool: p, ctx: ctx, end: end, failing: map[string]*failing{}, works: map[string]bool{}}
}

// Failure returns the error of an origin with which the last request of the run failed, or nil.
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
	o := c.pool.use(Of(r.URL))
	defer o.release()
	done, err := o.begin(r.Context(), r.Method)
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
	done()
	switch {
	case err != nil:
		if c.ctx.Err() == nil && (r.Context().Err() == nil || time.Since(sent) >= silentAfter) {
			c.failed(&Error{Origin: o.name, Err: err})
		}
	case response.StatusCode == http.StatusTooManyRequests:
		c.throttled(o, r.Method, sent, response)
	case response.StatusCode == http.StatusRequestTimeout || response.StatusCode >= 500:
		c.failed(&Error{Origin: o.name, Err: statusError(response), RetryAfter: backoff.RetryAfter(response.Header)})
	default:
		c.succeeded(o, r.Method)
		if wait := asked(response.Header); wait > 0 {
			c.wait(&Error{Origin: o.name, Err: statusError(response), RetryAfter: wait, Throttled: true})
		}
	}
	return response, err
}

func statusError(r *http.Response) error { return fmt.Errorf("status %s", r.Status) }

// asked returns the time that a server asks its clients to wait by the field Backoff, which
// may come with any status: in seconds, as Kinto sends it.
func asked(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Backoff"))
	if err != nil {
		return 0
	}
	return time.Duration(min(max(seconds, 0), 86_400)) * time.Second
}

// begin waits until a request may be sent. Done must be called when it is answered.
func (o *origin) begin(ctx context.Context, method string) (done func(), err error) {
	if err := o.open(ctx); err != nil {
		return nil, err
	}
	select {
	case o.requests <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	done = func() { <-o.requests }
	if p := o.pace(method, false); p != nil {
		p.join()
		done = func() { p.leave(); <-o.requests }
		err = p.wait(ctx)
	}
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// open waits until the origin is not blocked. Its requests are then spread a little.
func (o *origin) open(ctx context.Context) error {
	for {
		o.mu.Lock()
		wait := time.Until(o.until)
		o.mu.Unlock()
		switch {
		case wait <= 0:
			return nil
		case wait > longestInterval:
			err := fmt.Errorf("it asks its clients to wait for %v", wait.Round(time.Second))
			return &Error{Origin: o.name, Err: err, RetryAfter: wait, Throttled: true}
		}
		if err := backoff.Sleep(ctx, wait+rand.N(wait/4+1)); err != nil {
			return err
		}
	}
}

// pace returns the pace of a method; nil if it has none and is not to have one.
func (o *origin) pace(method string, create bool) *pace {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, ok := o.paces[method]
	if !ok && create {
		p = newPace()
		o.paces[method] = p
	}
	return p
}

func (c *Client) succeeded(o *origin, method string) {
	o.mu.Lock()
	if p, ok := o.paces[method]; ok && p.faster() {
		delete(o.paces, method)
	}
	o.mu.Unlock()
	c.mu.Lock()
	known := c.works[o.name]
	c.works[o.name] = true
	delete(c.failing, o.name)
	c.mu.Unlock()
	if !known {
		c.pool.config.Works(o.name)
	}
}

func (c *Client) throttled(o *origin, method string, sent time.Time, r *http.Response) {
	e := &Error{Origin: o.name, Err: statusError(r), Throttled: true, RetryAfter: max(backoff.RetryAfter(r.Header), asked(r.Header))}
	if interval := o.pace(method, true).slower(sent); interval >= longestInterval {
		e.RetryAfter = max(e.RetryAfter, interval)
		c.end(e)
	}
	c.failed(e)
}

// failed notes a failure. It ends the run if there was nothing else for too long.
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

// wait keeps what the server has asked for.
func (c *Client) wait(e *Error) {
	if e.RetryAfter <= 0 {
		return
	}
	c.pool.Block(e.Origin, e.RetryAfter)
	c.pool.config.Wait(e)
}
