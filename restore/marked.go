package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

// A marked is a sink whose positions name the restore that they are part of.
type marked struct {
	consumer.Sink
	mark string
}

// begin marks the sink before anything is applied, so that a run that is killed can be continued.
func (m *marked) begin(ctx context.Context, name string) error {
	batch, err := m.Begin(ctx)
	if err == nil {
		err = batch.Commit(ctx, feed.Position{Feed: name})
	}
	if err != nil && batch != nil {
		err = errors.Join(err, batch.Rollback(ctx))
	}
	if err != nil {
		return fmt.Errorf("mark sink: %w", err)
	}
	return nil
}

// Position returns the position without the mark: zero if nothing was applied.
func (m *marked) Position(ctx context.Context) (feed.Position, error) {
	at, err := m.Sink.Position(ctx)
	if isStart(at) {
		return feed.Position{}, err
	}
	at.Restore = ""
	return at, err
}

// Begin begins a batch.
func (m *marked) Begin(ctx context.Context) (consumer.Batch, error) {
	batch, err := m.Sink.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &markedBatch{batch, m.mark}, nil
}

// Rejected returns what the sink has rejected.
func (m *marked) Rejected() consumer.Rejected {
	if r, ok := m.Sink.(interface{ Rejected() consumer.Rejected }); ok {
		return r.Rejected()
	}
	return consumer.Rejected{}
}

type markedBatch struct {
	consumer.Batch
	mark string
}

// Commit commits the batch with a position that has the mark.
func (b *markedBatch) Commit(ctx context.Context, at feed.Position) error {
	at.Restore = b.mark
	return b.Batch.Commit(ctx, at)
}

// isStart reports whether a position is before all entities.
func isStart(at feed.Position) bool { return at.LastModified.IsZero() && at.Snapshot == nil }
