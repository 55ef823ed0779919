package s3fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Weather injects random faults into random requests. It prefers the kinds of faults that it has
// injected least often, so that all kinds soon occur. Real servers or networks can cause any of the
// faults.
type Weather struct {
	mu      sync.Mutex
	random  *rand.Rand
	rate    float64
	latency time.Duration
	kinds   []kind
	late    []*Late
	seen    func(Request)
}

// A kind is a kind of fault that applies to some operations.
type kind struct {
	name  string
	fits  func(Operation) bool
	fault Fault // nil: the request is late
	times int
}

// SentTwice is the kind of fault in which a proxy sends a conditional write twice, so that another
// client seems to have been faster. Since the client itself did not retry, it considers the outcome known; if another
// client does write at that moment, the first one cannot find out what happened.
const SentTwice = "sent twice"

// NewWeather returns a Weather without faults and without latency.
func NewWeather(seed uint64) *Weather {
	internal := Answer(http.StatusInternalServerError, "InternalError")
	slow := Answer(http.StatusServiceUnavailable, "SlowDown")
	conflict := Answer(http.StatusConflict, "ConditionalRequestConflict")
	all := func(Operation) bool { return true }
	put := func(o Operation) bool { return o == PutObject }
	get := func(o Operation) bool { return o == GetObject }
	return &Weather{random: rand.New(rand.NewPCG(seed, 0)), kinds: []kind{
		{name: "409", fits: put, fault: conflict},
		{name: "409 after success", fits: put, fault: Landed(conflict)},
		{name: SentTwice, fits: put, fault: Twice()},
		{name: "500 after success", fits: all, fault: Landed(internal)},
		{name: "503", fits: all, fault: slow},
		{name: "404 of a proxy", fits: all, fault: AnswerOfProxy(http.StatusNotFound)},
		{name: "503 after success", fits: put, fault: Landed(slow)},
		{name: "timeout", fits: all, fault: Fail(ErrTimeout())},
		{name: "timeout after success", fits: put, fault: Landed(Fail(ErrTimeout()))},
		{name: "late", fits: put},
		{name: "reset", fits: all, fault: Fail(ErrReset())},
		{name: "reset after success", fits: put, fault: Landed(Fail(ErrReset()))},
		{name: "reset in the request", fits: put, fault: ResetRequest(100)},
		{name: "reset in the answer", fits: get, fault: ResetResponse(100)},
		{name: "truncated", fits: get, fault: Truncate(50)},
		{name: "shortened", fits: get, fault: Shorten(50)},
		{name: "flipped bit", fits: get, fault: FlipBody(-10)},
	}}
}

// Without excludes a kind of fault.
func (w *Weather) Without(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kinds = slices.DeleteFunc(w.kinds, func(k kind) bool { return k.name == name })
}

// Set changes the fraction of the requests with a fault, and the latency of the others, which
// varies between 0.5 and 1.5 times the given latency.
func (w *Weather) Set(rate float64, latency time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate, w.latency = rate, latency
}

// OnRequest sets a function that is called before each request.
func (w *Weather) OnRequest(seen func(Request)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = seen
}

// Decide is the argument for [Wrap] and [Proxy].
func (w *Weather) Decide(r Request) Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen != nil {
		w.seen(r)
	}
	if w.random.Float64() >= w.rate {
		return w.delay()
	}
	if len(w.late) > 0 && w.random.IntN(2) == 0 {
		late := w.late
		w.late = nil
		go settle(context.Background(), late)
	}
	k := w.next(r.Operation)
	k.times++
	if k.fault != nil {
		return k.fault
	}
	late := &Late{}
	w.late = append(w.late, late)
	return late.Hold()
}

func (w *Weather) delay() Fault {
	if w.latency == 0 {
		return nil
	}
	d := w.latency/2 + time.Duration(w.random.Int64N(int64(w.latency)))
	return Delay(d)
}

// next returns the applicable kind that has been injected least often.
func (w *Weather) next(o Operation) (least *kind) {
	first := w.random.IntN(len(w.kinds))
	for n := range w.kinds {
		k := &w.kinds[(first+n)%len(w.kinds)]
		if k.fits(o) && (least == nil || k.times < least.times) {
			least = k
		}
	}
	return least
}

// Settle sends all held requests.
func (w *Weather) Settle(ctx context.Context) {
	w.mu.Lock()
	late := w.late
	w.late = nil
	w.mu.Unlock()
	settle(ctx, late)
}

// settle releases held requests. No one waits for the responses.
func settle(ctx context.Context, late []*Late) {
	for _, l := range late {
		_, _ = l.Release(ctx)
	}
}

// Missing returns the names of the faults that have not been injected.
func (w *Weather) Missing() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.kinds {
		if k.times == 0 {
			names = append(names, k.name)
		}
	}
	return names
}

// String lists how often each fault has been injected.
func (w *Weather) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, k := range w.kinds {
		fmt.Fprintf(&b, "%s: %d, ", k.name, k.times)
	}
	return strings.TrimSuffix(b.String(), ", ")
}
