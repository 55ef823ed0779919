package consumer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// A retry counts how often something was tried without progress.
type retry struct {
	s     *session
	tries int
}

func (s *session) newRetry() retry { return retry{s: s} }

// progress forgets the failures so far.
func (r *retry) progress() { r.tries = 0 }

// pause waits until it is time to try again after err. It returns err if
// there is no point in it, and the context's error if that ended.
func (r *retry) pause(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	c := &r.s.config.Retry
	r.tries++
	if !Retryable(err) || c.Attempts > 0 && r.tries >= c.Attempts {
		return err
	}
	pause := jitter(backoff(c.Min, c.Max, r.tries))
	var status *StatusError
	if errors.As(err, &status) {
		pause = max(pause, min(status.RetryAfter, c.MaxRetryAfter))
	}
	r.s.config.Logger.WarnContext(ctx, "will try again", "error", err, "try", r.tries, "pause", pause)
	return sleep(ctx, pause)
}

// backoff returns the pause after the nth failure, from 1: from least, twice
// as long each time, up to most.
func backoff(least, most time.Duration, n int) time.Duration {
	pause := least
	for i := 1; i < n && pause < most; i++ {
		pause *= 2
	}
	return min(pause, most)
}

// jitter takes a random part of up to a half off, so that those who failed
// together do not come back together.
func jitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
