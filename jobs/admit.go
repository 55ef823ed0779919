package jobs

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// Admit starts due jobs on a node, at most the given number. Namespaces that have used least in proportion to their
// shares come first; within a namespace, the job whose last run began longest ago. It returns [ErrExpired] if the
// node's lease has expired.
func (s *Scheduler) Admit(ctx context.Context, n Node, most int) ([]Run, error) {
	runs, _, err := s.admit(ctx, n, most, func(context.Context, jobdb.Tx, Run) error { return nil })
	return runs, err
}

// admit is like Admit, and calls started for each run in the same transaction. It also returns the
// origins that already have the maximum number of jobs.
func (s *Scheduler) admit(ctx context.Context, n Node, most int, started func(context.Context, jobdb.Tx, Run) error) (runs []Run, full []string, err error) {
	if most <= 0 {
		full, err = s.full(ctx)
		return nil, full, err
	}
	err = s.db.Begin(ctx, func(tx jobdb.Tx) error {
		runs = nil
		t, err := now(ctx, tx)
		if err != nil {
			return err
		}
		if alive, err := alive(ctx, tx, n); err != nil || !alive {
			return cmp.Or(err, ErrExpired)
		}
		limits, err := limits(ctx, tx)
		if err != nil {
			return err
		}
		crowd, err := s.crowd(ctx, tx)
		if err != nil {
			return err
		}
		start := func(j *Job) error {
			crowd.add(j, 1)
			event := j.start(n.Incarnation, t)
			if err := s.save(ctx, tx, j, event, n.Name, t); err != nil {
				return err
			}
			runs = append(runs, Run{j, n})
			return started(ctx, tx, Run{j, n})
		}
		probes, err := s.probes(ctx, tx, n, most, t)
		if err != nil {
			return err
		}
		for _, j := range probes {
			if err := start(j); err != nil {
				return err
			}
		}
		err = s.share(ctx, tx, n, t, limits, crowd, func() int { return most - len(runs) }, start)
		full = crowd.full()
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start jobs on node %s: %w", n.Name, err)
	}
	return runs, full, nil
}

// share starts jobs while there is room, namespace by namespace.
func (s *Scheduler) share(ctx context.Context, tx jobdb.Tx, n Node, t time.Time, limits map[string]int, crowd *crowd, room func() int, start func(*Job) error) error {
	tenants, err := s.dueTenants(ctx, tx, n, crowd.full(), limits, t)
	if err != nil {
		return err
	}
	for room() > 0 && len(tenants) > 0 {
		first := leastUsed(tenants)
		j, err := first.next(ctx, tx, n, crowd, room())
		if err != nil {
			return err
		}
		if j == nil || first.limited && first.room <= 0 {
			delete(tenants, first.namespace)
			continue
		}
		if !crowd.admits(j) {
			continue // its origin has become full; jobs that are read from now on do not use it
		}
		first.room--
		first.usage += s.settings().Interval.Seconds() // so that one namespace does not take a whole admission
		if err := start(j); err != nil {
			return err
		}
	}
	return nil
}

// Waiting returns how many of the due jobs the node could run; it stops counting at the given maximum.
func (s *Scheduler) Waiting(ctx context.Context, n Node, most int) (count int, err error) {
	err = s.db.Begin(ctx, func(tx jobdb.Tx) error {
		crowd, err := s.crowd(ctx, tx)
		if err != nil {
			return err
		}
		condition, args := due(n, crowd.full(), most)
		_, err = jobdb.One(ctx, tx, "SELECT count(*) FROM (SELECT 1 FROM @job WHERE "+condition+" LIMIT $3) AS waiting", args, &count)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("count jobs that are due: %w", err)
	}
	return count, nil
}

func alive(ctx context.Context, tx jobdb.Tx, n Node) (bool, error) {
	var expires int64
	return jobdb.One(ctx, tx, "SELECT expires FROM @node WHERE incarnation = $1 AND expires > @now", []any{n.Incarnation}, &expires)
}

// A tenant is a namespace with jobs that are due.
type tenant struct {
	namespace string
	shares    float64
	usage     float64 // slot seconds, including those of runs that have not ended
	limited   bool
	room      int    // if limited, how many more jobs of the namespace may run
	due       []*Job // some of the due jobs
	waiting   int    // how many jobs are due; only for rotation
	read      bool   // all due jobs have been read
}

// limits returns how many jobs may run for each namespace that has a limit. Other nodes wait until
// the transaction ends, and then see which jobs have been started.
func limits(ctx context.Context, tx jobdb.Tx) (map[string]int, error) {
	most := map[string]int{}
	const sql = "SELECT namespace, max_running FROM @tenant WHERE max_running > 0 ORDER BY namespace @lock"
	return most, jobdb.Each(ctx, tx, sql, nil, func(scan func(...any) error) error {
		var namespace string
		var running int
		err := scan(&namespace, &running)
		most[namespace] = running
		return err
	})
}

func (s *Scheduler) dueTenants(ctx context.Context, tx jobdb.Tx, n Node, full []string, limits map[string]int, t time.Time) (map[string]*tenant, error) {
	tenants := map[string]*tenant{}
	condition, args := due(n, full)
	// EXISTS stops at the first job of each namespace, which may have thousands.
	sql := "SELECT namespace, shares, usage, charged FROM @tenant AS t WHERE EXISTS (SELECT 1 FROM @job AS j WHERE j.namespace = t.namespace AND " + condition + ")"
	err := jobdb.Each(ctx, tx, sql, args, func(scan func(...any) error) error {
		var x tenant
		var charged int64
		if err := scan(&x.namespace, &x.shares, &x.usage, &charged); err != nil {
			return err
		}
		x.usage = s.decayed(x.usage, t.Sub(fromMicros(charged)))
		x.room, x.limited = limits[x.namespace]
		tenants[x.namespace] = &x
		return nil
	})
	if err != nil || len(tenants) == 0 {
		return tenants, err
	}
	return tenants, s.addRunning(ctx, tx, tenants, t)
}

// addRunning adds to each tenant what its current runs have used so far.
func (s *Scheduler) addRunning(ctx context.Context, tx jobdb.Tx, tenants map[string]*tenant, t time.Time) error {
	const sql = "SELECT namespace, ($1 - started) / 1000000 AS age, count(*) FROM @job WHERE state = 'running' GROUP BY namespace, age"
	return jobdb.Each(ctx, tx, sql, []any{micros(t)}, func(scan func(...any) error) error {
		var namespace string
		var seconds int64
		var jobs int
		err := scan(&namespace, &seconds, &jobs)
		if x, ok := tenants[namespace]; ok {
			x.room -= jobs
			x.usage += float64(jobs) * s.used(time.Duration(seconds)*time.Second)
		}
		return err
	})
}

// queue returns the namespaces with their usage and the number of their jobs that wait for a slot of
// a node or, if origin is not "", for other jobs that use that origin.
func (s *Scheduler) queue(ctx context.Context, n Node, origin string) (tenants map[string]*tenant, err error) {
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		t, err := now(ctx, tx)
		if err != nil {
			return err
		}
		tenants = map[string]*tenant{}
		err = jobdb.Each(ctx, tx, "SELECT namespace, shares, usage, charged, max_running FROM @tenant", nil, func(scan func(...any) error) error {
			var x tenant
			var charged int64
			err := scan(&x.namespace, &x.shares, &x.usage, &charged, &x.room)
			x.usage = s.decayed(x.usage, t.Sub(fromMicros(charged)))
			x.limited = x.room > 0
			tenants[x.namespace] = &x
			return err
		})
		if err != nil {
			return err
		}
		if err := s.addRunning(ctx, tx, tenants, t); err != nil {
			return err
		}
		crowd, err := s.crowd(ctx, tx)
		if err != nil {
			return err
		}
		condition, args := due(n, crowd.full())
		if origin != "" {
			if condition, args, err = s.dueSomewhere(ctx, tx); err != nil || condition == "" {
				return err
			}
			args = append(args, origin)
		}
		return jobdb.Each(ctx, tx, "SELECT namespace, count(*) FROM @job WHERE "+condition+" GROUP BY namespace", args, func(scan func(...any) error) error {
			var namespace string
			var jobs int
			err := scan(&namespace, &jobs)
			if x, ok := tenants[namespace]; ok {
				x.waiting = jobs
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count jobs that are due by namespace: %w", err)
	}
	return tenants, nil
}

func leastUsed(tenants map[string]*tenant) (least *tenant) {
	for _, x := range tenants {
		if least == nil || x.usage*least.shares < least.usage*x.shares ||
			x.usage*least.shares == least.usage*x.shares && x.namespace < least.namespace {
			least = x
		}
	}
	return least
}

// dueAtOnce is how many due jobs of a namespace are read, and locked, at once.
const dueAtOnce = 20

// next returns a due job of the namespace, or nil. It reads at most the given number of jobs, for which there is
// room.
func (x *tenant) next(ctx context.Context, tx jobdb.Tx, n Node, crowd *crowd, most int) (j *Job, err error) {
	if len(x.due) == 0 && !x.read {
		most = min(most, dueAtOnce)
		condition, args := due(n, crowd.full(), x.namespace, most)
		x.due, err = load(ctx, tx, "WHERE "+condition+" AND namespace = $3 ORDER BY started, rank, id LIMIT $4 @skip", args...)
		if err != nil {
			return nil, err
		}
		x.read = len(x.due) < most
	}
	if len(x.due) == 0 {
		return nil, nil
	}
	j, x.due = x.due[0], x.due[1:]
	return j, nil
}

// decayed returns what a usage has decayed to after the given time.
func (s *Scheduler) decayed(usage float64, age time.Duration) float64 {
	return usage * math.Exp2(-max(age, 0).Seconds()/s.settings().HalfLife.Seconds())
}

// used returns the usage of a run of the given age. The first seconds of a run count least.
func (s *Scheduler) used(age time.Duration) float64 {
	full := s.settings().HalfLife.Seconds() / math.Ln2
	return full - s.decayed(full, age)
}

// charge adds the duration of a run to the usage of its namespace.
func (s *Scheduler) charge(ctx context.Context, tx jobdb.Tx, j *Job, t time.Time) error {
	var usage float64
	var charged int64
	if _, err := jobdb.One(ctx, tx, "SELECT usage, charged FROM @tenant WHERE namespace = $1 @lock", []any{j.Document.Namespace}, &usage, &charged); err != nil {
		return err
	}
	usage = s.decayed(usage, t.Sub(fromMicros(charged))) + s.used(t.Sub(j.Started))
	_, err := tx.Exec(ctx, "UPDATE @tenant SET usage = $2, charged = $3 WHERE namespace = $1", j.Document.Namespace, usage, micros(t))
	return err
}
