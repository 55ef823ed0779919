package bridge

import (
	"context"
	"errors"
	"sync/atomic"
)

// A Runner is the bridge of a source. Its runs return reports.
type Runner[R any] interface {
	Run(context.Context) (R, error)
	Progress() Progress
	Close() error
}

// Stages runs a bridge. Once the changes that exist are published, and before a second bridge waits for
// more, it can do something else, such as making a snapshot. The zero Stages is ready for use.
type Stages[R any] struct{ current atomic.Pointer[stage] }

// A stage is a bridge, and the progress of the bridges before it.
type stage struct {
	bridge  interface{ Progress() Progress }
	earlier Progress
}

// Progress returns the progress of all bridges together. It may be called while Run runs.
func (s *Stages[R]) Progress() Progress {
	if a := s.current.Load(); a != nil {
		return a.bridge.Progress().After(a.earlier)
	}
	return Progress{Pending: -1}
}

// Run runs a bridge that open returns. If caughtUp is not nil, the bridge does not follow; when it has
// ended, caughtUp is called and, if follow is set, a second bridge runs, which follows. Run returns the
// reports of the bridges that were opened, in order.
func (s *Stages[R]) Run(ctx context.Context, follow bool, caughtUp func(context.Context) error, open func(ctx context.Context, follow bool) (Runner[R], error)) ([]R, error) {
	first, err := s.stage(ctx, follow && caughtUp == nil, open)
	if err == nil && caughtUp != nil {
		err = caughtUp(ctx)
	}
	if err != nil || caughtUp == nil || !follow {
		return []R{first}, err
	}
	later, err := s.stage(ctx, true, open)
	return []R{first, later}, err
}

func (s *Stages[R]) stage(ctx context.Context, follow bool, open func(context.Context, bool) (Runner[R], error)) (report R, err error) {
	b, err := open(ctx, follow)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	s.current.Store(&stage{b, s.Progress()})
	return b.Run(ctx)
}
