package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// Tries is how often a document is asked for that the source does not give, and changes by a bridge
// that does not follow: what is away for a minute is waited for.
const Tries = 8

// A Patience says how long a source is waited for.
type Patience struct {
	// Retryable reports whether another try may help after an error, and Away whether the error is
	// about the source as a whole, which others will mend.
	Retryable, Away func(error) bool
	// Follow waits for a source that is away, however long.
	Follow bool
	// Attempts is how often changes are asked for without any progress. 0: [Tries], or without end
	// with Follow. Negative: without end.
	Attempts int
}

// pauses are those between attempts to read from a source.
func pauses() backoff.Backoff {
	return backoff.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}
}

// AskAgain returns nil after a pause if the changes are to be asked for again after they failed so
// often in a row, the last time with err.
func (b *Bridge) AskAgain(ctx context.Context, failed int, err error) error {
	most := b.config.Patience.Attempts
	if most == 0 && !b.config.Patience.Follow {
		most = Tries
	}
	if most > 0 && failed >= most {
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

// A Retry decides whether a request for a document is made again, and waits before.
type Retry struct {
	b        *Bridge
	attempts int
}

// NewRetry returns a retry of something that has not been tried yet.
func (b *Bridge) NewRetry() Retry { return Retry{b: b} }

// Reset forgets the failures so far.
func (r *Retry) Reset() { r.attempts = 0 }

// Last reports whether there is no point in another try after err, unless the source as a
// whole is away.
func (r *Retry) Last(err error) bool {
	return !r.b.config.Patience.Retryable(err) || r.attempts+1 >= Tries
}

// Again returns nil after a pause, or an error if there is no point in it.
func (r *Retry) Again(ctx context.Context, err error) error {
	p := &r.b.config.Patience
	if ctx.Err() != nil || r.Last(err) && !(p.Follow && p.Away(err)) {
		return err
	}
	return r.Wait(ctx)
}

// Wait waits, the longer the more often it is called.
func (r *Retry) Wait(ctx context.Context) error {
	r.attempts = min(r.attempts+1, Tries-1)
	return r.b.Sleep(ctx, pauses().After(r.attempts))
}
