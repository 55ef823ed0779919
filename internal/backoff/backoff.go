// Package backoff computes the pauses between attempts, and waits for them to pass.
package backoff

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// A Backoff is a series of pauses: at most Min after the first failure, and twice as long after
// each one that follows, up to Max.
type Backoff struct {
	Min, Max time.Duration
}

// After returns the pause after the nth failure in a row, counted from 1, with jitter.
func (b Backoff) After(n int) time.Duration { return Jitter(b.Longest(n)) }

// Longest returns the longest pause that [Backoff.After] returns for n.
func (b Backoff) Longest(n int) time.Duration {
	pause := b.Min
	for i := 1; i < n && 0 < pause && pause < b.Max; i++ {
		pause *= 2
	}
	return min(pause, b.Max)
}

// Wait sleeps for the pause after the nth failure.
func (b Backoff) Wait(ctx context.Context, n int) error { return Sleep(ctx, b.After(n)) }

// Jitter returns a random duration between d/2 and d, so that clients that failed together do
// not retry together.
func Jitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) }

// Sleep waits for the given time. If ctx ends first, it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// RetryAfter returns the delay in the Retry-After field, in either of its forms (RFC 9110, section
// 10.2.3), or 0 if it is missing or invalid.
func RetryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
