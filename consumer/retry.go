package consumer

import (
	"context"
	"errors"

	"github.com/feedctl/feedctl/internal/backoff"
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
	pause := c.backoff().After(r.tries)
	var status *StatusError
	if errors.As(err, &status) {
		pause = max(pause, min(status.RetryAfter, c.MaxRetryAfter))
	}
	r.s.config.Logger.WarnContext(ctx, "will try again", "error", err, "try", r.tries, "pause", pause)
	return backoff.Sleep(ctx, pause)
}

func (r RetryConfig) backoff() backoff.Backoff { return backoff.Backoff{Min: r.Min, Max: r.Max} }
