package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A Scheduler holds jobs in a database. Its methods may be called concurrently, by any number
// of processes if the database is PostgreSQL.
type Scheduler struct {
	db       *jobdb.DB
	kinds    Kinds
	defaults Settings
	cached   atomic.Pointer[Settings]

	mu      sync.Mutex
	workers map[*worker]bool // the nodes of this process
}

// Open opens the database of a scheduler by its URL, and creates or migrates its tables:
//
//	postgres://USER@HOST/DATABASE?schema=NAME   for any number of nodes; default: feedctl_jobs
//	sqlite:FILE                                 for one node, in a file of its own; FILE-node and FILE-migration are its locks
//	sqlite::memory:                             forgotten by Close
//
// The defaults apply to settings for which [Scheduler.Set] has stored no value; all programs that use the database should
// have the same defaults. The error matches [ErrURL] if the URL is invalid, and [ErrVersion] if a newer program has migrated
// the tables.
func Open(ctx context.Context, url string, kinds Kinds, defaults Settings) (*Scheduler, error) {
	return open(ctx, url, kinds, defaults, jobdb.Migrate)
}

// OpenExisting is like [Open], but creates and migrates nothing. The error matches [ErrNone] if there are no tables, and
// [ErrOld] if an older program has made them.
func OpenExisting(ctx context.Context, url string, kinds Kinds, defaults Settings) (*Scheduler, error) {
	return open(ctx, url, kinds, defaults, jobdb.Write)
}

// OpenReadOnly is like [OpenExisting], but methods that change anything fail. In a PostgreSQL database, the user needs only
// the right to read.
func OpenReadOnly(ctx context.Context, url string, kinds Kinds, defaults Settings) (*Scheduler, error) {
	return open(ctx, url, kinds, defaults, jobdb.Read)
}

