package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// An Observer is told what a node does. Its methods may be called concurrently, and must not
// block.
type Observer interface {
	// Started: a run has started; delay is the time since the job was due.
	Started(d *Document, delay time.Duration)
	// Healed: a run of a job whose node was lost has started; after is the time since the node was last heard from.
	Healed(after time.Duration)
	// Ended: a run has ended. The way it ended is one of a few words, such as "idle" or "crashed". If the job was
	// cancelled or deleted, the word is "cancelled".
	Ended(d *Document, how string)
	// Woken: this process has woken jobs that wait for changes of an origin. For jobs that wait for
	// local files, origin is the URL of the files. The parameter how is "event" if a watch has noticed a change, and
	// "sweep" if the jobs were woken because no working watch covers them.
	Woken(origin, how string, jobs int)
	// Adopted: jobs of lost nodes are due again.
	Adopted(jobs int)
	// Looped: a loop of the node has done its work, or failed to use the database.
	Looped(loop string, took time.Duration, err error)
}

// A noObserver is the [Observer] of a node without one.
type noObserver struct{}

func (noObserver) Started(*Document, time.Duration)    {}
func (noObserver) Healed(time.Duration)                {}
func (noObserver) Ended(*Document, string)             {}
func (noObserver) Woken(string, string, int)           {}
func (noObserver) Adopted(int)                         {}
func (noObserver) Looped(string, time.Duration, error) {}

// due returns when a job that is starting was due.
func (j *Job) due() time.Time {
	if j.NotBefore.After(j.Since) {
		return j.NotBefore
	}
	return j.Since
}

// how returns a word for how a run has ended, for an [Observer].
func (o *Outcome) how(cause error) string {
	switch {
	case errors.Is(cause, errLost):
		return "lost"
	case o.End == Stopped && (errors.Is(cause, errRotated) || errors.Is(cause, errLimit)):
		return "rotated"
	case o.End == Stopped && errors.Is(cause, errChanged):
		return "changed"
	}
	return map[End]string{Stopped: "stopped", CaughtUp: "idle", Done: "completed", Crashed: "crashed", Rejected: "failed", Duplicate: "duplicate", Found: "found"}[o.End]
}

// lagOf and pendingOf are expressions for the lag of a job, j, with the statistics s, and for what
// it still has to do. They are NULL if that is not known. Statistics from before the job was last
// caught up are ignored.
const (
	lagOf = `CASE WHEN NOT j.follow OR j.state IN ('paused', 'completed', 'failed') THEN NULL
		WHEN j.state = 'idle' THEN 0
		WHEN j.state = 'running' AND s.updated >= j.started THEN CASE WHEN s.lag > 0 THEN s.lag / 1000 + @now - s.updated WHEN s.lag = 0 THEN 0 END
		WHEN s.updated > j.behind AND s.lag > 0 AND s.lag / 1000 - s.updated > -j.behind THEN s.lag / 1000 + @now - s.updated
		ELSE @now - j.behind END`
	pendingOf = `CASE WHEN j.state IN ('completed', 'failed') THEN NULL
		WHEN j.state = 'idle' THEN 0
		WHEN s.updated > j.behind AND s.pending >= 0 THEN s.pending END`
)

// A Count holds how many jobs of a kind are in a state, and how much they still have to do.
type Count struct {
	Namespace, Kind string
	State           State // as shown
	Jobs            int
	// Pending is the total number of entities that these jobs still have to read; -1 if the number is not known for
	// any of them.
	Pending int64
	// Lag is the longest lag of these jobs; -1 if no lag is known. Jobs have a lag if they follow and are not paused.
	// The lag grows while a job waits.
	Lag time.Duration
	// Lags is the number of jobs whose lag is known, LagSum the sum of their lags, and Within the
	// number of lags up to each of the bounds.
	Lags   int
	LagSum time.Duration
	Within []int
}

// Counts returns how many jobs there are, by namespace, kind and state, and how many of the lags
// are within each of the bounds.
func (s *Scheduler) Counts(ctx context.Context, bounds ...time.Duration) (all []Count, err error) {
	var within strings.Builder
	var args []any
	for _, bound := range bounds {
		args = append(args, bound.Microseconds())
		fmt.Fprintf(&within, ", count(CASE WHEN lag <= $%d THEN 1 END)", len(args))
	}
	sql := `SELECT namespace, kind, state, crashing, count(*), CAST(coalesce(sum(pending), -1) AS bigint), coalesce(max(lag), -1), count(lag),
			CAST(coalesce(sum(lag), 0) AS bigint)` + within.String() + `
		FROM (SELECT j.namespace, j.kind, j.state, (j.state = 'pending' AND j.errors > 0) AS crashing, ` + pendingOf + ` AS pending, ` + lagOf + ` AS lag
			FROM @job AS j LEFT JOIN @stats AS s ON s.job = j.id) AS known
		GROUP BY namespace, kind, state, crashing ORDER BY 1, 2, 3, 4`
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		return jobdb.Each(ctx, tx, sql, args, func(scan func(...any) error) error {
			c := Count{Within: make([]int, len(bounds))}
			var crashing bool
			var longest, sum int64
			into := []any{&c.Namespace, &c.Kind, &c.State, &crashing, &c.Jobs, &c.Pending, &longest, &c.Lags, &sum}
			for n := range c.Within {
				into = append(into, &c.Within[n])
			}
			err := scan(into...)
			if crashing {
				c.State = Crashing
			}
			c.Lag, c.LagSum = age(longest), time.Duration(sum)*time.Microsecond
			all = append(all, c)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	return all, nil
}

// age converts an age from the database. A negative age means that it is unknown.
func age(n int64) time.Duration {
	if n < 0 {
		return -1
	}
	return time.Duration(n) * time.Microsecond
}

// A Lag says how much a job with [Document.Metrics] still has to do. Pending and Lag are -1 if they are not known.
type Lag struct {
	Namespace, Name string
	Pending         int64
	Lag             time.Duration // as in [Count]
}

// Lags returns how much each job with [Document.Metrics] still has to do, by namespace and name, for at most the
// given number of jobs. It also returns how many such jobs there are.
func (s *Scheduler) Lags(ctx context.Context, most int) (some []Lag, all int, err error) {
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		if _, err := jobdb.One(ctx, tx, "SELECT count(*) FROM @job WHERE metrics", nil, &all); err != nil {
			return err
		}
		const sql = "SELECT j.namespace, j.id, coalesce(" + pendingOf + ", -1), coalesce(" + lagOf + ", -1) FROM @job AS j LEFT JOIN @stats AS s ON s.job = j.id WHERE j.metrics ORDER BY j.namespace, j.id LIMIT $1"
		return jobdb.Each(ctx, tx, sql, []any{most}, func(scan func(...any) error) error {
			var l Lag
			var lag int64
			err := scan(&l.Namespace, &l.Name, &l.Pending, &lag)
			l.Name, l.Lag = strings.TrimPrefix(l.Name, l.Namespace+"/"), age(lag)
			some = append(some, l)
			return err
		})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read lags of jobs: %w", err)
	}
	return some, all, nil
}
