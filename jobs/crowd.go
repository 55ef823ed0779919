package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A crowd holds the number of running jobs on all nodes, by origin. Nodes that start jobs at the same
// moment do not count each other's jobs, so the limit is approximate.
type crowd struct {
	limit   int
	running map[string]int
}

func (s *Scheduler) crowd(ctx context.Context, tx jobdb.Tx) (*crowd, error) {
	c := &crowd{s.settings().PerOrigin, map[string]int{}}
	if c.limit == 0 {
		return c, nil
	}
	const sql = "SELECT source_origin, target_origin, count(*) FROM @job WHERE owner IS NOT NULL GROUP BY source_origin, target_origin"
	err := jobdb.Each(ctx, tx, sql, nil, func(scan func(...any) error) error {
		var j Job
		var jobs int
		err := scan(&j.origins[0], &j.origins[1], &jobs)
		c.add(&j, jobs)
		return err
	})
	return c, err
}

// full returns the origins that already have the maximum number of jobs.
func (s *Scheduler) full(ctx context.Context) (origins []string, err error) {
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		crowd, err := s.crowd(ctx, tx)
		if err == nil {
			origins = crowd.full()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count the jobs of each server: %w", err)
	}
	return origins, nil
}

// add adds a number of jobs that use the same origins as j.
func (c *crowd) add(j *Job, jobs int) {
	c.running[j.origins[0]] += jobs
	if j.origins[1] != j.origins[0] {
		c.running[j.origins[1]] += jobs
	}
	delete(c.running, "")
}

func (c *crowd) isFull(origin string) bool { return c.limit > 0 && c.running[origin] >= c.limit }

// full returns the origins for which no further job may run.
func (c *crowd) full() (origins []string) {
	for origin := range c.running {
		if c.isFull(origin) {
			origins = append(origins, origin)
		}
	}
	slices.Sort(origins)
	return origins
}

// admits reports whether a job may run alongside the others.
func (c *crowd) admits(j *Job) bool { return !c.isFull(j.origins[0]) && !c.isFull(j.origins[1]) }

// due returns the condition for jobs that a node may start now, and the arguments of the condition. Jobs
// that use one of the full origins are left out.
func due(n Node, full []string, more ...any) (condition string, args []any) {
	args = append([]any{n.Name, n.text()}, more...)
	condition = "state = 'pending' AND not_before <= @now AND " + placed(1) + " AND " + available
	if len(full) > 0 {
		list := jobdb.List(len(args)+1, len(full))
		condition += " AND source_origin NOT IN (" + list + ") AND target_origin NOT IN (" + list + ")"
		for _, origin := range full {
			args = append(args, origin)
		}
	}
	return condition, args
}

// crowded returns, by origin, how many jobs could run if their origins were not full. It counts up to
// the given number of jobs for each origin, including jobs of other nodes, since a job waits for runs on all nodes.
func (s *Scheduler) crowded(ctx context.Context, full []string, most int) (waiting map[string]int, err error) {
	waiting = map[string]int{}
	if len(full) == 0 {
		return waiting, nil
	}
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		condition, args, err := s.dueSomewhere(ctx, tx)
		if err != nil || condition == "" {
			return err
		}
		sql := "SELECT count(*) FROM (SELECT 1 FROM @job WHERE " + condition + fmt.Sprintf(" LIMIT $%d) AS waiting", len(args)+2)
		for _, origin := range full {
			var count int
			if _, err := jobdb.One(ctx, tx, sql, append(args, origin, most), &count); err != nil {
				return err
			}
			if count > 0 {
				waiting[origin] = count
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count jobs that wait because of their origins: %w", err)
	}
	return waiting, nil
}

// dueSomewhere returns the condition for jobs that use an origin and could start now on one of the nodes
// if the origin were not full. It also returns the arguments of the condition except the last, which is the origin.
// The condition is empty if there are no nodes.
func (s *Scheduler) dueSomewhere(ctx context.Context, tx jobdb.Tx) (condition string, args []any, err error) {
	somewhere, args, err := s.placedSomewhere(ctx, tx)
	if err != nil || somewhere == "" {
		return "", nil, err
	}
	condition = "state = 'pending' AND not_before <= @now AND (" + somewhere + ") AND " + available + fmt.Sprintf(" AND $%d IN (source_origin, target_origin)", len(args)+1)
	return condition, args, nil
}

// placedSomewhere returns the condition that a live node may run a job, and the arguments of the
// condition. The condition is empty if there are no such nodes.
func (s *Scheduler) placedSomewhere(ctx context.Context, tx jobdb.Tx) (condition string, args []any, err error) {
	t, err := now(ctx, tx)
	if err != nil {
		return "", nil, err
	}
	nodes, err := s.nodes(ctx, tx, t)
	var conditions []string
	for _, n := range nodes {
		if n.Alive {
			conditions = append(conditions, placed(len(args)+1))
			args = append(args, n.Name, n.text())
		}
	}
	return strings.Join(conditions, " OR "), args, err
}
