package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// Tries is how many times a request for a document is tried. A bridge that does not follow tries a
// request for changes as often. Together, the attempts outlast an outage of a minute.
const Tries = 8

// A RetryPolicy says how failures of a source are retried.
type RetryPolicy struct {
	// Retryable reports whether a request may succeed later, and Away whether an error means that
	// the source as a whole is unavailable for now.
	Retryable, Away func(error) bool
	// Follow retries without limit while the source is unavailable.
	Follow bool
	// Attempts is how many times changes are requested without any progress. 0: [Tries], or no
	// limit with Follow. Negative: no limit.
	Attempts int
}

// pauses returns the pauses between attempts to read from a source.
func pauses() backoff.Backoff {
	return backoff.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}
}

// AskAgain returns nil after a pause if the changes are to be requested again. failed is the number
// of consecutive failures, of which err is the last.
func (b *Bridge) AskAgain(ctx context.Context, failed int, err error) error {
	most := b.config.RetryPolicy.Attempts
	if most == 0 && !b.config.RetryPolicy.Follow {
		most = Tries
	}
	switch {
	case most == 1:
		return err
	case most > 0 && failed >= most:
		return fmt.Errorf("no progress in %d attempts: %w", most, err)
	}
	pause, ends := pauses().After(failed), "never"
	if most > 0 {
		left := time.Duration(0)
		for n := failed; n < most; n++ {
			left += pauses().Longest(n)
		}
		ends = fmt.Sprintf("after %d attempts, in about %v", most, left)
	}
	b.log.Warn("source is unavailable, retrying", "source", b.config.Source, "error", err, "attempt", failed, "pause", pause, "gives_up", ends)
	return b.Sleep(ctx, pause)
}

// A Retry decides whether to repeat a request for a document, and pauses before the next attempt.
type Retry struct {
	b        *Bridge
	attempts int
}

// NewRetry returns a Retry without failures.
func (b *Bridge) NewRetry() Retry { return Retry{b: b} }

// Reset forgets the failures so far.
func (r *Retry) Reset() { r.attempts = 0 }

// Last reports whether the request should not be repeated after err, unless the source as a
// whole is unavailable.
func (r *Retry) Last(err error) bool {
	return !r.b.config.RetryPolicy.Retryable(err) || r.attempts+1 >= Tries
}

// Again returns nil after a pause if the request should be repeated, and otherwise err.
func (r *Retry) Again(ctx context.Context, err error) error {
	p := &r.b.config.RetryPolicy
	if ctx.Err() != nil || r.Last(err) && !(p.Follow && p.Away(err)) {
		return err
	}
	return r.Wait(ctx)
}

// Wait pauses, longer with each call.
func (r *Retry) Wait(ctx context.Context) error {
	r.attempts = min(r.attempts+1, Tries-1)
	return r.b.Sleep(ctx, pauses().After(r.attempts))
}
