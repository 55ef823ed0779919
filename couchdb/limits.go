package couchdb

import (
	"context"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// Limits slows down the requests of all clients that share it, by host, with
// additive increase and multiplicative decrease: each 429 and 5xx halves the
// rate at which requests to this host may begin; each success raises it a
// little. Retry-After stops them all for as long, but not longer than 5 min. A
// host that never complained has no limit. The zero Limits is ready for use.
//
// What is limited is the rate at which requests begin, not how many there are
// at a time: a feed that stays open for days takes nobody's turn.
type Limits struct {
	mu    sync.Mutex
	hosts map[string]*pace
}

const (
	firstRate     = 20   // at least, before the first complaint, in requests per second
	minRate       = 0.04 // to which it can fall
	minStep       = 0.2  // by which it grows at least, in a second
	maxRetryAfter = 5 * time.Minute
)

// A pace is the rate at which requests to a host may begin.
type pace struct {
	turn  chan struct{} // has something in it while a request waits to begin: one at a time, in order
	rate  float64       // per second; 0: no limit
	step  float64       // by which rate grows in a second of successes
	free  float64       // the rate from which on there is no limit
	next  time.Time     // when the next request may begin
	until time.Time     // nothing may begin before, because of Retry-After
	cut   time.Time     // when rate was last halved

	window time.Time // a second or more in which requests are counted
	count  float64
	before float64 // requests per second in the window before
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

// wait waits for the turn of a request to a host, and returns when it began.
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
		at := p.earliest(now)
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

// done tells what became of a request that began then: slow says that the
// host complained.
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
	// Requests that began before the rate was halved, or soon after, say nothing
	// about the new rate: many servers count by the second.
	if began.Sub(p.cut) >= time.Second {
		p.halve(now)
	}
}

// earliest returns when the next request may begin, as things are now.
func (p *pace) earliest(now time.Time) time.Time {
	at := now
	if p.rate > 0 && p.next.After(at) {
		at = p.next
	}
	if p.until.After(at) {
		at = p.until
	}
	return at
}

// began counts a request, and has the next one keep its distance.
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

// halve halves the rate, or sets a first one: half of what there was lately.
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

// raise raises the rate after a success. There are as many successes in a
// second as the rate is, so it grows by step in a second, and by more the longer
// ago the last complaint is.
func (p *pace) raise(now time.Time) {
	if p.rate == 0 {
		return
	}
	p.rate += p.step / max(p.rate, 1) * (1 + now.Sub(p.cut).Seconds()/10)
	if p.rate >= p.free {
		p.rate = 0
	}
}
