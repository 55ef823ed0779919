package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/storage"
)

// A mover moves rows from the outbox to the feed.
type mover interface {
	// move moves the next rows. After an error, it is not known whether the rows have been moved;
	// the next call finds out.
	move(ctx context.Context) (moved, error)
	close()
}

type moved struct {
	rows  int
	bytes int64 // of bodies
	bad   []badRow
	full  bool  // there may be more rows
	from  int64 // no row with a smaller id will appear
	last  int64 // the greatest id known to have been drawn
}

// Stats holds the statistics of a Runner since it was created.
type Stats struct {
	Rows        int64     `json:"moved"`
	Bytes       int64     `json:"bytes"` // the size of the bodies of these rows
	Quarantined int64     `json:"quarantined"`
	Working     bool      `json:"-"` // whether the runner currently holds the lease
	Last        time.Time `json:"-"` // when the runner last moved rows; zero if it has not moved any
	// Oldest is when the oldest row known to be waiting was inserted; zero if none is known.
	Oldest time.Time `json:"-"`
	// All rows with ids up to Through have been moved. Drawn is the greatest id known to have been
	// drawn, for rows of any feed. Both are -1 until the outbox has been read.
	Through int64 `json:"-"`
	Drawn   int64 `json:"-"`
}

// A Runner moves the rows of one feed.
type Runner struct {
	config Config
	db     *DB
	lease  *lease

	// The following fields are used only by Run and Drain.
	from   int64     // as in moved
	last   int64     // as in moved
	active time.Time // when the feed last had rows
	failed failures

	rows, bytes, quarantined atomic.Int64
	working                  atomic.Bool
	lastMove, oldest         atomic.Pointer[time.Time]
	through, drawn           atomic.Int64
}

// NewRunner returns a Runner. A runner uses up to three connections at a time, but while they wait
// for rows, all runners of a DB share one connection. Run and Drain must not be called
// concurrently.
func (d *DB) NewRunner(c Config) (*Runner, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	r := &Runner{config: c, db: d, lease: newLease(d, c)}
	r.config.taken = func(oldest time.Time) { r.oldest.Store(&oldest) }
	r.through.Store(-1)
	r.drawn.Store(-1)
	return r, nil
}

// Stats returns the runner's statistics. It may be called at any time.
func (r *Runner) Stats() Stats {
	s := Stats{Rows: r.rows.Load(), Bytes: r.bytes.Load(), Quarantined: r.quarantined.Load(), Working: r.working.Load(), Through: r.through.Load(), Drawn: r.drawn.Load()}
	if last := r.lastMove.Load(); last != nil {
		s.Last = *last
	}
	if oldest := r.oldest.Load(); oldest != nil {
		s.Oldest = *oldest
	}
	return s
}

// Run moves rows as they are committed, unless another runner moves them. When ctx ends, it
// finishes the current batch and returns. A runner releases the lease of a feed that has had no
// rows for 10 seconds; the first runner that sees a row takes the lease. Transient errors are
// logged and retried. Run returns the cause of the context's end, or an error that needs
// intervention: [ErrForeign], [ErrDestination], [ErrSetup], chain.ErrCorrupt,
// storage.ErrPermission, storage.ErrLayout or storage.ErrUnsafe; or the last transient error, if
// Config.RetryFor is set.
func (r *Runner) Run(ctx context.Context) error {
	for {
		taken, err := r.lease.take(ctx)
		if err == nil && taken {
			err = r.work(ctx, false)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case final(err):
			return err
		case errors.Is(err, errLeaseLost):
			r.config.Logger.Warn("another runner has taken over the feed", "feed", r.config.Feed)
			taken = false
		case err != nil:
			if r.failed.add(time.Now()) > r.config.RetryFor && r.config.RetryFor > 0 {
				return err
			}
			r.config.Logger.Warn("outbox failed, retrying", "feed", r.config.Feed, "error", err)
			if pauses().Wait(ctx, r.failed.count) != nil {
				return context.Cause(ctx)
			}
			continue
		}
		r.failed = failures{}
		if !taken {
			if backoff.Sleep(ctx, r.config.Lease/5) != nil {
				return context.Cause(ctx)
			}
		}
		if err := r.await(ctx); err != nil {
			return err
		}
	}
}

// await waits until there may be rows.
func (r *Runner) await(ctx context.Context) error {
	return r.db.poller.await(ctx, waiter{feed: r.config.Feed, from: r.from, last: r.last, poll: r.config.Poll, active: r.active, idle: r.config.Idle})
}

