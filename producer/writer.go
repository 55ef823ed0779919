package producer

import (
	"cmp"
	"context"

	"golang.org/x/sync/semaphore"
)

// WriterOptions limit how much a [Writer] gathers before it publishes.
type WriterOptions struct {
	// MaxEntities and MaxBytes end a batch. An entity counts with its body, and 512 bytes
	// for the rest. They default to 1000 and 1 MiB.
	MaxEntities int
	MaxBytes    int64
	// Memory, if set, is what several writers may gather together, in bytes. An entity for which
	// there is no room is published at once, so that writers never wait for one another.
	Memory *semaphore.Weighted
	// Published, if set, is called with the receipt of each batch, in order.
	Published func(Receipt)
}

// entityWeight is the memory of an entity besides its body, in bytes.
const entityWeight = 512

// A Writer publishes entities in order, in batches. Its methods may not be called
// concurrently.
type Writer struct {
	feed    *Feed
	options WriterOptions
	receipt Receipt
	batch   []*Entity
	bytes   int64 // weight of the batch, as far as memory is reserved for it
}

// Writer returns a writer to the feed. Call [Writer.Discard] when it is not used any more.
func (f *Feed) Writer(o WriterOptions) *Writer {
	o.MaxEntities, o.MaxBytes = cmp.Or(o.MaxEntities, 1000), cmp.Or(o.MaxBytes, 1<<20)
	return &Writer{feed: f, options: o}
}

// Add adds an entity to the batch. If the batch is full then, or the entity has a Stream, Add
// publishes the batch and returns when it is durable. Errors are those of [Feed.Publish]; the
// batch is discarded then.
func (w *Writer) Add(ctx context.Context, e *Entity) error {
	weight := int64(len(e.Body)) + entityWeight
	reserved := w.options.Memory == nil || w.options.Memory.TryAcquire(weight)
	if reserved {
		w.bytes += weight
	}
	w.batch = append(w.batch, e)
	if !reserved || e.Stream != nil || w.bytes >= w.options.MaxBytes || len(w.batch) >= w.options.MaxEntities {
		return w.Flush(ctx)
	}
	return nil
}

// Flush publishes the batch and returns when it is durable. Errors are those of [Feed.Publish];
// the batch is discarded then.
func (w *Writer) Flush(ctx context.Context) error {
	if len(w.batch) == 0 {
		return nil
	}
	receipt, err := w.feed.Publish(ctx, w.batch...)
	w.Discard()
	if err != nil {
		return err
	}
	w.receipt.Published += receipt.Published
	w.receipt.Duplicates += receipt.Duplicates
	if receipt.Page > 0 {
		w.receipt.Page, w.receipt.ContentID = receipt.Page, receipt.ContentID
	}
	if w.options.Published != nil {
		w.options.Published(receipt)
	}
	return nil
}

// Discard drops the batch without publishing it, and releases its memory.
func (w *Writer) Discard() {
	if w.options.Memory != nil {
		w.options.Memory.Release(w.bytes)
	}
	clear(w.batch)
	w.batch, w.bytes = w.batch[:0], 0
}

// Receipt returns the receipts of all batches so far as one.
func (w *Writer) Receipt() Receipt { return w.receipt }
