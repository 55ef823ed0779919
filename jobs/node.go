package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A Node is one incarnation of a process that runs jobs.
type Node struct {
	Incarnation string `json:"incarnation"`
	Name        string `json:"name"`
	Slots       int    `json:"slots"` // the maximum number of jobs that it runs
	Version     string `json:"version"`
	// Labels are matched with the labels that jobs require; see [Placement].
	Labels []string `json:"labels,omitempty"`
}

// Join makes a node known, and sets its incarnation; the caller sets the other fields. The node must then call
// [Scheduler.Heartbeat] within the lease.
func (s *Scheduler) Join(ctx context.Context, n Node) (Node, error) {
	if problems := CheckNodeLabels(n.Labels); len(problems) > 0 {
		return Node{}, fmt.Errorf("join as node %s: %s", n.Name, strings.Join(problems, "; "))
	}
	n.Incarnation = "node-" + strings.ToLower(rand.Text()[:16])
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO @node (incarnation, name, slots, version, labels, started, expires) VALUES ($1, $2, $3, $4, $5, @now, @now + $6)",
			n.Incarnation, n.Name, n.Slots, n.Version, strings.Join(n.Labels, ","), s.settings().Lease.Microseconds())
		return err
	})
	if err != nil {
		return Node{}, fmt.Errorf("join as node %s: %w", n.Name, err)
	}
	return n, nil
}

// Heartbeat extends the lease of a node, and updates its number of slots, even if the lease has expired. It
// returns [ErrExpired] if [Scheduler.Reap] was called after the lease had expired: other nodes then run its
// jobs, or soon will. It returns [ErrNamesake] if a node with the same name that joined earlier has called Heartbeat
// since this one joined.
func (s *Scheduler) Heartbeat(ctx context.Context, n Node) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		changed, err := tx.Exec(ctx, "UPDATE @node SET expires = @now + $2, slots = $3, beat = @now WHERE incarnation = $1 AND NOT lost", n.Incarnation, s.settings().Lease.Microseconds(), n.Slots)
		if err == nil && changed == 0 {
			err = ErrExpired
		}
		if err != nil {
			return err
		}
		var started int64
		const namesake = `SELECT o.started FROM @node AS n JOIN @node AS o ON o.name = n.name AND NOT o.lost
				AND (o.started < n.started OR o.started = n.started AND o.incarnation < n.incarnation)
			WHERE n.incarnation = $1 AND o.beat > n.started`
		if found, err := jobdb.One(ctx, tx, namesake, []any{n.Incarnation}, &started); err != nil || found {
			return cmp.Or(err, fmt.Errorf("%w, since %s", ErrNamesake, at(fromMicros(started))))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("heartbeat of node %s: %w", n.Name, err)
	}
	return nil
}

// Leave ends a node: its jobs are due at once on other nodes.
func (s *Scheduler) Leave(ctx context.Context, n Node) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE @node SET lost = true WHERE incarnation = $1", n.Incarnation); err != nil { // locks the node
			return err
		}
		if _, err := s.adopt(ctx, tx, nodeLeft, "WHERE owner = $1 ORDER BY id @lock", n.Incarnation); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM @node WHERE incarnation = $1", n.Incarnation)
		return err
	})
	if err != nil {
		return fmt.Errorf("leave as node %s: %w", n.Name, err)
	}
	return nil
}

// reapAtOnce is how many jobs of lost nodes one transaction adopts.
const reapAtOnce = 500

// Reap makes the jobs of lost nodes due on other nodes, and returns how many jobs there were. It also deletes
// ended transient jobs and lost nodes that are older than the retention.
func (s *Scheduler) Reap(ctx context.Context) (jobs int, err error) {
	for {
		some, err := s.reapSome(ctx)
		if err != nil {
			return jobs, fmt.Errorf("adopt jobs of lost nodes: %w", err)
		}
		jobs += some
		if some < reapAtOnce {
			return jobs, within(ctx, roundLimit, s.forget)
		}
	}
}

