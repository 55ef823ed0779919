package origins

import (
	"context"
	"sync"
	"time"
)

// The constants of CouchDB's replicator (couch_replicator_rate_limiter.erl) for the time that a client
// leaves between two requests.
const (
	baseInterval    = 20 * time.Millisecond
	slowerBy        = 1.2
	longestInterval = 25 * time.Second
	sensitivity     = 80 * time.Millisecond // the shortest time between two changes of the interval
	decayAfter      = time.Second           // the interval also falls when it has not been used for this time,
	decayBy         = 2                     // by this factor times the time without use
)

// CouchDB shortens the interval by steps of a fixed length. A server that allows ten requests a second
// then refuses one in five, and one that allows a thousand is never used in full. Here, the rate that a
// server allows is measured from the end of one period of refusals to the end of the next: the number of
// requests that it accepted, divided by that time. The pace then stays a little slower than this limit,
// and exceeds the limit only slowly. While no limit is known, the pace becomes faster by a factor.
const (
	fasterBy      = 1. / 8
	slowerThan    = 1.05 // times the limit
	carefulBy     = .01
	carefulTime   = time.Second // the minimum time between two such steps
	carefulNumber = 40          // the minimum number of intervals between two such steps
	carefulUntil  = .9          // times the limit: below that, the server allows more than before

	shortestCycle = 800 * time.Millisecond // of a measurement; many servers count requests per second
	longestCycle  = 2 * time.Second

	shortestApart = 100 * time.Microsecond // a shorter interval counts as none
)

// Timers fire late, by a millisecond or more on a busy machine. A request that is up to mostLate late does
// not delay the next one; otherwise hundreds of requests a second would fall short of what the interval
// allows.
const mostLate = baseInterval

// A pace is the time between two requests with one method to one origin. All jobs share it: the more jobs
// there are, the fewer requests each of them makes. The time grows by a factor with each response that
// says that there are too many requests, and shrinks a little with each other response.
type pace struct {
	turn chan struct{} // holds one value, which the next request to be sent takes

	mu      sync.Mutex
	apart   time.Duration // between two requests
	changed time.Time
	limit   time.Duration // the minimum for apart, as measured; 0: not known
	used    time.Time
	sent    time.Time
	clients int // requests that wait to be sent or answered

	refused  time.Duration // the value of apart when the current refusals began; 0: there are none
	since    time.Time     // the beginning of a measurement; zero: there is none
	accepted int           // requests since then
}

// newPace returns the pace of a server that has refused a request for the first time. It begins with one
// request every baseInterval in total: if each of many clients left baseInterval between its requests,
// they would need many refusals to find their pace.
func newPace() *pace {
	p := &pace{turn: make(chan struct{}, 1), apart: baseInterval, used: time.Now()}
	p.turn <- struct{}{}
	return p
}

func (p *pace) join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decay()
	p.clients++
	p.apart = min(p.apart, longestInterval/time.Duration(p.clients))
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

// left returns the time until the next request may be sent. If the time is 0, the request counts as sent.
func (p *pace) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	apart := p.apart
	if p.refused > 0 { // a few requests suffice to notice the end of the refusals
		apart = max(apart, sensitivity)
	}
	due := p.sent.Add(apart)
	if left := due.Sub(now); left > 0 {
		return left
	}
	p.sent = now
	if late := now.Sub(due); late <= mostLate {
		p.sent = due
	} else if !p.since.IsZero() { // the clients paused
		p.since = p.since.Add(min(late, now.Sub(p.since)))
	}
	return 0
}

// interval returns the time that each client leaves between two requests. The caller must hold p.mu.
func (p *pace) interval() time.Duration { return p.apart * time.Duration(max(p.clients, 1)) }

// decay shortens the interval if it has not been used. The caller must hold p.mu.
func (p *pace) decay() {
	if gone := time.Since(p.used); p.clients == 0 && gone > decayAfter {
		p.apart = max(0, p.apart-decayBy*gone)
		p.used = time.Now()
	}
}

// delay returns the interval, shortened for the time without use.
func (p *pace) delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decay()
	return p.interval()
}

// slower records that a request was refused because there were too many, and returns the interval. A
// request that was sent before the last change of the interval says nothing about the new one.
func (p *pace) slower(sent time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); sent.After(p.changed) && now.Sub(p.changed) > sensitivity {
		if p.refused == 0 {
			p.refused = max(p.apart, shortestApart)
		}
		interval := min(time.Duration(float64(max(p.interval(), baseInterval))*slowerBy), longestInterval)
		p.apart = interval / time.Duration(max(p.clients, 1))
		p.changed = now
	}
	return p.interval()
}

// faster records that a request was within the rate. It reports whether the pace is no longer needed.
func (p *pace) faster(sent time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decay()
	p.accepted++
	if p.refused > 0 {
		if sent.After(p.changed) {
			p.resume()
		}
		return false
	}
	now := time.Now()
	if now.Sub(p.since) > longestCycle {
		p.since, p.accepted = now, 0
	}
	apart, wait := float64(p.apart), max(sensitivity, 2*p.apart)
	switch limit := float64(p.limit); {
	case limit == 0 || apart <= carefulUntil*limit:
		p.limit = 0
		apart -= fasterBy * apart
	case apart <= limit:
		apart -= carefulBy * apart
		wait = max(carefulTime, carefulNumber*p.apart)
	default:
		apart = limit
	}
	if now.Sub(p.changed) > wait {
		if p.apart = time.Duration(apart); p.apart < shortestApart {
			p.apart = 0
		}
		p.changed = now
	}
	return p.apart == 0 && p.clients == 0
}

// resume ends a period of refusals, and continues at the rate that the server has allowed. The caller must
// hold p.mu.
func (p *pace) resume() {
	now := time.Now()
	took := now.Sub(p.since)
	if !p.since.IsZero() && took >= shortestCycle {
		p.limit = time.Duration(slowerThan * max(float64(p.refused), float64(took)/float64(p.accepted)))
		p.apart = p.limit
	}
	if p.since.IsZero() || took >= shortestCycle {
		p.since, p.accepted = now, 1
	}
	p.refused, p.changed, p.sent = 0, now, now
}
