package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A Node is one incarnation of a process that runs jobs.
type Node struct {
	Incarnation string `json:"incarnation"`
	Name        string `json:"name"`
	Slots       int    `json:"slots"` // how many jobs it runs at most
	Version     string `json:"version"`
	// Labels are matched with those that jobs require; see [Placement].
	Labels []string `json:"labels,omitempty"`
}

// Join makes a node known, which must call [Scheduler.Heartbeat] within the lease. The caller
// sets the other fields.
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

// Heartbeat extends the lease of a node, and updates its number of slots, also if the lease has
// expired. It returns [ErrExpired] if [Scheduler.Reap] was called in between: then other nodes
// run its jobs, or will.
func (s *Scheduler) Heartbeat(ctx context.Context, n Node) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		changed, err := tx.Exec(ctx, "UPDATE @node SET expires = @now + $2, slots = $3 WHERE incarnation = $1 AND NOT lost", n.Incarnation, s.settings().Lease.Microseconds(), n.Slots)
		if err == nil && changed == 0 {
			err = ErrExpired
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("heartbeat of node %s: %w", n.Name, err)
	}
	return nil
}

// Leave ends a node: its jobs are due on other nodes at once.
func (s *Scheduler) Leave(ctx context.Context, n Node) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE @node SET lost = true WHERE incarnation = $1", n.Incarnation); err != nil { // locks it
			return err
		}
		if err := s.adopt(ctx, tx, "WHERE owner = $1 ORDER BY id @lock", n.Incarnation); err != nil {
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

// Reap makes the jobs of lost nodes due on other nodes. It returns how many there were. It also deletes what is
// older than the retention.
func (s *Scheduler) Reap(ctx context.Context) (jobs int, err error) {
	for {
		var some int
		err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE @node SET lost = true WHERE incarnation IN (SELECT incarnation FROM @node WHERE expires <= @now AND NOT lost @skip)"); err != nil {
				return err
			}
			lost, err := load(ctx, tx, "WHERE owner IS NOT NULL AND owner NOT IN (SELECT incarnation FROM @node WHERE NOT lost) LIMIT $1 @skip", reapAtOnce)
			if err != nil {
				return err
			}
			some = len(lost)
			return s.adoptAll(ctx, tx, lost)
		})
		if err != nil {
			return jobs, fmt.Errorf("adopt jobs of lost nodes: %w", err)
		}
		jobs += some
		if some < reapAtOnce {
			return jobs, s.forget(ctx)
		}
	}
}

// takeOver makes the jobs of all nodes due at once. The caller knows that none works.
func (s *Scheduler) takeOver(ctx context.Context) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		if err := s.adopt(ctx, tx, "WHERE owner IS NOT NULL"); err != nil {
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

func (s *Scheduler) adopt(ctx context.Context, tx jobdb.Tx, condition string, args ...any) error {
	lost, err := load(ctx, tx, condition, args...)
	if err != nil {
		return err
	}
	return s.adoptAll(ctx, tx, lost)
}

func (s *Scheduler) adoptAll(ctx context.Context, tx jobdb.Tx, lost []*Job) error {
	t, err := now(ctx, tx)
	if err != nil {
		return err
	}
	names, err := nodeNames(ctx, tx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(lost, func(a, b *Job) int { return cmp.Compare(a.Document.Namespace, b.Document.Namespace) })
	for _, j := range lost {
		owner := cmp.Or(names[j.Owner], j.Owner)
		if err := s.charge(ctx, tx, j, t); err != nil {
			return err
		}
		event := j.adopt(owner, t)
		if err := s.save(ctx, tx, j, event, owner, t); err != nil {
			return err
		}
	}
	return nil
}

// nodeNames returns the names of nodes by incarnation.
func nodeNames(ctx context.Context, tx jobdb.Tx) (map[string]string, error) {
	names := map[string]string{}
	return names, jobdb.Each(ctx, tx, "SELECT incarnation, name FROM @node", nil, func(scan func(...any) error) error {
		var incarnation, name string
		err := scan(&incarnation, &name)
		names[incarnation] = name
		return err
	})
}
