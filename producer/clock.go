package producer

import (
	"context"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/storage"
)

// clock determines the times of entities. Once a time is written, it has a lasting effect, because
// times never decrease. So a time that is too far ahead of the store's clock is refused.
type clock struct {
	now   func() time.Time
	skew  time.Duration
	store storage.Clock // nil if the store has no clock
	base  time.Time     // the time of the store's clock when it was last requested
	asked time.Time     // when base was requested, in this process's monotonic time
}

func newClock(ctx context.Context, store storage.Store, c Config) (*clock, error) {
	k := &clock{now: c.Now, skew: c.MaxClockSkew, base: c.Now(), asked: time.Now()}
	k.store, _ = storage.As[storage.Clock](store)
	return k, k.ask(ctx)
}

func (k *clock) ask(ctx context.Context) error {
	if k.store == nil {
		return nil
	}
	asked := time.Now()
	base, err := k.store.Now(ctx)
	if err != nil {
		return fmt.Errorf("ask the store for the time: %w", err)
	}
	k.base, k.asked = base, asked
	return nil
}

// stamp returns the Last-Modified for entities that are written after an entity whose Last-Modified
// is previous.
func (k *clock) stamp(ctx context.Context, previous time.Time) (time.Time, error) {
	t, err := k.check(previous)
	if err == nil {
		return t, nil
	}
	// The machine may have been suspended since the time was last requested.
	if err := k.ask(ctx); err != nil {
		return time.Time{}, err
	}
	return k.check(previous)
}

func (k *clock) check(previous time.Time) (time.Time, error) {
	now := feed.Milliseconds(k.now())
	reference := k.reference()
	limit := reference.Add(k.skew)
	switch {
	case previous.After(limit):
		return time.Time{}, fmt.Errorf("%w: the feed's newest entity is from %s, %v ahead of %s: correct the clock, or wait",
			ErrClock, previous.Format(time.RFC3339), previous.Sub(reference).Round(time.Second), reference.UTC().Format(time.RFC3339))
	case now.After(limit):
		return time.Time{}, fmt.Errorf("%w: it says %s, %v ahead of %s: correct it",
			ErrClock, now.Format(time.RFC3339), now.Sub(reference).Round(time.Second), reference.UTC().Format(time.RFC3339))
	case now.Before(previous):
		return previous, nil
	}
	return now, nil
}

// reference returns the current time of the store's clock, without a request.
func (k *clock) reference() time.Time { return k.base.Add(time.Since(k.asked)) }
