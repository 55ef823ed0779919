package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A Run is a job on a node, from its start to its end.
type Run struct {
	Job  *Job // as it was at the start
	Node Node
}

// owned returns the job of a run that a node is to execute, and the statistics of the previous runs, or
// [ErrFenced].
func (s *Scheduler) owned(ctx context.Context, id runID, n Node) (*Job, Stats, error) {
	var found []*Job
	var past Stats
	err := s.db.Begin(ctx, func(tx jobdb.Tx) (err error) {
		found, err = load(ctx, tx, "WHERE id = $1 AND epoch = $2 AND owner = $3", id.job, id.epoch, n.Incarnation)
		if err != nil {
			return err
		}
		stored, err := loadStats(ctx, tx, id.job)
		if stored != nil {
			past = *stored
		}
		return err
	})
	if err == nil && len(found) == 0 {
		err = ErrFenced
	}
	if err != nil {
		return nil, Stats{}, fmt.Errorf("execute run %d of job %s: %w", id.epoch, id.job, err)
	}
	return found[0], past, nil
}

// Finish ends a run. If the job has since had another run, or was deleted, it changes nothing and returns
// [ErrFenced].
func (s *Scheduler) Finish(ctx context.Context, r Run, o Outcome) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		found, err := load(ctx, tx, "WHERE id = $1 AND epoch = $2 AND owner = $3 @lock", r.Job.Document.ID(), r.Job.Epoch, r.Node.Incarnation)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return ErrFenced
		}
		j := found[0]
		t, err := now(ctx, tx)
		if err != nil {
			return err
		}
		if err := s.charge(ctx, tx, j, t); err != nil {
			return err
		}
		if o.Stats != nil {
			if err := saveStats(ctx, tx, []total{{runID{r.Job.Document.ID(), r.Job.Epoch}, *o.Stats}}); err != nil {
				return err
			}
		}
		o.Healthy = o.Healthy || t.Sub(j.Started) >= s.settings().HealthThreshold
		o.Reason, o.Hint = clean(o.Reason), clean(o.Hint)
		event, err := j.finish(o, s.delay(&j.Document), t)
		if err != nil {
			return err
		}
		if o.Origin != nil && j.State == Pending {
			until, err := originFailed(ctx, tx, o.Origin, t)
			if err != nil {
				return err
			}
			if !until.IsZero() {
				j.NotBefore = until // when the origin is tried again, rather than the job
			}
		}
		return s.save(ctx, tx, j, event, r.Node.Name, t)
	})
	if err != nil {
		return fmt.Errorf("finish run %d of job %s: %w", r.Job.Epoch, r.Job.Document.ID(), err)
	}
	return nil
}

// delay returns a function that returns how long a job waits after consecutive errors.
func (s *Scheduler) delay(d *Document) func(errors int64) time.Duration {
	least, most := cmp.Or(d.Backoff.Min, s.settings().Backoff.Min), cmp.Or(d.Backoff.Max, s.settings().Backoff.Max)
	return func(errors int64) time.Duration {
		full := most
		if doublings := errors - 1; least <= most>>doublings { // least<<doublings may overflow
			full = least << doublings
		}
		return time.Duration(float64(full) * (0.75 + rand.Float64()/4))
	}
}

// An Order tells a node to stop a job that it runs, or to check again whether it has more to do.
type Order struct {
	Namespace, Name string
	Epoch           int64
	Wanted          int64 // reasons to run, so far
	// Stop reports whether the job was paused or changed. There is no order for a job that was deleted or
	// runs elsewhere.
	Stop bool
	// Age is how long ago the run was started.
	Age time.Duration
}

// ID returns the ID of the job.
func (o *Order) ID() string { return o.Namespace + "/" + o.Name }

