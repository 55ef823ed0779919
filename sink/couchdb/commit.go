package couchdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
)

// patience says how often a step is tried, with which pauses.
type patience struct {
	tries  int
	pauses backoff.Backoff
}

// retry does something until it is done, or another try is of no use. What it does
// may have been done in part before.
func (t *target) retry(ctx context.Context, tries int, do func(context.Context) error) error {
	for n := 1; ; n++ {
		err := do(ctx)
		if err == nil || n >= tries || !couchdb.Retryable(err) {
			return err
		}
		pause := t.pauses.After(n)
		t.log.WarnContext(ctx, "will write again", "database", t.db.URL(), "error", err, "try", n, "pause", pause)
		if backoff.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// Commit writes the batch step by step. Each step moves the position to what the
// database then is at.
func (t *target) Commit(ctx context.Context, at feed.Position) error {
	if len(t.steps) == 0 {
		t.addStep()
	}
	for i, s := range t.steps {
		position := at
		if i < len(t.steps)-1 {
			position = s.through
			position.Feed, position.Committed = at.Feed, at.Committed
			if position.ContentID == "" || at.Snapshot != nil { // what comes again then is a PUT
				position = t.state.Position
			}
		}
		if err := t.retry(ctx, t.tries, func(ctx context.Context) error { return t.write(ctx, s, position) }); err != nil {
			return err
		}
	}
	return t.forget()
}

// write writes a step, or what is left of it.
func (t *target) write(ctx context.Context, s *step, position feed.Position) error {
	if err := t.load(ctx); err != nil {
		return err
	}
	if t.state.Step == s.name {
		return nil // it was done, and the answer was lost
	}
	p := pending{Step: s.name, Position: position}
	switch {
	case s.revisions != nil:
		done, err := t.replicateAll(ctx, s.revisions)
		if err != nil {
			return err
		}
		return t.finish(ctx, p, done)
	case t.state.Pending != nil && t.state.Pending.Parts > 0:
		return t.redo(ctx)
	}
	return t.update(ctx, s, p)
}

// An outcome counts what became of documents.
type outcome struct {
	written, failures int64
	refused           []consumer.Refusal // the last ones
}

// refuse counts a document that the database does not take: that is not retried,
// since it would be in vain (protocol, "Upload Batch of Changed Documents").
func (t *target) refuse(o *outcome, id, rev string, err error) {
	why := reason(err)
	t.log.Error("database refuses document", "database", t.db.URL(), "id", id, "rev", rev, "reason", why)
	o.failures++
	o.refused = append(o.refused, consumer.Refusal{ID: id, Rev: rev, Time: time.Now().UTC().Truncate(time.Second), Reason: why})
	o.refused = o.refused[max(0, len(o.refused)-maxRefused):]
}

// finish makes what was written durable, and then moves the position.
func (t *target) finish(ctx context.Context, p pending, o outcome) error {
	instance, err := t.db.EnsureFullCommit(ctx)
	if err != nil {
		return fmt.Errorf("ensure full commit: %w", err)
	}
	if isOther(t.state.Instance, instance) {
		return ErrLost // what was written before is not in this one
	}
	err = t.save(ctx, func(c *checkpoint) {
		c.Position, c.Step, c.Pending = p.Position, p.Step, nil
		c.Written += o.written
		c.Failures += o.failures
		c.Refused = append(slices.Clip(c.Refused), o.refused...)
		c.Refused = c.Refused[max(0, len(c.Refused)-maxRefused):]
	})
	if err == nil {
		if t.rejected.Refused == 0 {
			t.rejected.Refusals = o.refused[:min(len(o.refused), maxExamples)]
		}
		t.rejected.Refused += o.failures
	}
	return err
}
