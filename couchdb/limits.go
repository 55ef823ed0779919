package couchdb

import (
	"context"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// Limits limits the rate of requests to each host for all clients that share it, with additive
// increase and multiplicative decrease: each status 429 or 5xx halves the rate at which requests to
// the host may begin; each success raises it a little. Retry-After stops all requests for that
// time, but at most for 5 min. A host that never responded with 429 or 5xx has no limit. The zero
// Limits is ready for use.
//
// Only the rate at which requests begin is limited, not their number: a changes feed that stays
// open for days does not block other requests.
type Limits struct {
	mu    sync.Mutex
	hosts map[string]*pace
}

const (
	firstRate     = 20   // assumed minimum before the first throttling, in requests per second
	minRate       = 0.04 // requests per second
	minStep       = 0.2  // minimum growth of the rate in a second
	maxRetryAfter = 5 * time.Minute
)

// A pace is the rate at which requests to a host may begin.
type pace struct {
	turn  chan struct{} // semaphore: requests wait to begin one at a time, in order
	rate  float64       // per second; 0: no limit
	step  float64       // by which rate grows in a second of successes
	free  float64       // the rate at which the limit is lifted
	next  time.Time     // when the next request may begin
	until time.Time     // end of Retry-After
	cut   time.Time     // when rate was last halved

	window time.Time // start of the current window, of at least a second
	count  float64   // requests in it
	before float64   // requests per second in the previous window
}

func (l *Limits) host(name string) *pace {
	p := l.hosts[name]
	if p == nil {
		if l.hosts == nil {
			l.hosts = make(map[string]*pace)
		}
		p = &pace{turn: make(chan struct{}, 1)}
		l.hosts[name] = p
	}
	return p
}

// wait waits until a request to a host may begin, and returns the time at which it did.
func (l *Limits) wait(ctx context.Context, host string) (time.Time, error) {
	l.mu.Lock()
	p := l.host(host)
	l.mu.Unlock()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
	for {
		l.mu.Lock()
		now := time.Now()
		at := p.earliest()
		if !at.After(now) {
			p.began(now)
			l.mu.Unlock()
			return now, ctx.Err()
		}
		l.mu.Unlock()
		if err := backoff.Sleep(ctx, at.Sub(now)); err != nil {
			return time.Time{}, err
		}
	}
}

// done records the outcome of a request: slow means that the host responded with status 429 or 5xx.
func (l *Limits) done(host string, began time.Time, slow bool, retryAfter time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, now := l.host(host), time.Now()
	if !slow {
		p.raise(now)
		return
	}
	if until := now.Add(min(retryAfter, maxRetryAfter)); until.After(p.until) {
		p.until = until
	}
	// Requests that began before the rate was halved, or soon after, do not reflect
	// the new rate: many servers count by the second.
	if began.Sub(p.cut) >= time.Second {
		p.halve(now)
	}
}

// earliest returns when the next request may begin.
func (p *pace) earliest() time.Time {
	if p.rate > 0 && p.next.After(p.until) {
		return p.next
	}
	return p.until
}

// began counts a request and sets when the next one may begin.
func (p *pace) began(now time.Time) {
	if p.rate > 0 {
		p.next = now.Add(time.Duration(float64(time.Second) / p.rate))
	}
	if elapsed := now.Sub(p.window); elapsed >= time.Second {
		p.before = p.count / elapsed.Seconds()
		p.window, p.count = now, 0
	}
	p.count++
}

// halve halves the rate, or if there is none yet, sets it to half the recent rate.
func (p *pace) halve(now time.Time) {
	rate := p.rate
	if rate == 0 {
		rate = max(p.before, p.count, firstRate)
		p.free = 4 * rate
	}
	p.rate = max(rate/2, minRate)
	p.step = max(p.rate/10, minStep)
	p.cut = now
	p.next = now.Add(time.Duration(float64(time.Second) / p.rate))
}

// raise raises the rate after a success. With rate successes in a second, it grows
// by step in a second, and faster the longer ago it was halved.
func (p *pace) raise(now time.Time) {
	if p.rate == 0 {
		return
	}
	p.rate += p.step / max(p.rate, 1) * (1 + now.Sub(p.cut).Seconds()/10)
	if p.rate >= p.free {
		p.rate = 0
	}
}
