package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// RunOnce adds a job that runs once, without being in a file. It is not tried again if it
// crashes, and it is deleted when it has ended for the time of [Settings.Retention].
//
// Its name follows from kind, source, target, options and credentials: if there is such a job
// in the namespace already, which may have ended, RunOnce returns that. The name in the document
// has no effect.
func (s *Scheduler) RunOnce(ctx context.Context, d Document) (job *Job, err error) {
	d.Name = d.transientName()
	documents := []Document{d}
	identities, problems := s.kinds.inspect(documents)
	if d.Follow || d.Schedule != "" {
		problems = append(problems, Problem{Job: d.ID(), Message: "a job that runs once has neither follow nor schedule: put it into a file, and apply that"})
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("run job once: %w", InvalidError(problems))
	}
	err = s.db.Begin(ctx, func(tx jobdb.Tx) error {
		a, err := s.newApplication(ctx, tx, documents, identities)
		if err != nil {
			return err
		}
		a.transient = true
		if _, exists := a.stored[d.ID()]; !exists {
			changes := []Change{{Job: d.ID(), Action: Created, After: &d}}
			problems, err := a.check(ctx, tx, changes, "")
			if err != nil {
				return err
			}
			if len(problems) > 0 {
				return InvalidError(problems)
			}
			if err := a.write(ctx, tx, changes); err != nil {
				return err
			}
		}
		added, err := load(ctx, tx, "WHERE id = $1", d.ID())
		if err == nil {
			job = added[0]
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("run job once: %w", err)
	}
	s.poke()
	return job, nil
}

// transientName returns a name that identifies what a job does.
func (d *Document) transientName() string {
	same := Document{Kind: d.Kind, Source: d.Source, Target: d.Target, Options: d.Options, Credentials: d.Credentials}
	if len(d.Options) == 0 {
		same.Options = nil
	}
	if len(d.Credentials) == 0 {
		same.Credentials = nil
	}
	sum := sha256.Sum256([]byte(same.canonical()))
	return "run-" + hex.EncodeToString(sum[:8])
}

// forget deletes jobs that run once, and lost nodes, after the retention.
func (s *Scheduler) forget(ctx context.Context) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		kept := s.settings().Retention.Microseconds()
		old, err := load(ctx, tx, "WHERE transient AND state IN ('completed', 'failed') AND stopped <= @now - $1 LIMIT $2 @skip", kept, reapAtOnce)
		if err != nil {
			return err
		}
		for _, j := range old {
			if err := remove(ctx, tx, j.Document.ID()); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "DELETE FROM @node WHERE expires <= @now - $1 AND incarnation NOT IN (SELECT owner FROM @job WHERE owner IS NOT NULL)", kept)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete jobs that have ended: %w", err)
	}
	return nil
}