// Orders returns the orders for all jobs of a node.
func (s *Scheduler) Orders(ctx context.Context, n Node) (orders []Order, err error) {
	err = s.db.Begin(ctx, func(tx jobdb.Tx) error {
		return jobdb.Each(ctx, tx, "SELECT namespace, id, epoch, wanted, paused OR generation <> observed, @now - started FROM @job WHERE owner = $1", []any{n.Incarnation}, func(scan func(...any) error) error {
			var o Order
			var age int64
			err := scan(&o.Namespace, &o.Name, &o.Epoch, &o.Wanted, &o.Stop, &age)
			o.Name = strings.TrimPrefix(o.Name, o.Namespace+"/")
			o.Age = time.Duration(age) * time.Microsecond
			orders = append(orders, o)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read orders for node %s: %w", n.Name, err)
	}
	return orders, nil
}

// Pause pauses jobs by ID, and stops those that run. It returns how many were not paused before. Like Resume,
// Restart and Cancel, it changes up to 500 jobs in a transaction: if ctx ends, it may have changed only some
// of the jobs.
func (s *Scheduler) Pause(ctx context.Context, ids ...string) (int, error) {
	return s.each(ctx, "pause", EventPaused, ids, func(_ jobdb.Tx, j *Job, _ time.Time) (bool, error) { return j.pause(), nil })
}

// Resume undoes [Scheduler.Pause]. Jobs with a schedule wait for their next time.
func (s *Scheduler) Resume(ctx context.Context, ids ...string) (int, error) {
	return s.each(ctx, "resume", EventResumed, ids, func(_ jobdb.Tx, j *Job, now time.Time) (bool, error) { return j.resume(now) })
}

// Restart makes jobs due at once if they wait, are idle or have ended. The error matches [ErrTaken] if a job has
// ended, and another one now does the same or writes to its target.
func (s *Scheduler) Restart(ctx context.Context, ids ...string) (int, error) {
	return s.each(ctx, "restart", EventRestarted, ids, func(tx jobdb.Tx, j *Job, _ time.Time) (bool, error) {
		if j.Finished() {
			if err := taken(ctx, tx, j); err != nil {
				return false, err
			}
		}
		return j.restart(), nil
	})
}

// taken returns an error if a job that has ended cannot run again, since another one has taken over its work
// or target.
func taken(ctx context.Context, tx jobdb.Tx, j *Job) error {
	var other string
	const sql = `SELECT o.id FROM @job AS j JOIN @job AS o ON o.work = j.work OR o.target = j.target AND j.target <> ''
		WHERE j.id = $1 AND o.id <> j.id AND o.state NOT IN ('completed', 'failed') AND (j.transient OR NOT o.transient) ORDER BY o.id LIMIT 1`
	found, err := jobdb.One(ctx, tx, sql, []any{j.Document.ID()}, &other)
	if err == nil && found {
		if !Visible(ctx, namespaceOf(other)) {
			return fmt.Errorf("%w: it is in another namespace, so change this one", ErrTaken)
		}
		err = fmt.Errorf("%w: delete job %s, or change one of the two", ErrTaken, other)
	}
	return err
}

// each changes jobs by ID, up to atOnce in a transaction. It returns the number of jobs for which the given function
// has reported a change, and the errors of jobs that cannot be changed; such errors do not keep it from changing the
// others. If ctx ends, the changes of earlier transactions stay.
func (s *Scheduler) each(ctx context.Context, what string, event EventType, ids []string, change func(tx jobdb.Tx, j *Job, now time.Time) (bool, error)) (changed int, err error) {
	var failed []error
	for some := range slices.Chunk(ids, atOnce) {
		var n int
		var cannot []error
		err := s.db.Begin(ctx, func(tx jobdb.Tx) (err error) {
			n, cannot, err = s.eachIn(ctx, tx, what, event, some, change)
			return err
		})
		if err != nil {
			return changed, errors.Join(append(failed, err)...)
		}
		changed += n
		failed = append(failed, cannot...)
	}
	return changed, errors.Join(failed...)
}

func (s *Scheduler) eachIn(ctx context.Context, tx jobdb.Tx, what string, event EventType, ids []string, change func(tx jobdb.Tx, j *Job, now time.Time) (bool, error)) (changed int, cannot []error, err error) {
	if err := exclusively(ctx, tx); err != nil { // otherwise documents that are being applied could take over the work of the jobs
		return 0, nil, err
	}
	found, err := load(ctx, tx, "WHERE id IN ("+jobdb.List(1, len(ids))+") ORDER BY id @lock", anys(ids)...)
	if err != nil {
		return 0, nil, err
	}
	t, err := now(ctx, tx)
	if err != nil {
		return 0, nil, err
	}
	all := map[string]*Job{}
	for _, j := range found {
		all[j.Document.ID()] = j
	}
	for _, id := range ids {
		does, err := false, ErrNoJob
		if j := all[id]; j != nil {
			does, err = change(tx, j, t)
			if does && err == nil {
				err = s.save(ctx, tx, j, event, "", t)
			}
		}
		if err != nil {
			err = fmt.Errorf("%s job %s: %w", what, id, err)
		}
		switch {
		case errors.Is(err, ErrNoJob), errors.Is(err, ErrFollows), errors.Is(err, ErrTaken):
			cannot = append(cannot, err)
		case err != nil:
			return 0, nil, err
		case does:
			changed++
		}
	}
	return changed, cannot, nil
}

// Delete deletes jobs, up to 500 in a transaction. The data that the jobs have written is kept. If ctx ends, the
// remaining jobs are kept, too.
func (s *Scheduler) Delete(ctx context.Context, ids ...string) error {
	for some := range slices.Chunk(ids, atOnce) {
		err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
			lock := func(func(...any) error) error { return nil }
			if err := eachOf(ctx, tx, "SELECT id FROM @job WHERE id IN (@list) ORDER BY id @lock", some, lock); err != nil {
				return err
			}
			return remove(ctx, tx, some...)
		})
		if err != nil {
			return fmt.Errorf("delete %d jobs, beginning with %s: %w", len(some), some[0], err)
		}
	}
	return nil
}

// DeleteIf deletes a job, provided that the given function returns true for the job's [Job.Version]. Otherwise, the
// error matches [ErrConflict].
func (s *Scheduler) DeleteIf(ctx context.Context, id string, may func(id, version string) bool) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		var generation, created int64
		var paused bool
		found, err := jobdb.One(ctx, tx, "SELECT generation, created, paused FROM @job WHERE id = $1 @lock", []any{id}, &generation, &created, &paused)
		switch {
		case err != nil:
			return err
		case !found:
			return ErrNoJob
		case !may(id, versionOf(generation, created, paused)):
			return fmt.Errorf("%w: it has version %s", ErrConflict, versionOf(generation, created, paused))
		}
		return remove(ctx, tx, id)
	})
	if err != nil {
		return fmt.Errorf("delete job %s: %w", id, err)
	}
	return nil
}
