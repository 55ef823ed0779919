package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
)

// An openBatch is the batch to which entities are being applied.
type openBatch struct {
	Batch              // nil if no batch is open
	backfill Backfill  // the same as Batch while the tail is not complete, or else nil
	begun    time.Time // when it was opened
	count    int
	bytes    int64
	at       feed.Position         // the position after the last entity that was applied
	snapshot feed.SnapshotPosition // target of at.Snapshot
	changed  bool                  // at has not been committed
	partial  bool                  // the last entity was applied only in part
	traces   feed.Traces           // of the entities, if Job.Observe is set
	page     string                // of the last entity that was applied

	replacement Replacement // the same as Batch while a snapshot replaces the data, or else nil
}

// move sets the position to commit next.
func (b *openBatch) move(p feed.Position) { b.at, b.changed = p, true }

// moveAfter sets the position to commit next to the position after e.
func (b *openBatch) moveAfter(e *Entity) {
	b.changed = true
	if e.index == "" {
		b.at = e.Position()
		return
	}
	b.snapshot = feed.SnapshotPosition{Index: e.index, Page: e.page, Entities: e.Part + 1}
	b.at = feed.Position{Snapshot: &b.snapshot}
}

// position returns a copy of the position to commit, which the sink may keep.
func (b *openBatch) position() feed.Position {
	p := b.at
	if p.Snapshot != nil {
		snapshot := *p.Snapshot
		p.Snapshot = &snapshot
	}
	return p
}

func (b *openBatch) rollback(ctx context.Context) error {
	ctx, cancel := graceful(ctx)
	defer cancel()
	err := b.Batch.Rollback(ctx)
	*b = openBatch{}
	if err != nil {
		return fmt.Errorf("roll back batch: %w", err)
	}
	return nil
}

// apply applies e to the sink, and commits if the batch is full.
func (r *run) apply(ctx context.Context, e *Entity) error {
	if err := ctx.Err(); err != nil {
		return err // e is not applied, so the batch contains only complete entities
	}
	b := &r.batch
	if err := r.setKey(e); err != nil {
		return err
	}
	if b.Batch == nil {
		if err := r.begin(ctx); err != nil {
			return err
		}
		if r.Oldest != nil && e.index == "" {
			r.Oldest(e.LastModified)
		}
	}
	if p, ok := b.Batch.(placed); ok {
		p.Place(e)
	}
	size := e.size()
	apply := b.Apply
	if r.tail != nil {
		apply = r.applyNewer
	}
	if err := apply(ctx, &e.Entity); err != nil {
		b.partial = true
		if stream, ok := e.Stream.(*entityStream); ok && stream.r.broken != nil {
			return stream.r.broken // not an error of the sink
		}
		return fmt.Errorf("apply %s: %w", describe(e), err)
	}
	b.count++
	b.bytes += size
	if r.Observe != nil {
		b.traces.Add(&e.Entity)
		b.page = e.Page
	}
	b.moveAfter(e)
	return r.commitFull(ctx)
}

// commitFull commits the batch if it is full.
func (r *run) commitFull(ctx context.Context) error {
	b := &r.batch
	if b.count >= r.BatchEntities || b.bytes >= r.BatchBytes || time.Since(b.begun) >= r.BatchInterval {
		return r.commit(ctx)
	}
	return nil
}

// setKey sets e's key from its body, if the job has a KeyPointer.
func (r *run) setKey(e *Entity) error {
	switch {
	case r.key == nil, e.Stream == nil && len(e.Body) == 0 && e.ContentLocation != "":
		return nil
	case e.Stream != nil:
		return fmt.Errorf("take key %q from %s: %w of %d bytes for bodies in memory: raise MaxWhole",
			r.KeyPointer, describe(e), ErrTooLarge, r.Client.config.MaxWhole)
	}
	key, err := r.key.String(e.Body)
	if err != nil {
		return fmt.Errorf("take key %q from %s: %w", r.KeyPointer, describe(e), err)
	}
	e.ContentLocation = feed.EncodeKey(key)
	return nil
}

// describe returns a name for an entity, for error messages.
func describe(e *Entity) string {
	return fmt.Sprintf("entity %q of page %s, part %d, offset %d", e.ContentID, e.Page, e.Part, e.Offset)
}

func (r *run) begin(ctx context.Context) (err error) {
	b := &r.batch
	switch {
	case r.tail != nil:
		b.backfill, err = r.Sink.(Backfiller).BeginBackfill(ctx)
		b.Batch = b.backfill
	case r.replacing:
		b.replacement, err = r.Sink.(Replacer).BeginReplace(ctx, r.begins)
		b.Batch = b.replacement
	default:
		b.Batch, err = r.Sink.Begin(ctx)
	}
	if err != nil {
		b.Batch = nil
		return fmt.Errorf("begin batch: %w", err)
	}
	b.begun = time.Now()
	return nil
}

// commitTimeout is how long a commit may take after the context of the job has ended.
const commitTimeout = 10 * time.Second

// graceful returns a context that ends commitTimeout after ctx, so that entities
// that were applied completely can still be committed.
func graceful(ctx context.Context) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = backoff.Sleep(later, commitTimeout)
		cancel()
	})
	return later, func() {
		stop()
		cancel()
	}
}

// commit commits the batch and its position, unless the position is unchanged.
func (r *run) commit(ctx context.Context) error {
	b := &r.batch
	if !b.changed {
		return nil
	}
	ctx, cancel := graceful(ctx)
	defer cancel()
	if b.Batch == nil { // only the position moves
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	at := b.position()
	at.Tail = copyTail(r.tail)
	if at.Snapshot != nil {
		at.Snapshot.Replaces = r.replacing
	}
	at.Feed, at.Committed = r.Feed, time.Now().UTC().Truncate(time.Millisecond)
	done := func(error) {}
	if r.Observe != nil {
		ctx, done = r.Observe(ctx, Commit{Begun: b.begun, Entities: b.count, Bytes: b.bytes, Page: b.page, Traces: b.traces})
	}
	err := b.Commit(ctx, at)
	done(err)
	if err != nil {
		return errors.Join(fmt.Errorf("commit batch: %w", err), b.rollback(ctx))
	}
	r.stats.Entities += int64(b.count)
	r.stats.Bytes += b.bytes
	r.stats.Batches++
	r.stats.Rejected = rejected(r.Sink).since(r.rejected)
	r.removed(ctx, b.replacement)
	r.begins = false
	r.batch = openBatch{at: at}
	r.report(ctx, at)
	return nil
}
