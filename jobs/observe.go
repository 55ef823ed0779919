package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// An Observer is told what a node does. Its methods may be called concurrently, and must not
// block.
type Observer interface {
	// Started: a run has started, delay after the job was due.
	Started(d *Document, delay time.Duration)
	// Ended: a run has ended. How is one of a few words, such as "idle" and "crashed".
	Ended(d *Document, how string)
	// Adopted: jobs of lost nodes are due again.
	Adopted(jobs int)
	// Looped: a loop of the node has done its work, or failed to use the database.
	Looped(loop string, took time.Duration, err error)
}

// A noObserver is the [Observer] of a node without one.
type noObserver struct{}

func (noObserver) Started(*Document, time.Duration)    {}
func (noObserver) Ended(*Document, string)             {}
func (noObserver) Adopted(int)                         {}
func (noObserver) Looped(string, time.Duration, error) {}

// due is when a job that starts was due.
func (j *Job) due() time.Time {
	if j.NotBefore.After(j.Since) {
		return j.NotBefore
	}
	return j.Since
}

// how says in a word how a run has ended, for an [Observer].
func (o *Outcome) how(cause error) string {
	switch {
	case errors.Is(cause, errLost):
		return "lost"
	case o.End == Stopped && errors.Is(cause, errRotated):
		return "rotated"
	case o.End == Stopped && errors.Is(cause, errChanged):
		return "changed"
	}
	return map[End]string{Stopped: "stopped", CaughtUp: "idle", Done: "completed", Crashed: "crashed", Rejected: "failed", Duplicate: "duplicate", Found: "found"}[o.End]
}

// A Count is how many jobs of a kind are in a state.
type Count struct {
	Namespace, Kind string
	State           State // as shown
	Jobs            int
	// Pending and Lag are what these jobs have still to do in all, and the longest lag of one,
	// as far as known.
	Pending int64
	Lag     time.Duration
}

// Counts returns how many jobs there are, by namespace, kind and state.
func (s *Scheduler) Counts(ctx context.Context) (all []Count, err error) {
	const sql = `SELECT j.namespace, j.kind, j.state, (j.state = 'pending' AND j.errors > 0), count(*),
			CAST(coalesce(sum(CASE WHEN s.pending > 0 THEN s.pending END), 0) AS bigint), coalesce(max(CASE WHEN s.lag > 0 THEN s.lag END), 0)
		FROM @job AS j LEFT JOIN @stats AS s ON s.job = j.id
		GROUP BY j.namespace, j.kind, j.state, (j.state = 'pending' AND j.errors > 0) ORDER BY 1, 2, 3, 4`
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		return jobdb.Each(ctx, tx, sql, nil, func(scan func(...any) error) error {
			var c Count
			var crashing bool
			var lag int64
			err := scan(&c.Namespace, &c.Kind, &c.State, &crashing, &c.Jobs, &c.Pending, &lag)
			if crashing {
				c.State = Crashing
			}
			c.Lag = time.Duration(lag)
			all = append(all, c)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	return all, nil
}
