package origins

import (
	"context"
	"sync"
	"time"
)

// The constants of CouchDB's replicator (couch_replicator_rate_limiter.erl).
const (
	baseInterval    = 20 * time.Millisecond
	slowerBy        = 1.2
	longestInterval = 25 * time.Second
	sensitivity     = 80 * time.Millisecond // the shortest time between two changes
	decayAfter      = time.Second           // without use; then the interval also falls,
	decayBy         = 2                     // by this times the time without use
)

// CouchDB's rules alone refuse one request in five at the rates at which steps are large. So a
// long interval does not become shorter before requests were answered at the new pace, and
// one that is as short as when the server last refused a request becomes shorter slowly.
const (
	changesPerInterval = 8
	carefulFrom        = 1.05 // times the interval of the last refusal,
	carefulUntil       = 0.9  // then the server allows more than before
	carefulStep        = 0.01 // of the interval, each carefulTime
	carefulTime        = time.Second
)

// Timers fire late, by a millisecond or more on a busy machine. A request that is up to mostLate late does
// not delay the next one; else hundreds of requests a second would be fewer than the interval allows.
const mostLate = baseInterval

// A pace is the time between two requests of the same job, with one method to one origin. It
// grows by a factor with each answer that there are too many, and shrinks by a step with
// others. The requests of all jobs are evenly spaced, by as much less as there are jobs.
type pace struct {
	turn chan struct{} // has the value that the next request to be sent takes

	mu       sync.Mutex
	interval time.Duration
	changed  time.Time
	limit    time.Duration // the interval at the last refusal
	refused  bool          // there has been no success since
	used     time.Time
	sent     time.Time
	clients  int // requests that wait to be sent or answered
}

// newPace returns the pace of a server that has refused a request for the first time. It begins
// with an interval at which its clients send a request each baseInterval together: with
// baseInterval for each, many clients would need many refusals to find their pace.
func newPace(clients int) *pace {
	p := &pace{turn: make(chan struct{}, 1), interval: time.Duration(clients) * baseInterval, used: time.Now()}
	p.turn <- struct{}{}
	return p
}

func (p *pace) join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decay()
	p.clients++
}

func (p *pace) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients--
	p.used = time.Now()
}

// wait waits until the next request may be sent.
func (p *pace) wait(ctx context.Context) error {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { p.turn <- struct{}{} }()
	for timer := time.NewTimer(0); ; {
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		if left := p.left(); left > 0 {
			timer.Reset(left)
			continue
		}
		return nil
	}
}

// left returns the time until the next request may be sent; if it is now, it is taken to be.
func (p *pace) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	apart := p.interval / time.Duration(p.clients)
	if p.refused { // one request tells as much as many
		apart = max(apart, sensitivity)
	}
	due := p.sent.Add(apart)
	if left := due.Sub(now); left > 0 {
		return left
	}
	p.sent = now
	if now.Sub(due) <= mostLate {
		p.sent = due
	}
	return 0
}

// decay shortens the interval if it has not been used. p.mu is held.
func (p *pace) decay() {
	if gone := time.Since(p.used); p.clients == 0 && gone > decayAfter {
		p.interval = max(0, p.interval-decayBy*gone)
		p.used = time.Now()
	}
}

// delay returns the interval, as it is without further use.
func (p *pace) delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decay()
	return p.interval
}

// slower notes that there was a request too many, and returns the interval. What was sent
// before the last change says nothing about it.
func (p *pace) slower(sent time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); sent.After(p.changed) && now.Sub(p.changed) > sensitivity {
		if !p.changed.IsZero() { // requests were sent at this interval
			p.limit = time.Duration(float64(p.interval) * carefulFrom)
		}
		p.interval = min(time.Duration(float64(max(p.interval, baseInterval))*slowerBy), longestInterval)
		p.changed, p.refused = now, true
	}
	return p.interval
}

// faster notes that a request was not too many. It reports whether no pace is needed.
func (p *pace) faster() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decay()
	p.refused = false
	by, wait := step(p.interval), max(sensitivity, p.interval/changesPerInterval)
	switch {
	case p.interval > p.limit:
		by = min(by, p.interval-p.limit)
	case float64(p.interval) > carefulUntil*float64(p.limit):
		by, wait = time.Duration(carefulStep*float64(p.interval)), max(wait, carefulTime)
	default:
		p.limit = 0
	}
	if now := time.Now(); now.Sub(p.changed) > wait {
		p.interval = max(0, p.interval-by)
		p.changed = now
	}
	return p.interval == 0 && p.clients == 0
}

// step is by how much an interval becomes shorter.
func step(interval time.Duration) time.Duration {
	switch {
	case interval > 10*time.Second:
		return 50 * baseInterval
	case interval > time.Second:
		return 5 * baseInterval
	case interval > 100*time.Millisecond:
		return 2 * baseInterval
	}
	return baseInterval
}
