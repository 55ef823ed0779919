package consumer

import (
	"context"
	"errors"

	"github.com/feedctl/feedctl/internal/backoff"
)

// A retry counts attempts without progress.
type retry struct {
	s     *session
	tries int
}

func (s *session) newRetry() retry { return retry{s: s} }

// progress resets the count.
func (r *retry) progress() { r.tries = 0 }

// pause waits before another attempt after err. It returns err if there must not be another
// attempt, and the error of ctx if ctx has ended.
func (r *retry) pause(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	c := &r.s.config.Retry
	r.tries++
	sinkAway := errors.Is(err, ErrSinkUnavailable)
	if !sinkAway && !Retryable(err) || c.Attempts > 0 && r.tries >= c.Attempts {
		return err
	}
	pause := c.backoff().After(r.tries)
	var status *StatusError
	if errors.As(err, &status) {
		pause = max(pause, min(status.RetryAfter, c.MaxRetryAfter))
	}
	log := r.s.config.Logger.With("error", err, "try", r.tries, "pause", pause)
	if sinkAway {
		log.WarnContext(ctx, "sink is unavailable, retrying")
	} else {
		log.WarnContext(ctx, "request failed, retrying")
	}
	if c.Failed != nil {
		c.Failed(err)
	}
	return backoff.Sleep(ctx, pause)
}

func (r RetryConfig) backoff() backoff.Backoff { return backoff.Backoff{Min: r.Min, Max: r.Max} }
