package couchdb

import (
	"context"
	"fmt"
	"slices"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
)

// A retryBudget limits how many times a step is tried, and sets the pauses between tries.
type retryBudget struct {
	tries  int
	pauses backoff.Backoff
}

// retry calls do until it succeeds, fails with an error that is not retryable, or has
// been called tries times. An earlier call may have done part of the work.
func (t *target) retry(ctx context.Context, tries int, do func(context.Context) error) error {
	for n := 1; ; n++ {
		err := do(ctx)
		if err == nil || n >= tries || !couchdb.Retryable(err) {
			return err
		}
		pause := t.pauses.After(n)
		t.log.WarnContext(ctx, "write failed, retrying", "database", t.db.URL(), "error", err, "try", n, "pause", pause)
		if backoff.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// Commit writes the batch step by step. Each step advances the position.
func (t *target) Commit(ctx context.Context, at feed.Position) error {
	if t.expected != nil {
		if err := t.retry(ctx, t.tries, t.writeExpected); err != nil {
			return err
		}
		return t.forget()
	}
	if len(t.steps) == 0 {
		t.addStep()
	}
	for i, s := range t.steps {
		position := at
		if i < len(t.steps)-1 {
			position = s.through
			position.Feed, position.Committed = at.Feed, at.Committed
			if position.ContentID == "" || at.Snapshot != nil { // applying the step again is safe: its entities are PUTs
				position = t.state.Position
			}
		}
		if err := t.retry(ctx, t.tries, func(ctx context.Context) error { return t.write(ctx, s, position) }); err != nil {
			return err
		}
	}
	return t.forget()
}

// write writes a step, or the rest of it.
func (t *target) write(ctx context.Context, s *step, position feed.Position) error {
	if err := t.load(ctx); err != nil {
		return err
	}
	if t.state.Step == s.name {
		return nil // done; the response was lost
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

// finish makes the written documents durable, and then advances the position.
func (t *target) finish(ctx context.Context, p pending, o outcome) error {
	instance, err := t.db.EnsureFullCommit(ctx)
	if err != nil {
		return fmt.Errorf("ensure full commit: %w", err)
	}
	if isOther(t.state.Instance, instance) {
		return ErrLost // the documents were written to an earlier database
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