func open(ctx context.Context, url string, kinds Kinds, defaults Settings, a jobdb.Access) (*Scheduler, error) {
	db, err := jobdb.Open(ctx, url, jobdb.Options{Access: a})
	if err != nil {
		return nil, err
	}
	s := newScheduler(db, kinds, defaults)
	if _, err := s.Settings(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newScheduler(db *jobdb.DB, kinds Kinds, defaults Settings) *Scheduler {
	s := &Scheduler{db: db, kinds: kinds, defaults: defaults, workers: map[*worker]bool{}}
	s.cached.Store(&defaults)
	return s
}

// Pages returns a handler that serves web pages about the runs of the last hours, below a path, until ctx ends. The caller
// must refuse all requests but GET and HEAD.
func (s *Scheduler) Pages(ctx context.Context, prefix string) (http.Handler, error) {
	return s.db.UI(ctx, prefix)
}

// Close closes the database.
func (s *Scheduler) Close() error { return s.db.Close() }

// Transactions lock rows in this order, so that they do not wait for each other in a circle:
//
//  1. the row of @mutex, and those of nodes,
//  2. jobs, by ID, with what belongs to each: events, statistics, log,
//  3. namespaces, by name,
//  4. origins.
//
// A transaction that would need another order takes only rows that are not locked (@skip), or begins with the rows that it
// needs: [Scheduler.OriginUp] locks an origin and then its jobs, but only waiting jobs, which are never locked by a
// transaction that waits for an origin. Rows that conflict through a unique index of jobs have no order: a deadlock is then
// possible, and Begin tries again.

// exclusively waits for other transactions that call it, and makes later ones wait for this one. It
// must be the first statement of a transaction.
func exclusively(ctx context.Context, tx jobdb.Tx) error {
	var one int
	_, err := jobdb.One(ctx, tx, "SELECT one FROM @mutex @lock", nil, &one)
	return err
}

// now returns the time of the database.
func now(ctx context.Context, tx jobdb.Tx) (time.Time, error) {
	var n int64
	_, err := jobdb.One(ctx, tx, "SELECT @now", nil, &n)
	return fromMicros(n), err
}

// load returns the jobs that a condition selects.
func load(ctx context.Context, tx jobdb.Tx, condition string, args ...any) (jobs []*Job, err error) {
	err = jobdb.Each(ctx, tx, "SELECT "+columns+" FROM @job "+condition, args, func(scan func(...any) error) error {
		j := &Job{}
		jobs = append(jobs, j)
		return j.scan(scan)
	})
	return jobs, err
}

// save writes the state of a job, and adds an event to its history. In the database, the job must still have the state and
// the epoch with which it was loaded.
func (s *Scheduler) save(ctx context.Context, tx jobdb.Tx, j *Job, event EventType, node string, now time.Time) error {
	state, epoch := j.stored, j.fence
	j.events++
	j.enter(now)
	const sql = `UPDATE @job SET document = $2, generation = $3, state = $4, paused = $5, epoch = $6, owner = $7, observed = $8, wanted = $9,
			seen = $10, not_before = $11, errors = $12, reason = $13, started = $14, stopped = $15, succeeded = $16, events = $17, since = $18,
			blamed = $19, behind = $20, orphaned = $21, failed = $22, failure = $23, hint = $24
		WHERE id = $1 AND state = $25 AND epoch = $26`
	changed, err := tx.Exec(ctx, sql, append(append([]any{j.Document.ID()}, j.values()...), state, epoch)...)
	if err != nil {
		return err
	}
	if changed != 1 {
		return fmt.Errorf("job %s is no longer %s in epoch %d", j.Document.ID(), state, epoch)
	}
	j.fence = j.Epoch
	_, err = tx.Exec(ctx, "INSERT INTO @event (job, number, at, type, node, reason) VALUES ($1, $2, $3, $4, $5, $6)",
		j.Document.ID(), j.events, micros(now), event, node, j.Reason)
	if err != nil {
		return err
	}
	if last := j.events - int64(s.settings().History); last > 0 {
		_, err = tx.Exec(ctx, "DELETE FROM @event WHERE job = $1 AND number <= $2", j.Document.ID(), last)
	}
	return err
}

// Get returns a job.
func (s *Scheduler) Get(ctx context.Context, id string) (*Job, error) {
	var found []*Job
	err := s.db.View(ctx, func(tx jobdb.Tx) (err error) {
		found, err = load(ctx, tx, "WHERE id = $1", id)
		return err
	})
	if err == nil && len(found) == 0 {
		err = ErrNoJob
	}
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", id, err)
	}
	return found[0], nil
}

// History returns the last events of a job, newest first.
func (s *Scheduler) History(ctx context.Context, id string) (events []Event, err error) {
	err = s.db.View(ctx, func(tx jobdb.Tx) (err error) {
		events, err = history(ctx, tx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read history of job %s: %w", id, err)
	}
	return events, nil
}

func history(ctx context.Context, tx jobdb.Tx, id string) ([]Event, error) {
	events, err := histories(ctx, tx, id)
	return events[id], err
}

// Histories returns the last events of several jobs, newest first, by ID.
func (s *Scheduler) Histories(ctx context.Context, ids ...string) (events map[string][]Event, err error) {
	err = s.db.View(ctx, func(tx jobdb.Tx) (err error) {
		events, err = histories(ctx, tx, ids...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read histories of %d jobs: %w", len(ids), err)
	}
	return events, nil
}

func histories(ctx context.Context, tx jobdb.Tx, ids ...string) (map[string][]Event, error) {
	events := map[string][]Event{}
	for some := range slices.Chunk(ids, MaxLimit) {
		args := make([]any, len(some))
		for n, id := range some {
			args[n] = id
		}
		sql := "SELECT job, at, type, node, reason FROM @event WHERE job IN (" + jobdb.List(1, len(some)) + ") ORDER BY job, number DESC"
		err := jobdb.Each(ctx, tx, sql, args, func(scan func(...any) error) error {
			var job string
			var e Event
			var at int64
			err := scan(&job, &at, &e.Type, &e.Node, &e.Reason)
			e.Time = fromMicros(at)
			events[job] = append(events[job], e)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return events, nil
}

// Wake records that jobs may have something to do. Idle jobs become due; running jobs check again before they become idle.
func (s *Scheduler) Wake(ctx context.Context, ids ...string) error {
	const atOnce = 500
	for from := 0; from < len(ids); from += atOnce {
		some := ids[from:min(from+atOnce, len(ids))]
		args := make([]any, len(some))
		for n, id := range some {
			args[n] = id
		}
		err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE @job SET wanted = wanted + 1, state = CASE WHEN state = 'idle' THEN 'pending' ELSE state END,
					since = CASE WHEN state = 'idle' THEN @now ELSE since END, behind = CASE WHEN state = 'idle' THEN @now ELSE behind END
				WHERE id IN (SELECT id FROM @job WHERE `+needsWatch+" AND id IN ("+jobdb.List(1, len(some))+") ORDER BY id @lock)", args...)
			return err
		})
		if err != nil {
			return fmt.Errorf("wake jobs: %w", err)
		}
	}
	s.poke()
	return nil
}

// observeWoken tells the nodes of this process that jobs were woken.
func (s *Scheduler) observeWoken(origin, how string, jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.workers {
		if jobs > 0 {
			w.config.Observer.Woken(origin, how, jobs)
		}
	}
}

// ObserveWatching tells the observers of the nodes of this process about a round of a [Watcher], or about a failure between
// two rounds.
func (s *Scheduler) ObserveWatching(took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.workers {
		w.config.Observer.Looped("watch", took, err)
	}
}

// poke lets the nodes of this process start due jobs at once.
func (s *Scheduler) poke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.workers {
		w.wake()
	}
}
