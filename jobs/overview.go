package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A NodeStatus is a node and its status.
type NodeStatus struct {
	Node
	Started time.Time `json:"started"`
	// Age is how long ago the node was last heard from.
	Age time.Duration `json:"-"` // as JSON, ageSeconds
	// Up is how long ago the node was started.
	Up time.Duration `json:"-"`
	// Alive reports whether the lease of the node is still valid. Otherwise, its jobs will soon run
	// elsewhere.
	Alive   bool `json:"alive"`
	Running int  `json:"running"` // jobs
}

// A LocalNode is what this process knows, without the database, about one of its own nodes.
type LocalNode struct {
	Name string
	// Lease is how much longer the lease lasts. If it is 0 or less, the lease has expired, and the
	// node's jobs run elsewhere, or soon will.
	Lease time.Duration
	// Delays holds, by origin, the time that each job leaves between two requests, because the
	// server has refused some requests as too many.
	Delays map[string]time.Duration
}

// LocalNodes returns the nodes of this process, by name.
func (s *Scheduler) LocalNodes() (nodes []LocalNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.workers {
		w.mu.Lock()
		nodes = append(nodes, LocalNode{w.config.Name, time.Until(w.leased), w.pool.Delays()})
		w.mu.Unlock()
	}
	slices.SortFunc(nodes, func(a, b LocalNode) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// lease records that the lease was extended at the given time or later.
func (w *worker) lease(extended time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leased = extended.Add(w.store.settings().Lease)
}

// Nodes returns all nodes that have not left, by name. Lost nodes are included until the time in the setting
// retention has passed.
func (s *Scheduler) Nodes(ctx context.Context) (nodes []NodeStatus, err error) {
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		t, err := now(ctx, tx)
		if err == nil {
			nodes, err = s.nodes(ctx, tx, t)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return nodes, nil
}

func (s *Scheduler) nodes(ctx context.Context, tx jobdb.Tx, t time.Time) (nodes []NodeStatus, err error) {
	settings, _, err := s.readSettings(ctx, tx)
	if err != nil {
		return nil, err
	}
	const sql = `SELECT incarnation, name, slots, version, labels, started, expires,
			(SELECT count(*) FROM @job WHERE owner = incarnation) FROM @node ORDER BY name, started`
	err = jobdb.Each(ctx, tx, sql, nil, func(scan func(...any) error) error {
		var n NodeStatus
		var labels string
		var started, expires int64
		err := scan(&n.Incarnation, &n.Name, &n.Slots, &n.Version, &labels, &started, &expires, &n.Running)
		n.Labels = strings.FieldsFunc(labels, func(r rune) bool { return r == ',' })
		n.Started = fromMicros(started)
		n.Up = t.Sub(n.Started)
		n.Age = t.Sub(fromMicros(expires).Add(-settings.Lease))
		n.Alive = fromMicros(expires).After(t)
		nodes = append(nodes, n)
		return err
	})
	return nodes, err
}

// An OriginStatus is a server that jobs use, and its status.
type OriginStatus struct {
	Origin string `json:"origin"`
	// Down reports whether the server is considered down because runs have failed. One job at a time
	// then tries the server.
	Down bool `json:"down,omitempty"`
	// Until is when the server is next used; the zero time if it has not failed.
	Until time.Time `json:"until,omitzero"`
	// Wait is the time left until then; 0 if that time has passed.
	Wait time.Duration `json:"-"`
	// Waits reports whether the server has asked its clients to wait, and is not down.
	Waits    bool   `json:"waits,omitempty"`
	Failures int    `json:"failures,omitempty"` // failed runs since the last success
	Reason   string `json:"reason,omitempty"`   // the last error
	Jobs     int    `json:"jobs"`
	Running  int    `json:"running"`
	Crashing int    `json:"crashing"`
}

// Origins returns the servers that jobs use, by name.
func (s *Scheduler) Origins(ctx context.Context) (origins []OriginStatus, err error) {
	const sql = `SELECT u.origin, coalesce(o.open, false), coalesce(o.blocked, 0), coalesce(o.blocked, 0) - @now, coalesce(o.blocked > @now AND NOT o.open, false), coalesce(o.failures, 0), coalesce(o.reason, ''),
			count(*), count(CASE WHEN state = 'running' THEN 1 END), count(CASE WHEN state = 'pending' AND errors > 0 THEN 1 END)
		FROM (SELECT source_origin AS origin, state, errors FROM @job WHERE source_origin <> ''
			UNION ALL SELECT target_origin, state, errors FROM @job WHERE target_origin <> '' AND target_origin <> source_origin) AS u
		LEFT JOIN @origin AS o ON o.origin = u.origin
		GROUP BY u.origin, o.open, o.blocked, o.failures, o.reason ORDER BY u.origin`
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		return jobdb.Each(ctx, tx, sql, nil, func(scan func(...any) error) error {
			var o OriginStatus
			var until, wait int64
			err := scan(&o.Origin, &o.Down, &until, &wait, &o.Waits, &o.Failures, &o.Reason, &o.Jobs, &o.Running, &o.Crashing)
			o.Until, o.Wait = fromMicros(until), max(0, time.Duration(wait)*time.Microsecond)
			origins = append(origins, o)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list servers of jobs: %w", err)
	}
	return origins, nil
}

// A TenantStatus is a namespace with its usage.
type TenantStatus struct {
	Namespace string `json:"namespace"`
	Shares    int    `json:"shares"`
	// MaxRunning is how many jobs of the namespace may run at the same time; 0 means no limit.
	MaxRunning int `json:"maxRunning,omitempty"`
	// Usage is the decayed usage of ended runs, in slot seconds. It halves every
	// [Settings.HalfLife].
	Usage   float64 `json:"usage"`
	Jobs    int     `json:"jobs"`
	Running int     `json:"running"`
	Waiting int     `json:"waiting"` // jobs that are due
}

// Tenants returns all namespaces, by name.
func (s *Scheduler) Tenants(ctx context.Context) (tenants []TenantStatus, err error) {
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		t, err := now(ctx, tx)
		if err == nil {
			tenants, err = s.tenants(ctx, tx, "", t)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	return slices.DeleteFunc(tenants, func(t TenantStatus) bool { return !Visible(ctx, t.Namespace) }), nil
}

// tenant returns one namespace.
func (s *Scheduler) tenant(ctx context.Context, tx jobdb.Tx, namespace string, t time.Time) (TenantStatus, error) {
	all, err := s.tenants(ctx, tx, "WHERE t.namespace = $1", t, namespace)
	if err != nil || len(all) == 0 {
		return TenantStatus{}, err
	}
	return all[0], nil
}

func (s *Scheduler) tenants(ctx context.Context, tx jobdb.Tx, where string, now time.Time, args ...any) (tenants []TenantStatus, err error) {
	if _, _, err := s.readSettings(ctx, tx); err != nil {
		return nil, err
	}
	sql := `SELECT t.namespace, t.shares, t.max_running, t.usage, t.charged, count(j.id), count(CASE WHEN j.state = 'running' THEN 1 END),
			count(CASE WHEN j.state = 'pending' AND j.not_before <= @now AND ` + available + ` THEN 1 END)
		FROM @tenant AS t LEFT JOIN @job AS j ON j.namespace = t.namespace ` + where + `
		GROUP BY t.namespace, t.shares, t.max_running, t.usage, t.charged ORDER BY t.namespace`
	err = jobdb.Each(ctx, tx, sql, args, func(scan func(...any) error) error {
		var x TenantStatus
		var charged int64
		err := scan(&x.Namespace, &x.Shares, &x.MaxRunning, &x.Usage, &charged, &x.Jobs, &x.Running, &x.Waiting)
		x.Usage = s.decayed(x.Usage, now.Sub(fromMicros(charged)))
		tenants = append(tenants, x)
		return err
	})
	return tenants, err
}

// A Tenant holds what can be set for a namespace. Nil fields leave their values unchanged.
type Tenant struct {
	// Shares is a number from 1 to 1000. Namespaces with waiting jobs divide the slots in proportion to their shares.
	Shares *int `json:"shares,omitempty"`
	// MaxRunning is how many jobs of the namespace may run at the same time; 0 means no limit.
	MaxRunning *int `json:"maxRunning,omitempty"`
}

func (t *Tenant) check(namespace string) (problems InvalidError) {
	if !validName.MatchString(namespace) {
		problems = append(problems, Problem{Field: "namespace", Message: fmt.Sprintf("invalid name %q: %s", namespace, nameRule)})
	}
	if t.Shares != nil && (*t.Shares < 1 || *t.Shares > 1000) {
		problems = append(problems, Problem{Field: "shares", Message: fmt.Sprintf("invalid shares %d: want 1 to 1000", *t.Shares)})
	}
	if t.MaxRunning != nil && *t.MaxRunning < 0 {
		problems = append(problems, Problem{Field: "maxRunning", Message: fmt.Sprintf("invalid number of running jobs %d: want 0 or more", *t.MaxRunning)})
	}
	return problems
}

// SetTenant changes the settings of a namespace: everything that is in t, or nothing if it returns an error. The
// error is an [InvalidError] if the namespace or a value is invalid.
func (s *Scheduler) SetTenant(ctx context.Context, namespace string, t Tenant) error {
	if problems := t.check(namespace); len(problems) > 0 {
		return problems
	}
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		for _, set := range []struct {
			column string
			value  *int
		}{{"shares", t.Shares}, {"max_running", t.MaxRunning}} {
			if set.value == nil {
				continue
			}
			sql := "INSERT INTO @tenant (namespace, " + set.column + ", charged) VALUES ($1, $2, @now) ON CONFLICT (namespace) DO UPDATE SET " + set.column + " = excluded." + set.column
			if _, err := tx.Exec(ctx, sql, namespace, *set.value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("set shares of namespace %s: %w", namespace, err)
	}
	return nil
}

// ResetTenant gives a namespace the default shares and limits. A namespace without jobs is then no
// longer listed.
func (s *Scheduler) ResetTenant(ctx context.Context, namespace string) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		if err := exclusively(ctx, tx); err != nil { // so that no job can be added to the namespace meanwhile
			return err
		}
		const unused = "DELETE FROM @tenant WHERE namespace = $1 AND NOT EXISTS (SELECT 1 FROM @job WHERE namespace = $1)"
		if _, err := tx.Exec(ctx, unused, namespace); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE @tenant SET shares = $2, max_running = 0 WHERE namespace = $1", namespace, defaultShares)
		return err
	})
	if err != nil {
		return fmt.Errorf("reset namespace %s: %w", namespace, err)
	}
	return nil
}

// defaultShares is the number of shares of a namespace for which nothing is set.
const defaultShares = 100

// SetShares calls SetTenant with [Tenant.Shares].
func (s *Scheduler) SetShares(ctx context.Context, namespace string, shares int) error {
	return s.SetTenant(ctx, namespace, Tenant{Shares: &shares})
}

// SetMaxRunning calls SetTenant with [Tenant.MaxRunning].
func (s *Scheduler) SetMaxRunning(ctx context.Context, namespace string, most int) error {
	return s.SetTenant(ctx, namespace, Tenant{MaxRunning: &most})
}