// Drain moves rows until there are none left. If another runner holds the lease, Drain returns when
// that runner has moved the rows that were committed before the call, or takes over if that runner
// has died. Drain stops at the first error.
func (r *Runner) Drain(ctx context.Context) error {
	last, err := r.newest(ctx)
	if err != nil {
		return err
	}
	for {
		taken, err := r.lease.take(ctx)
		if err != nil {
			return err
		}
		if taken {
			if err := r.work(ctx, true); !errors.Is(err, errLeaseLost) {
				return err
			}
		}
		if left, err := r.left(ctx, last); err != nil || !left {
			return err
		}
		if backoff.Sleep(ctx, r.config.Lease/5) != nil {
			return context.Cause(ctx)
		}
	}
}

// newest returns the greatest id in the outbox of the feed, or 0.
func (r *Runner) newest(ctx context.Context) (id int64, err error) {
	err = r.db.do(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT coalesce(max(id), 0) FROM outbox WHERE feed = $1`, r.config.Feed).Scan(&id)
	})
	if err != nil {
		return 0, fmt.Errorf("read outbox of feed %q: %w", r.config.Feed, err)
	}
	return id, nil
}

// left reports whether any rows with ids up to last are still in the outbox. Rows are deleted after
// they have been published.
func (r *Runner) left(ctx context.Context, last int64) (some bool, err error) {
	err = r.db.do(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outbox WHERE feed = $1 AND id <= $2)`, r.config.Feed, last).Scan(&some)
	})
	if err != nil {
		return false, fmt.Errorf("read outbox of feed %q: %w", r.config.Feed, err)
	}
	return some, nil
}

// work moves rows while the runner holds the lease: if drain is true, until there are no rows,
// otherwise until there have been no rows for idleAfter.
func (r *Runner) work(ctx context.Context, drain bool) (err error) {
	holding, stop := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		r.lease.keep(holding, stop)
	}()
	m := r.mover()
	r.working.Store(true)
	defer func() {
		r.working.Store(false)
		m.close()
		stop(nil)
		<-kept
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.Lease)
		defer cancel()
		if e := r.lease.release(cleanup); e != nil {
			r.config.Logger.Warn("lease was not released, another runner must wait until it expires", "feed", r.config.Feed, "error", e)
		}
	}()
	r.active = time.Now()
	for {
		// A move is not interrupted; the producer's RetryFor limits how long it takes.
		begun := time.Now()
		done, err := m.move(context.WithoutCancel(holding))
		if err != nil {
			return err
		}
		r.failed = failures{}
		r.count(done)
		r.from, r.last = done.from, done.last
		if r.from > 0 { // it is 0 if only the batch of an interrupted run was published
			r.through.Store(r.from - 1)
			r.drawn.Store(r.last)
		}
		if !done.full {
			r.oldest.Store(nil)
		}
		switch {
		case holding.Err() != nil:
			return context.Cause(holding)
		case done.full:
			continue
		case done.rows+len(done.bad) > 0:
			r.active = time.Now()
			if backoff.Sleep(holding, r.config.Poll-time.Since(begun)) != nil {
				err = context.Cause(holding)
			}
		case drain:
			return nil
		default:
			r.config.Idle()
			until, cancel := context.WithDeadline(holding, r.active.Add(r.db.poller.idleAfter))
			err = r.await(until)
			cancel()
			if err != nil && holding.Err() == nil {
				return nil // the feed is idle
			}
		}
		if err != nil {
			return err
		}
	}
}

func (r *Runner) mover() mover {
	if r.config.Local != nil {
		return newLocalPages(r.db, r.config)
	}
	return newRemotePages(r.db, r.config)
}

func (r *Runner) count(m moved) {
	if m.rows > 0 {
		now := time.Now()
		r.lastMove.Store(&now)
	}
	r.rows.Add(int64(m.rows))
	r.bytes.Add(m.bytes)
	r.quarantined.Add(int64(len(m.bad)))
	for _, b := range m.bad {
		r.config.Logger.Error("row cannot be published, moved to quarantine", "feed", r.config.Feed, "id", b.id, "reason", b.reason)
	}
}

// failures describes the current series of consecutive failures.
type failures struct {
	count int
	first time.Time
}

// add adds a failure, and returns the time since the first failure of the series.
func (f *failures) add(now time.Time) time.Duration {
	if f.count++; f.count == 1 {
		f.first = now
	}
	return now.Sub(f.first)
}

// final reports whether an error requires intervention.
func final(err error) bool {
	for _, e := range []error{ErrForeign, ErrDestination, ErrSetup, chain.ErrCorrupt, storage.ErrPermission, storage.ErrLayout, storage.ErrUnsafe} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// pauses returns the pauses to make between attempts.
func pauses() backoff.Backoff {
	return backoff.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}
}
