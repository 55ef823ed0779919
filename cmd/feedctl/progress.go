package main

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

// How often progress is shown on a terminal, and logged elsewhere.
const (
	showEvery = 200 * time.Millisecond
	logEvery  = 10 * time.Second
)

// status is how far a command has come.
type status struct {
	Entities int64
	Bytes    int64
	// Total is the number of bytes that Bytes will reach; 0 if not known.
	Total int64
	// Lag is how far the command is behind the newest page of a feed, in the
	// feed's own time; negative if not known.
	Lag time.Duration
	// Pending is how many changes are still to come; 0 if not known.
	Pending int64
}

// progress shows the status of a command while it runs: as a line on a
// terminal, as log lines elsewhere. The returned function ends that.
func (a *app) progress(verb string, read func() status) (stop func()) {
	every := logEvery
	if a.terminal {
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
				a.console.clear()
				return
			case now := <-tick.C:
				e.add(now, read())
				a.showProgress(verb, &e)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
}

func (a *app) showProgress(verb string, e *estimator) {
	if a.terminal {
		a.console.show(e.line(verb))
		return
	}
	last := e.last().status
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
	a.log.Info("progress", attrs...)
}

// window is how far back an estimator looks: rates should follow what happens.
const window = 10 * time.Second

type sample struct {
	at     time.Time
	status status
}

// An estimator tells the rate and the remaining time from the last samples.
type estimator struct{ samples []sample }

func (e *estimator) add(at time.Time, s status) {
	e.samples = append(e.samples, sample{at, s})
	for len(e.samples) > 2 && at.Sub(e.samples[1].at) >= window {
		e.samples = e.samples[1:]
	}
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

// eta estimates the time that remains, from the bytes of a known total or from
// the lag that shrinks.
func (e *estimator) eta() (time.Duration, bool) {
	first, last := e.first().status, e.last().status
	var done, rest float64
	switch {
	case last.Total > 0:
		done, rest = float64(last.Bytes-first.Bytes), float64(last.Total-last.Bytes)
	case last.Pending > 0 && first.Pending > last.Pending:
		done, rest = float64(first.Pending-last.Pending), float64(last.Pending)
	case last.Lag > 0 && first.Lag > last.Lag:
		done, rest = float64(first.Lag-last.Lag), float64(last.Lag)
	}
	if done <= 0 || rest <= 0 || e.elapsed() <= 0 {
		return 0, false
	}
	return time.Duration(rest / done * e.elapsed() * float64(time.Second)), true
}

// line is the progress line: "consume: 12,345 entities, 4.5 MiB, 1,200/s, lag 3s, ETA 12s".
func (e *estimator) line(verb string) string {
	last := e.last().status
	parts := []string{
		plural(last.Entities, "entity", "entities"),
		formatBytes(last.Bytes),
		formatCount(int64(e.rate())) + "/s",
	}
	if last.Lag >= 0 {
		parts = append(parts, "lag "+formatDuration(last.Lag))
	}
	if last.Pending > 0 {
		parts = append(parts, formatCount(last.Pending)+" pending")
	}
	if eta, ok := e.eta(); ok {
		parts = append(parts, "ETA "+formatDuration(eta))
	}
	return verb + ": " + strings.Join(parts, ", ")
}
