package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// RunOnce adds a job that runs once, without being in a file. If it crashes, it is tried again only
// if retry is true. After it has ended, it is kept for the time of [Settings.Retention].
//
// The name of the job is derived from the arguments except the namespace: if the same job is
// already in the namespace, even if it has ended, RunOnce returns that job. The name in the
// document has no effect.
func (s *Scheduler) RunOnce(ctx context.Context, d Document, retry bool) (job *Job, err error) {
	d.Name = d.transientName(retry)
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
		a.transient, a.retry = true, retry
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
func (d *Document) transientName(retry bool) string {
	same := Document{Kind: d.Kind, Source: d.Source, Target: d.Target, Options: d.Options, Credentials: d.Credentials, Placement: d.Placement, Backoff: d.Backoff}
	if len(d.Options) == 0 {
		same.Options = nil
	}
	if len(d.Credentials) == 0 {
		same.Credentials = nil
	}
	text := same.canonical()
	if retry {
		text += " retry"
	}
	sum := sha256.Sum256([]byte(text))
	return "run-" + hex.EncodeToString(sum[:8])
}

// forget deletes ended transient jobs and lost nodes after the retention. It also deletes what is
// known about origins and watches that no job uses.
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
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM @watch WHERE (type, server, credential, node) IN (SELECT type, server, credential, node FROM @watch AS w
			WHERE owner NOT IN `+aliveNodes+` AND NOT EXISTS (SELECT 1 FROM @job AS j WHERE j.watch_type <> '' AND `+watchedBy+`) @skip)`)
		if err != nil {
			return err
		}
		// Empty origins are not in the indexes.
		_, err = tx.Exec(ctx, `DELETE FROM @origin WHERE origin IN (SELECT o.origin FROM @origin AS o WHERE o.blocked <= @now
			AND NOT EXISTS (SELECT 1 FROM @job WHERE source_origin = o.origin AND source_origin <> '')
			AND NOT EXISTS (SELECT 1 FROM @job WHERE target_origin = o.origin AND target_origin <> '') @skip)`)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete unused records: %w", err)
	}
	return nil
}
