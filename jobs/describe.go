package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A Description is a job with everything that the scheduler knows about it.
type Description struct {
	Listed
	// Why explains in one sentence why the job is in its state, and what it waits for.
	Why string `json:"why"`
	// Lease is the lease of the node that runs the job; nil if no node does.
	Lease *Lease `json:"lease,omitempty"`
	// Watch describes how the job is woken; nil if it does not follow.
	Watch *WatchStatus `json:"watch,omitempty"`
	// Command is the command line that does the same as the job, if the kind has a method Command(*Document) string.
	Command string  `json:"command,omitempty"`
	Events  []Event `json:"events"` // the latest events, newest first
}

// A Lease is the lease of the node that a job is on.
type Lease struct {
	// Age is the time since the last heartbeat of the node; -1 if it has left.
	Age time.Duration `json:"-"` // as JSON, ageSeconds
	// Stale reports whether the lease has expired; another node will run the job.
	Stale bool `json:"stale,omitempty"`
}

// Describe returns the description of a job.
func (s *Scheduler) Describe(ctx context.Context, id string) (*Description, error) {
	d := &Description{}
	err := s.db.View(ctx, func(tx jobdb.Tx) error {
		var c conditions
		c.add("j.id = ?", id)
		found, err := list(ctx, tx, c, 1, 0)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return ErrNoJob
		}
		d.Listed = found[0]
		if d.Events, err = history(ctx, tx, id); err != nil {
			return err
		}
		if d.Document.Follow {
			if d.Watch, err = watchStatus(ctx, tx, id); err != nil {
				return err
			}
			d.Watch.Error = errorTo(ctx, d.Watch.Error)
		}
		f, err := s.facts(ctx, tx, &d.Job)
		if err != nil {
			return err
		}
		f.watch = d.Watch
		d.Why, d.Lease = f.why(), f.lease
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("describe job %s: %w", id, err)
	}
	if k, ok := s.kinds[d.Document.Kind].(interface{ Command(d *Document) string }); ok {
		d.Command = k.Command(&d.Document)
	}
	return d, nil
}

// facts holds the inputs of the sentence that explains the state of a job.
type facts struct {
	job     *Job
	now     time.Time
	node    string // the node that runs the job
	lease   *Lease
	nodes   []NodeStatus // the live nodes
	watch   *WatchStatus // nil if the job does not follow
	origins []blockedOrigin
	tenant  TenantStatus
	once    string // a transient job that does the same; "" if there is none
	full    string // an origin that has the maximum number of running jobs
	limit   int    // the maximum number of running jobs with the same origin
	before  int    // jobs of the namespace that are due before this one
	others  int    // jobs of other namespaces that are due
	limited bool   // the caller must not learn of jobs of other namespaces
}

type blockedOrigin struct {
	name, reason string
	down         bool
	until        time.Time
}

func (s *Scheduler) facts(ctx context.Context, tx jobdb.Tx, j *Job) (f *facts, err error) {
	_, limited := visible(ctx)
	f = &facts{job: j, limited: limited}
	if f.now, err = now(ctx, tx); err != nil {
		return f, err
	}
	nodes, err := s.nodes(ctx, tx, f.now)
	if err != nil {
		return f, err
	}
	if j.State == Running {
		f.node, f.lease = j.Owner, &Lease{Age: -1, Stale: true}
	}
	for _, n := range nodes {
		if n.Alive {
			f.nodes = append(f.nodes, n)
		}
		if n.Incarnation == j.Owner {
			f.node, f.lease = n.Name, &Lease{n.Age, !n.Alive}
		}
	}
	if j.State != Pending {
		return f, nil
	}
	const blocked = `SELECT o.origin, o.reason, o.open, o.blocked FROM @origin AS o
		JOIN @job AS j ON o.origin IN (j.source_origin, j.target_origin) WHERE j.id = $1 AND (o.open OR o.blocked > @now) ORDER BY o.open DESC, o.blocked DESC`
	err = jobdb.Each(ctx, tx, blocked, []any{j.Document.ID()}, func(scan func(...any) error) error {
		var o blockedOrigin
		var until int64
		err := scan(&o.name, &o.reason, &o.down, &until)
		o.reason, o.until = errorTo(ctx, o.reason), fromMicros(until)
		f.origins = append(f.origins, o)
		return err
	})
	if err != nil {
		return f, err
	}
	if f.tenant, err = s.tenant(ctx, tx, j.Document.Namespace, f.now); err != nil {
		return f, err
	}
	const once = `SELECT o.id FROM @job AS j JOIN @job AS o ON o.work = j.work OR o.target = j.target AND j.target <> ''
		WHERE j.id = $1 AND NOT j.transient AND o.transient AND o.state NOT IN ('completed', 'failed') ORDER BY o.id LIMIT 1`
	if found, err := jobdb.One(ctx, tx, once, []any{j.Document.ID()}, &f.once); err != nil {
		return f, err
	} else if found {
		f.once = nameTo(ctx, f.once, "job "+f.once)
	}
	crowd, err := s.crowd(ctx, tx)
	if err != nil {
		return f, err
	}
	f.limit = crowd.limit
	for _, origin := range j.origins {
		if crowd.isFull(origin) {
			f.full = origin
		}
	}
	const waiting = `SELECT count(CASE WHEN namespace = $1 AND (started, rank, id) < (SELECT started, rank, id FROM @job WHERE id = $2) THEN 1 END),
			count(CASE WHEN namespace <> $1 THEN 1 END)
		FROM @job WHERE state = 'pending' AND not_before <= @now AND ` + available
	_, err = jobdb.One(ctx, tx, waiting, []any{j.Document.Namespace, j.Document.ID()}, &f.before, &f.others)
	return f, err
}
