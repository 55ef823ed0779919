package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A crowd is how many jobs run by origin, on all nodes. Nodes that start jobs at the same
// moment do not count those of each other: the limit is kept about.
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

// add counts jobs that use the same origins as the given one.
func (c *crowd) add(j *Job, jobs int) {
	c.running[j.origins[0]] += jobs
	if j.origins[1] != j.origins[0] {
		c.running[j.origins[1]] += jobs
	}
	delete(c.running, "")
}

func (c *crowd) isFull(origin string) bool { return c.limit > 0 && c.running[origin] >= c.limit }

// full returns the origins with which no further job may run.
func (c *crowd) full() (origins []string) {
	for origin := range c.running {
		if c.isFull(origin) {
			origins = append(origins, origin)
		}
	}
	slices.Sort(origins)
	return origins
}

// admits reports whether a job may run beside the others.
func (c *crowd) admits(j *Job) bool { return !c.isFull(j.origins[0]) && !c.isFull(j.origins[1]) }

// due is the condition for jobs that a node may start now, and the arguments of the condition.
// Those that use one of the origins that are full are left out.
func due(n Node, full []string, more ...any) (condition string, args []any) {
	args = append([]any{n.Name, n.text()}, more...)
	condition = "state = 'pending' AND not_before <= @now AND " + placed + " AND " + available
	if len(full) > 0 {
		list := jobdb.List(len(args)+1, len(full))
		condition += " AND source_origin NOT IN (" + list + ") AND target_origin NOT IN (" + list + ")"
		for _, origin := range full {
			args = append(args, origin)
		}
	}
	return condition, args
}

// crowded returns how many jobs a node could run if their origins were not full, by origin; at
// most so many for each.
func (s *Scheduler) crowded(ctx context.Context, n Node, full []string, most int) (waiting map[string]int, err error) {
	waiting = map[string]int{}
	for _, origin := range full {
		condition, args := due(n, nil, origin)
		var count int
		err := s.db.View(ctx, func(tx jobdb.Tx) error {
			_, err := jobdb.One(ctx, tx, "SELECT count(*) FROM (SELECT 1 FROM @job WHERE "+condition+" AND $3 IN (source_origin, target_origin) LIMIT "+strconv.Itoa(most)+") AS waiting", args, &count)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("count jobs that wait for others with %s: %w", origin, err)
		}
		if count > 0 {
			waiting[origin] = count
		}
	}
	return waiting, nil
}