// reapSome adopts up to reapAtOnce jobs of lost nodes, and returns their number.
func (s *Scheduler) reapSome(ctx context.Context) (jobs int, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	err = s.db.Begin(ctx, func(tx jobdb.Tx) (err error) {
		if _, err := tx.Exec(ctx, "UPDATE @node SET lost = true WHERE incarnation IN (SELECT incarnation FROM @node WHERE expires <= @now AND NOT lost @skip)"); err != nil {
			return err
		}
		jobs, err = s.adopt(ctx, tx, nodeLost, "WHERE owner IS NOT NULL AND owner NOT IN (SELECT incarnation FROM @node WHERE NOT lost) LIMIT $1 @skip", reapAtOnce)
		return err
	})
	return jobs, err
}

// takeOver makes the jobs of all nodes due at once. The caller must know that no node is alive.
func (s *Scheduler) takeOver(ctx context.Context) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		if _, err := s.adopt(ctx, tx, nodeLost, "WHERE owner IS NOT NULL"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM @node")
		return err
	})
	if err != nil {
		return fmt.Errorf("adopt jobs of nodes that have ended: %w", err)
	}
	return nil
}

// A departure says how the node of a job has gone away.
type departure int

const (
	nodeLost departure = iota // its lease has expired
	nodeLeft                  // it has left
)

// adopt makes the jobs that the condition selects due on other nodes. It returns their number.
func (s *Scheduler) adopt(ctx context.Context, tx jobdb.Tx, how departure, condition string, args ...any) (int, error) {
	jobs, err := load(ctx, tx, condition, args...)
	if err != nil {
		return 0, err
	}
	t, err := now(ctx, tx)
	if err != nil {
		return 0, err
	}
	nodes, err := s.owners(ctx, tx)
	if err != nil {
		return 0, err
	}
	current, err := caughtUp(ctx, tx, jobs)
	if err != nil {
		return 0, err
	}
	slices.SortStableFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.Document.Namespace, b.Document.Namespace) })
	for _, j := range jobs {
		node := nodes[j.Owner]
		if current[j.Document.ID()] && node.heard.After(j.behind) {
			j.behind = node.heard
		}
		owner := cmp.Or(node.name, j.Owner)
		if err := s.charge(ctx, tx, j, t); err != nil {
			return 0, err
		}
		if how == nodeLeft { // there is no failure to heal from
			node.heard = time.Time{}
		}
		event := j.adopt(owner, node.heard, t)
		if err := s.save(ctx, tx, j, event, owner, t); err != nil {
			return 0, err
		}
	}
	return len(jobs), nil
}

// caughtUp returns which of the running jobs had caught up when their runs last reported.
func caughtUp(ctx context.Context, tx jobdb.Tx, jobs []*Job) (map[string]bool, error) {
	var ids []string
	for _, j := range jobs {
		ids = append(ids, j.Document.ID())
	}
	current := map[string]bool{}
	const sql = "SELECT s.job FROM @stats AS s JOIN @job AS j ON j.id = s.job AND s.updated >= j.started WHERE s.lag = 0 AND s.job IN (@list)"
	return current, eachOf(ctx, tx, sql, ids, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		current[id] = true
		return err
	})
}

// An owner is a node that has jobs.
type owner struct {
	name  string
	heard time.Time // its last heartbeat
}

// owners returns all nodes by incarnation.
func (s *Scheduler) owners(ctx context.Context, tx jobdb.Tx) (map[string]owner, error) {
	found := map[string]owner{}
	return found, jobdb.Each(ctx, tx, "SELECT incarnation, name, expires FROM @node", nil, func(scan func(...any) error) error {
		var incarnation string
		var o owner
		var expires int64
		err := scan(&incarnation, &o.name, &expires)
		o.heard = fromMicros(expires).Add(-s.settings().Lease)
		found[incarnation] = o
		return err
	})
}
