// Package progress shows the progress of a command, and the remaining time.
package progress

import (
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/console"
	"github.com/feedctl/feedctl/internal/human"
)

// How often progress is shown on a terminal, and logged elsewhere.
const (
	showEvery = 200 * time.Millisecond
	LogEvery  = 10 * time.Second
)

// A Status is the progress of a command.
type Status struct {
	Entities int64
	Bytes    int64
	// Total is the number of bytes that Bytes will reach; 0 if not known.
	Total int64
	// Lag is the time between the newest page of a feed and the position; negative if
	// unknown.
	Lag time.Duration
	// Pending is the number of changes still to come; 0 if unknown.
	Pending int64
	// Search, if not nil, describes the search that precedes the reading of a feed.
	Search *Search
}

// A Search is the progress of a search, page by page, for where to begin in a feed.
type Search struct {
	Pages int64         // pages that have been passed
	At    time.Time     // the time of the last of these pages
	Left  time.Duration // estimated; negative if unknown
}

// String returns the progress: "searching for the start: page 41,200, at 2026-03-02, about 3h0m left".
func (s *Search) String() string {
	text := "searching for the start: page " + human.Count(s.Pages) + ", at " + s.At.UTC().Format(time.DateOnly)
	if s.Left >= 0 {
		text += ", about " + human.Duration(s.Left) + " left"
	}
	return text
}

// A Display shows progress: as a line on a terminal, or elsewhere as log lines.
type Display struct {
	Terminal *console.Console // nil: none
	Log      *slog.Logger
}

// Show shows the status of a command, as returned by read, until stop is called.
func (d Display) Show(verb string, read func() Status) (stop func()) {
	every := LogEvery
	if d.Terminal != nil {
		every = showEvery
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		var e estimator
		e.add(time.Now(), read())
		for {
			select {
			case <-done:
				if d.Terminal != nil {
					d.Terminal.Clear()
				}
				return
			case now := <-tick.C:
				e.add(now, read())
				d.show(verb, &e)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
}

func (d Display) show(verb string, e *estimator) {
	if d.Terminal != nil {
		d.Terminal.Show(e.line(verb))
		return
	}
	last := e.last().status
	if s := last.Search; s != nil {
		d.Log.Info("progress", "command", verb, "doing", s.String())
		return
	}
	attrs := []any{
		slog.String("command", verb),
		slog.Int64("entities", last.Entities),
		slog.Int64("bytes", last.Bytes),
		slog.Int64("entities_per_second", int64(e.rate())),
	}
	if last.Lag >= 0 {
		attrs = append(attrs, slog.Duration("lag", last.Lag.Truncate(time.Second)))
	}
	if last.Pending > 0 {
		attrs = append(attrs, slog.Int64("pending", last.Pending))
	}
	if eta, ok := e.eta(); ok {
		attrs = append(attrs, slog.Duration("eta", eta.Truncate(time.Second)))
	}
	d.Log.Info("progress", attrs...)
}

// window is the time over which an estimator computes the current rate of entities. The remaining time should not
// jump at each pause, so it is computed from all samples: their weight decreases with age, to 1/e after etaDecay.
const (
	window   = 10 * time.Second
	etaDecay = 30 * time.Second
)

type sample struct {
	at     time.Time
	status Status
}

// An estimator computes the rate and the remaining time from recent samples.
type estimator struct {
	samples    []sample
	done, took float64 // weighted work and the weighted seconds that it took
}

func (e *estimator) add(at time.Time, s Status) {
	if len(e.samples) > 0 {
		e.update(e.last(), sample{at, s})
	}
	e.samples = append(e.samples, sample{at, s})
	for len(e.samples) > 2 && at.Sub(e.samples[1].at) >= window {
		e.samples = e.samples[1:]
	}
}

// update adds the work between two samples to the estimate.
func (e *estimator) update(from, to sample) {
	seconds := to.at.Sub(from.at).Seconds()
	before, after := from.status.rest(), to.status.rest()
	if seconds <= 0 || before <= 0 || after < 0 {
		return
	}
	keep := math.Exp(-seconds / etaDecay.Seconds())
	e.done = e.done*keep + before - after
	e.took = e.took*keep + seconds
}

// rest returns what remains, in bytes, changes or nanoseconds of the feed's time, whichever is known.
// It is negative if none of them is known.
func (s Status) rest() float64 {
	switch {
	case s.Total > 0:
		return float64(s.Total - s.Bytes)
	case s.Pending > 0:
		return float64(s.Pending)
	}
	return float64(s.Lag)
}

func (e *estimator) first() sample { return e.samples[0] }
func (e *estimator) last() sample  { return e.samples[len(e.samples)-1] }

// elapsed returns the seconds between the first and the last sample.
func (e *estimator) elapsed() float64 { return e.last().at.Sub(e.first().at).Seconds() }

// rate returns entities per second.
func (e *estimator) rate() float64 {
	if e.elapsed() <= 0 {
		return 0
	}
	return float64(e.last().status.Entities-e.first().status.Entities) / e.elapsed()
}

// eta estimates the remaining time. It returns false if there is no estimate, because no progress has been seen or
// nothing remains.
func (e *estimator) eta() (time.Duration, bool) {
	rest := e.last().status.rest()
	if e.done <= 0 || rest <= 0 {
		return 0, false
	}
	seconds := min(rest/e.done*e.took, math.MaxInt32) // a Duration has room for no more than 292 years
	return time.Duration(seconds * float64(time.Second)), true
}

// line returns the progress line, such as "consume: 12,345 entities, 4.5 MiB, 1,200/s, lag 3s, ETA
// 12s".
func (e *estimator) line(verb string) string {
	last := e.last().status
	if last.Search != nil {
		return verb + ": " + last.Search.String()
	}
	parts := []string{
		human.Plural(last.Entities, "entity", "entities"),
		human.Bytes(last.Bytes),
		human.Count(int64(e.rate())) + "/s",
	}
	if last.Lag >= 0 {
		parts = append(parts, "lag "+human.Duration(last.Lag))
	}
	if last.Pending > 0 {
		parts = append(parts, human.Count(last.Pending)+" pending")
	}
	if eta, ok := e.eta(); ok {
		parts = append(parts, "ETA "+human.Duration(eta))
	}
	return verb + ": " + strings.Join(parts, ", ")
}
