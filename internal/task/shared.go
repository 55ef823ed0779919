package task

import (
	"context"

	"github.com/feedctl/feedctl/internal/shared"
	"github.com/feedctl/feedctl/storage"
)

// Shared has the stores that runs use at the same time: each is opened once, and closed when no run
// uses it. The zero Shared has none. Its memory and connections do not grow with the number of runs.
type Shared struct {
	stores shared.Pool[storage.Store]
}

// shared returns what the run shares with others, if anything.
func (e *Env) shared() *Shared {
	if e.Shared == nil {
		return &Shared{}
	}
	return e.Shared
}

// open opens what has a name, unless another run has, and releases it at the end of the run.
func open[T any](ctx context.Context, e *Env, from *shared.Pool[T], name string, closeIt func(T) error, openIt func(context.Context) (T, error)) (T, error) {
	value, release, err := from.Open(ctx, name, openIt, closeIt)
	if err == nil {
		e.AtEnd(release, "store")
	}
	return value, err
}
