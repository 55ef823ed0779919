package origins

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// A Limiter limits the rate at which requests to each origin begin, for all clients that share it.
// An origin that never refused a request has no limit. The zero Limiter is ready for use.
type Limiter struct {
	// AtOnce is how many requests may wait for one origin, to be sent or answered. Zero means no limit.
	AtOnce int

	mu      sync.Mutex
	origins map[string]*origin
}

// An origin is what is known about a server while it is in use or blocked.
type origin struct {
	name     string
	requests chan struct{} // holds a value for each request that waits; nil: no limit

	mu    sync.Mutex
	users int
	until time.Time        // no request is sent before this time
	paces map[string]*pace // by method
}

// When a block ends, the requests that waited for its end are spread over spreadBy times their number.
const spreadBy = 100 * time.Millisecond

// use returns an origin, which must be released.
func (l *Limiter) use(name string) *origin {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ok := l.origins[name]
	if !ok {
		maps.DeleteFunc(l.origins, func(_ string, o *origin) bool { return o.unused() })
		o = &origin{name: name, paces: map[string]*pace{}}
		if l.AtOnce > 0 {
			o.requests = make(chan struct{}, l.AtOnce)
		}
		if l.origins == nil {
			l.origins = map[string]*origin{}
		}
		l.origins[name] = o
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

// Block holds back all requests to an origin for the given time.
func (l *Limiter) Block(name string, wait time.Duration) {
	o := l.use(name)
	defer o.release()
	o.block(wait)
}

func (o *origin) block(wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if until := time.Now().Add(wait); until.After(o.until) {
		o.until = until
	}
}

// Delays returns the longest time that a client leaves between two requests with the same method, by
// origin. Origins without such a time are left out.
func (l *Limiter) Delays() map[string]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]time.Duration{}
	for name, o := range l.origins {
		o.mu.Lock()
		for _, p := range o.paces {
			if delay := p.delay(); delay > 0 {
				all[name] = max(all[name], delay)
			}
		}
		o.mu.Unlock()
	}
	return all
}

// A Turn is a request that may be sent. Exactly one of its methods must be called when the request
// is answered or has failed.
type Turn struct {
	origin *origin
	method string
	pace   *pace // nil: the method had no pace when the request began
	slot   bool  // the request counts toward AtOnce
	sent   time.Time
}

// Begin waits until a request may be sent. If the origin is blocked for longer than the given maximum, Begin returns
// an [*Error] at once.
func (l *Limiter) Begin(ctx context.Context, name, method string, most time.Duration) (*Turn, error) {
	return l.begin(ctx, name, method, most, l.AtOnce > 0)
}

// begin is like Begin. The request counts toward AtOnce if slot is true.
func (l *Limiter) begin(ctx context.Context, name, method string, most time.Duration, slot bool) (*Turn, error) {
	t := &Turn{origin: l.use(name), method: method, slot: slot}
	if t.slot {
		select {
		case t.origin.requests <- struct{}{}:
		case <-ctx.Done():
			t.origin.release()
			return nil, context.Cause(ctx)
		}
	}
	if err := t.wait(ctx, most); err != nil {
		t.Failed()
		return nil, err
	}
	t.sent = time.Now()
	return t, nil
}

func (t *Turn) wait(ctx context.Context, most time.Duration) error {
	for {
		if err := t.origin.open(ctx, most); err != nil {
			return err
		}
		if t.pace == nil {
			if t.pace = t.origin.pace(t.method, false); t.pace == nil {
				return nil
			}
			t.pace.join()
		}
		if err := t.pace.wait(ctx); err != nil {
			return err
		}
		if wait, _ := t.origin.blocked(); wait <= 0 { // the origin may have been blocked in the meantime
			return nil
		}
	}
}

// Failed ends a turn that says nothing about the rate.
func (t *Turn) Failed() {
	t.leave()
	t.origin.release()
}

// Succeeded ends a turn whose request was within the rate.
func (t *Turn) Succeeded() {
	t.leave()
	o := t.origin
	defer o.release()
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, ok := o.paces[t.method]; ok && p.faster(t.sent) {
		delete(o.paces, t.method)
	}
}

// Refused ends a turn whose request was refused because there were too many. It returns the time that
// each client now leaves between two requests.
func (t *Turn) Refused() time.Duration {
	t.leave()
	defer t.origin.release()
	return t.origin.pace(t.method, true).slower(t.sent)
}

// Answered ends a turn with the response to its request, which counts as refused if the status is 429 or 5xx. The
// origin is blocked for as long as it asks its clients to wait.
func (t *Turn) Answered(r *http.Response) {
	t.origin.block(RetryAfter(r))
	if r.StatusCode == http.StatusTooManyRequests || r.StatusCode >= http.StatusInternalServerError {
		t.Refused()
	} else {
		t.Succeeded()
	}
}

// leave makes room for the next request.
func (t *Turn) leave() {
	if t.pace != nil {
		t.pace.leave()
	}
	if t.slot {
		<-t.origin.requests
	}
}

// blocked returns how long the origin remains blocked, and the time over which the requests that wait are spread
// afterwards, which grows with their number.
func (o *origin) blocked() (wait, spread time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	wait = time.Until(o.until)
	return wait, min(wait/4, time.Duration(o.users-1)*spreadBy)
}

// open waits until the origin is no longer blocked.
func (o *origin) open(ctx context.Context, most time.Duration) error {
	for {
		wait, spread := o.blocked()
		if wait <= 0 {
			return nil
		}
		if wait > most {
			err := fmt.Errorf("it asks its clients to wait for %v", wait.Round(time.Second))
			return &Error{Origin: o.name, Err: err, RetryAfter: wait, Throttled: true}
		}
		if err := backoff.Sleep(ctx, wait+rand.N(spread+1)); err != nil {
			return err
		}
	}
}

// pace returns the pace of a method. If there is none, it makes one if create is true, and returns
// nil otherwise.
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
