package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/sqlite"
)

// A leafSink is a table with a row for each leaf revision of the documents in a feed. The key of a row is the
// id and the revision, and its body is the sum.
type leafSink struct{ consumer.Sink }

// Begin begins a batch.
func (s *leafSink) Begin(ctx context.Context) (consumer.Batch, error) {
	batch, err := s.Sink.Begin(ctx)
	return &leafBatch{batch}, err
}

type leafBatch struct{ consumer.Batch }

// Apply adds the revision of an entity, and removes those that it replaces.
func (b *leafBatch) Apply(ctx context.Context, e *feed.Entity) error {
	var body io.Reader = bytes.NewReader(e.Body)
	if e.Stream != nil {
		body = e.Stream
	}
	leaf, err := ReadLeaf(e.ContentType, body)
	if err != nil {
		return fmt.Errorf("entity %q: %w", e.ContentID, err)
	}
	for _, rev := range leaf.replaced {
		if err := b.Batch.Apply(ctx, &feed.Entity{Operation: feed.Delete, ContentLocation: leafKey(leaf.ID, rev)}); err != nil {
			return err
		}
	}
	return b.put(ctx, leaf)
}

func (b *leafBatch) put(ctx context.Context, leaf *Leaf) error {
	return b.Batch.Apply(ctx, &feed.Entity{
		Operation: feed.Put, ContentLocation: leafKey(leaf.ID, leaf.Rev), ContentType: "text/plain", Body: []byte(leaf.Sum),
	})
}

func leafKey(id, rev string) string { return feed.EncodeKey(id + " " + rev) }

// leavesOfBatch is how many leaves are written in a transaction.
const leavesOfBatch = 1000

// writeLeaves writes the leaf revisions of a database to a table like that of a [leafSink].
func writeLeaves(ctx context.Context, file string, from Documents) (err error) {
	to, err := sqlite.OpenTemporary(ctx, file, table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	begin := func() (*leafBatch, error) {
		batch, err := to.Begin(ctx)
		return &leafBatch{batch}, err
	}
	batch, err := begin()
	if err != nil {
		return err
	}
	at := feed.Position{LastModified: time.Unix(0, 0).UTC()} // a table without a position cannot be read
	n := 0
	err = from.Leaves(ctx, func(leaf *Leaf) error {
		if err := batch.put(ctx, leaf); err != nil {
			return err
		}
		if n++; n%leavesOfBatch != 0 {
			return nil
		}
		if err := batch.Commit(ctx, at); err != nil {
			return err
		}
		batch, err = begin()
		return err
	})
	if err != nil {
		return errors.Join(err, batch.Rollback(ctx))
	}
	return batch.Commit(ctx, at)
}
