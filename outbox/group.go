package outbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// A Group holds the runners of a process, one for each feed.
type Group struct {
	db     *DB
	config Config
	once   bool

	mu      sync.Mutex
	runners map[string]*Runner
}

// NewGroup returns a group without runners. Each runner will have the given configuration, with its own
// feed. If once is true, runners end when all committed rows have been moved.
func NewGroup(db *DB, config Config, once bool) *Group {
	return &Group{db: db, config: config.withDefaults(), once: once, runners: make(map[string]*Runner)}
}

// Adopt calls [DB.Adopt] for each feed.
func (g *Group) Adopt(ctx context.Context, feeds []string) error {
	for _, name := range feeds {
		config := g.config
		config.Feed = name
		deleted, err := g.db.Adopt(ctx, config)
		if err != nil {
			return err
		}
		g.config.Logger.Warn("feed was adopted", "feed", name, "rows_found_in_it", deleted)
	}
	return nil
}

// start returns a new runner for a feed, or nil if the feed has one already.
func (g *Group) start(name string) (*Runner, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.runners[name] != nil {
		return nil, nil
	}
	config := g.config
	config.Feed = name
	r, err := g.db.NewRunner(config)
	if err != nil {
		return nil, err
	}
	g.runners[name] = r
	return r, nil
}

// Run moves the rows of the given feeds. It stops at the first error.
func (g *Group) Run(ctx context.Context, feeds []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, name := range feeds {
		r, err := g.start(name)
		if err != nil {
			return err
		}
		if r == nil {
			continue // named twice
		}
		wg.Go(func() {
			if err := g.move(ctx, r); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (g *Group) move(ctx context.Context, r *Runner) error {
	if g.once {
		return r.Drain(ctx)
	}
	return r.Run(ctx)
}

// feedsEvery is the interval at which RunAll checks for new feeds.
const feedsEvery = 2 * time.Second

// RunAll moves the rows of all feeds, including those that appear later. If the runner of a feed fails,
// the error is logged and the others continue. RunAll returns these errors when ctx ends or, if once is
// true, when all rows have been moved.
func (g *Group) RunAll(ctx context.Context) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	for {
		feeds, err := g.db.Feeds(ctx)
		if err != nil && (g.once || errors.Is(err, ErrSetup)) {
			failures = append(failures, err)
			break
		}
		if err != nil && ctx.Err() == nil {
			g.config.Logger.Warn("cannot check for further feeds, retrying", "error", err)
		}
		for _, name := range feeds {
			r, err := g.start(name)
			if err != nil || r == nil {
				continue
			}
			wg.Go(func() {
				err := g.move(ctx, r)
				if err == nil || ctx.Err() != nil {
					return
				}
				g.config.Logger.Error("outbox of a feed has stopped", "feed", name, "error", err)
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err)
			})
		}
		if g.once {
			break
		}
		select {
		case <-time.After(feedsEvery):
			continue
		case <-ctx.Done():
		}
		break
	}
	wg.Wait()
	return errors.Join(append(failures, context.Cause(ctx))...)
}

// Each calls f for each runner, ordered by the names of the feeds.
func (g *Group) Each(f func(name string, s Stats)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(g.runners)) {
		f(name, g.runners[name].Stats())
	}
}
