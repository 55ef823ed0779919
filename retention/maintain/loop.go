package maintain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/storage"
)

// Interval is the time between the rounds of a [Loop], shortened by up to a tenth at random, so that several
// processes do not begin their rounds at the same time.
const Interval = time.Hour

// A Loop carries out the policies of all feeds in a store, one feed after another.
type Loop struct {
	Store  storage.Store
	Config Config

	mu    sync.Mutex
	stats Stats
}

// Stats holds the counts of a [Loop] since it began.
type Stats struct {
	Feeds     int64     // with a policy, in the last round
	Snapshots int64     // that were made
	Deleted   int64     // snapshots that were deleted
	Pages     int64     // that were pruned
	Bytes     int64     // of these
	Failures  int64     // runs that ended with an error, which is in the log
	Failing   int64     // of these, in the last round
	Complete  time.Time // when the last round ended; zero before that
}

// Stats returns the counts so far.
func (l *Loop) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Run begins the first round at once, and ends when ctx does.
func (l *Loop) Run(ctx context.Context) {
	if l.Config.Logger == nil {
		l.Config.Logger = slog.New(slog.DiscardHandler)
	}
	for ctx.Err() == nil {
		l.round(ctx)
		_ = backoff.Sleep(ctx, Interval-rand.N(Interval/10)) // ctx has its error
	}
}

// round maintains all feeds.
func (l *Loop) round(ctx context.Context) {
	feeds, failures := int64(0), l.Stats().Failures
	for name, err := range chain.Feeds(ctx, l.Store, "") {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.failed(ctx, fmt.Errorf("list feeds: %w", err))
			break
		}
		report, err := Feed(ctx, l.Store, name, l.Config)
		switch {
		case errors.Is(err, retention.ErrNone):
			continue
		case errors.Is(err, chain.ErrNoFeed), err != nil && ctx.Err() != nil:
		case err != nil:
			l.failed(ctx, err)
		}
		feeds++
		l.count(report)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Feeds, l.stats.Failing, l.stats.Complete = feeds, l.stats.Failures-failures, time.Now()
}

// count adds what a run has done, even if the run failed later.
func (l *Loop) count(r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Snapshot {
		l.stats.Snapshots++
	}
	l.stats.Deleted += int64(len(r.Deleted))
	l.stats.Pages += r.Pages
	l.stats.Bytes += r.Bytes
}

func (l *Loop) failed(ctx context.Context, err error) {
	l.Config.Logger.ErrorContext(ctx, "cannot carry out retention policies, retrying in the next round", "error", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Failures++
}
