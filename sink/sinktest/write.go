package sinktest

import (
	"context"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

// Write applies and commits entities as one batch, at the position of the last one.
func Write(ctx context.Context, k consumer.Sink, entities ...*feed.Entity) error {
	b, err := k.Begin(ctx)
	if err != nil {
		return err
	}
	defer b.Rollback(ctx)
	at := feed.Position{}
	for _, e := range entities {
		if err := b.Apply(ctx, e); err != nil {
			return err
		}
		at = feed.Position{LastModified: e.LastModified, ContentID: e.ContentID}
	}
	return b.Commit(ctx, at)
}

// Continue writes the entities after the position of the sink. If only part of a batch was written
// because of an error, Continue writes the rest, as the next run of a job does. The test fails if
// the batches do not contain the position.
func Continue(t testing.TB, k consumer.Sink, batches [][]*feed.Entity) error {
	t.Helper()
	at, err := k.Position(t.Context())
	if err != nil {
		return err
	}
	found := at.ContentID == ""
	for _, batch := range batches {
		var rest []*feed.Entity
		for _, e := range batch {
			if found {
				rest = append(rest, e)
			}
			found = found || e.ContentID == at.ContentID
		}
		if len(rest) == 0 {
			continue
		}
		if err := Write(t.Context(), k, rest...); err != nil {
			return err
		}
	}
	if !found {
		t.Fatalf("the sink is at %q, which is not in the feed", at.ContentID)
	}
	return nil
}
