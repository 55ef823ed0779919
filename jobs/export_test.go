package jobs

import (
	"context"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// NewScheduler returns a scheduler on a database that a test has opened.
var NewScheduler = newScheduler

// Beside returns another scheduler on the database of s, as a second process would open it.
func Beside(s *Scheduler) *Scheduler { return newScheduler(s.db, s.kinds, s.defaults) }

// Block makes a scheduler record that a server asks its clients to wait.
var Block = (*Scheduler).block

// Delay returns how long a job waits after a number of consecutive errors.
func Delay(s *Scheduler, d *Document, errors int64) time.Duration { return s.delay(d)(errors) }

// MayReap reports whether a node that has joined, and then sent heartbeats with the given gaps, may declare others
// lost.
func MayReap(gaps ...time.Duration) bool {
	w := &worker{store: newScheduler(nil, nil, Defaults())}
	w.beaten()
	for _, gap := range gaps {
		time.Sleep(gap)
		w.beaten()
	}
	return w.mayReap()
}

// Canonical returns a document in the form in which it is stored and compared.
func Canonical(d *Document) string { return d.canonical() }

// How returns how a run has ended, in the words that are passed to an [Observer].
func (o *Outcome) How() string { return o.how(nil) }

// EndedByOrders reports whether a run is ended by orders that do not mention it, given the time when the run began
// and the time when the orders were requested.
func EndedByOrders(began, asked time.Time) (ended bool) {
	w := &worker{runs: map[runID]*activeRun{{}: {began: began, end: func(error) { ended = true }}}}
	w.follow(nil, asked)
	return ended
}

// SaveAfter loads a job, executes a statement in the same transaction, and then pauses the job.
func SaveAfter(ctx context.Context, s *Scheduler, id, statement string) error {
	return s.db.Begin(ctx, func(tx jobdb.Tx) error {
		found, err := load(ctx, tx, "WHERE id = $1", id)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, statement, id); err != nil {
			return err
		}
		found[0].pause()
		return s.save(ctx, tx, found[0], EventPaused, "", time.Now())
	})
}

// NoObserver does nothing.
var NoObserver Observer = noObserver{}

// Report writes the statistics of a run, as its node does.
func Report(ctx context.Context, s *Scheduler, r Run, stats Stats) error {
	return s.report(ctx, []total{{runID{r.Job.Document.ID(), r.Job.Epoch}, stats}})
}

// Lose declares the nodes of a scheduler lost, as another node that has not heard from them does.
func Lose(s *Scheduler) error {
	ctx := context.Background()
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE @node SET expires = 0")
		return err
	})
	if err == nil {
		_, err = s.Reap(ctx)
	}
	return err
}
