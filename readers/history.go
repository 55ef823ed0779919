package readers

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/feedctl/feedctl/chain"
)

// The history of a lag has one value for each SampleEvery of the last hour, and the largest value in
// each CoarseEvery of the last day.
const (
	SampleEvery = 10 * time.Second
	CoarseEvery = 5 * time.Minute

	samples       = int(time.Hour / SampleEvery)
	coarse        = int(24 * time.Hour / CoarseEvery)
	samplesCoarse = int(CoarseEvery / SampleEvery)
)

// unknown stands for a lag that is not known.
const unknown = int32(-1)

// A History is the history of a reader's lag, in seconds, the oldest value first. If the lag was not
// known, the value is -1.
type History struct {
	Hour []int32 // one for each [SampleEvery]
	Day  []int32 // one for each [CoarseEvery]
}

// A history is a History to which values are added.
type history struct {
	hour, day ring
	since     int   // number of samples since the last coarse value
	worst     int32 // the largest of these samples
}

// A ring holds the most recent values.
type ring struct {
	values []int32
	next   int // index of the next value, once the ring is full
}

func (r *ring) add(v int32, limit int) {
	if n := len(r.values); n < limit {
		if n == cap(r.values) { // append might allocate more than is ever needed
			r.values = append(make([]int32, 0, min(2*n+8, limit)), r.values...)
		}
		r.values = append(r.values, v)
		return
	}
	r.values[r.next] = v
	r.next = (r.next + 1) % limit
}

// back returns the value that was added n values before the last one, or the oldest value if there are
// not that many.
func (r *ring) back(n int) int32 {
	n = min(n, len(r.values)-1)
	return r.values[(r.next-1-n+2*len(r.values))%len(r.values)]
}

func (r *ring) copy() []int32 {
	return slices.Concat(r.values[r.next:], r.values[:r.next])
}

func (h *history) copy() History { return History{Hour: h.hour.copy(), Day: h.day.copy()} }

// add adds a sample.
func (h *history) add(l Lag) {
	v := unknown
	if l.Known {
		v = int32(min(l.Time, 1<<31*time.Second-time.Second) / time.Second)
	}
	h.hour.add(v, samples)
	h.worst = max(h.worst, v)
	if h.since == 0 {
		h.worst = v
	}
	if h.since++; h.since == samplesCoarse {
		h.day.add(h.worst, coarse)
		h.since = 0
	}
}

// leastChange is the smallest change of a lag that counts as a trend. A change of less than a tenth of
// the lag does not count either.
const leastChange = 5 * time.Second

// trend compares the current lag with the lag five minutes ago, or with the oldest sample.
func (h *history) trend(now time.Duration) Trend {
	if len(h.hour.values) == 0 {
		return Steady
	}
	before := h.hour.back(samplesCoarse - 1)
	if before == unknown {
		return Steady
	}
	then := time.Duration(before) * time.Second
	if change := now - then; change.Abs() < max(leastChange, then/10) {
		return Steady
	}
	return Trend(cmp.Compare(now, then))
}

// Limits on requests for the newest pages of feeds.
const (
	askEvery = time.Minute     // minimum time between two requests for a feed whose readers do not request the newest page
	askMost  = 50              // feeds in each SampleEvery
	askTime  = 5 * time.Second // time limit for all these feeds together
)

// Run samples the lag of all readers until ctx ends. For feeds whose readers do not request the newest
// page, it calls newest, which returns that page, about once a minute for each feed, and at most 50
// times in ten seconds. Without Run, the newest page of a feed is known only from the last response that
// contained it.
func (t *Tracker) Run(ctx context.Context, newest func(ctx context.Context, feed string) (*chain.Page, error)) {
	ticker := time.NewTicker(SampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			t.ask(ctx, newest)
			t.sample()
		}
	}
}

// sample adds the current lag to the history of each reader.
func (t *Tracker) sample() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.feeds {
		for e := range f.readers {
			e.history.add(f.head.lag(e.Position))
		}
	}
}

// ask gets the newest pages of those feeds for which they have not been requested for a while.
func (t *Tracker) ask(ctx context.Context, newest func(context.Context, string) (*chain.Page, error)) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for _, name := range t.due() {
		p, err := newest(ctx, name)
		if err != nil {
			t.config.Logger.DebugContext(ctx, "newest page of a feed is not known", "feed", name, "error", err)
		}
		if ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		if f := t.feeds[name]; f != nil {
			f.head.checked = t.config.Now()
			if err == nil {
				f.saw(headOf(p, t.config.Now()))
			}
		}
		t.mu.Unlock()
	}
}

// due returns the feeds whose newest pages must be checked, starting with those that have not been
// checked for the longest time.
func (t *Tracker) due() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.config.Now().Add(-askEvery)
	var names []string
	for name, f := range t.feeds {
		if f.head.checked.Before(before) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(t.feeds[a].head.checked.Compare(t.feeds[b].head.checked), cmp.Compare(a, b))
	})
	return names[:min(len(names), askMost)]
}
