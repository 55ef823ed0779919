package producer

import (
	"cmp"
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// WriterOptions holds the limits of a [Writer]. The zero value of a field means its default.
type WriterOptions struct {
	// MaxEntities and MaxBytes are the maximum number of entities in a batch, and the maximum size of
	// their bodies in bytes. A larger entity is a batch by itself. The defaults are 1000 and 1 MiB.
	MaxEntities int
	MaxBytes    int64
	// Ahead is the number of batches that may be under way when a method of the writer returns. If it
	// is 0, batches are durable when the method returns.
	Ahead int
	// Memory, if set, limits the memory of several writers together, in bytes. Each entity counts,
	// from Add until it is durable, with the size of its body plus 768 bytes for the rest. Writers
	// never wait for one another: an entity for which there is no room is published at once, as soon
	// as nothing else of its writer is under way.
	Memory *semaphore.Weighted
	// Done, if set, is called when a batch is durable or has failed. Calls are made one at a time, in
	// the order of the batches, and none is made after the first batch that failed. If Done returns an
	// error, the writer has failed.
	Done func(Outcome) error
}

// An Outcome is the outcome of publishing a batch of a [Writer].
type Outcome struct {
	Entities []*Entity
	Marks    []any // the values added with [Writer.Mark]
	Receipt  Receipt
	Err      error // why the batch was not published
}

// A BeginFunc begins to publish a batch, which comes after the batches of all earlier calls;
// Batch.After is ignored. All Streams are read before it returns. The function wait returns when the
// batch is durable, and must return an error if an earlier batch has failed.
type BeginFunc func(ctx context.Context, b Batch) (wait func() (Receipt, error), err error)

// entityOverhead estimates how much memory an entity takes in addition to its body, in bytes: for its
// header, both as read and as written to the page, and for bookkeeping.
const entityOverhead = 768

// A Writer publishes entities in order, in batches. It collects entities until a batch is full, and
// publishes that batch while it collects the next one. Its methods may be called concurrently.
//
// A writer has failed if a batch could not be published. All methods then return the error, and no
// more batches are published. Errors are those of [Feed.Publish].
type Writer struct {
	begin   BeginFunc
	options WriterOptions

	adding sync.Mutex // held while a batch is being collected and begun
	next   *writing
	closed bool

	mu       sync.Mutex
	underway []*writing    // in order
	idle     chan struct{} // closed while nothing is under way
	settled  sync.Cond     // signals that a batch has been settled
	receipt  Receipt
	err      error // why the writer has failed
	broken   bool  // whether a batch has failed after it was begun
}

// A writing is a batch of a Writer.
type writing struct {
	entities []*Entity
	marks    []any
	bytes    int64 // size of the bodies
	reserved int64 // the amount of WriterOptions.Memory that is reserved
	wait     func() (Receipt, error)
}

// NewWriter returns a writer that publishes batches by calling begin. Call [Writer.Close] when the
// writer is no longer used.
func NewWriter(begin BeginFunc, o WriterOptions) *Writer {
	o.MaxEntities, o.MaxBytes = cmp.Or(o.MaxEntities, 1000), cmp.Or(o.MaxBytes, 1<<20)
	w := &Writer{begin: begin, options: o, next: &writing{}, idle: make(chan struct{})}
	w.settled.L = &w.mu
	close(w.idle)
	return w
}

// Writer returns a writer that publishes to the feed. Call [Writer.Close] when it is no longer used.
// If the context with which a batch was published ends before its commit has begun, the batch is not
// published.
func (f *Feed) Writer(o WriterOptions) *Writer {
	var last *Publication
	return NewWriter(func(ctx context.Context, b Batch) (func() (Receipt, error), error) {
		b.After = last
		p, err := f.Begin(ctx, b)
		if err != nil {
			return nil, err
		}
		last = p
		return func() (Receipt, error) { return p.wait(ctx) }, nil
	}, o)
}

// Add adds an entity to the batch. If there is no room for the entity in the batch, the batch is
// published first. If the entity has a Stream, the batch is published at once, and Add returns when
// the stream has been read; if reading fails, the batch is dropped, but the writer has not failed.
func (w *Writer) Add(ctx context.Context, e *Entity) error {
	w.adding.Lock()
	defer w.adding.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	size := int64(len(e.Body))
	if n := len(w.next.entities); n >= w.options.MaxEntities || n > 0 && w.next.bytes+size > w.options.MaxBytes {
		if err := w.publish(ctx, w.options.Ahead > 0); err != nil {
			return err
		}
	}
	reserved, err := w.reserve(size + entityOverhead)
	if err != nil {
		return err
	}
	w.next.entities = append(w.next.entities, e)
	w.next.bytes += size
	if !reserved || e.Stream != nil {
		return w.publish(ctx, false)
	}
	return nil
}

// Mark adds a value to the batch, even if the batch has no entities. The value is passed to
// WriterOptions.Done when all entities that were added before it are durable.
func (w *Writer) Mark(v any) {
	w.adding.Lock()
	defer w.adding.Unlock()
	w.next.marks = append(w.next.marks, v)
}

// Flush publishes the current batch even if it is not full.
func (w *Writer) Flush(ctx context.Context) error {
	w.adding.Lock()
	defer w.adding.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	return w.publish(ctx, false)
}

// Wait is like Flush, but returns when everything that was added before is durable.
func (w *Writer) Wait(ctx context.Context) error {
	return w.WaitFor(ctx, 0)
}

// WaitFor is like Flush, but returns when at most n batches are under way.
func (w *Writer) WaitFor(ctx context.Context, n int) error {
	if err := w.Flush(ctx); err != nil {
		return err
	}
	return w.await(n)
}

// Idle returns a channel that is closed when no batch is under way, so that even a batch that is not
// full might as well be published. It is nil if nothing has been added to the current batch.
func (w *Writer) Idle() <-chan struct{} {
	w.adding.Lock()
	defer w.adding.Unlock()
	if len(w.next.entities) == 0 && len(w.next.marks) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.idle
}

// Close drops the batch that is being collected, waits for the batches under way, and, if the writer
// has failed, returns the error. Later calls of other methods return [ErrClosed].
func (w *Writer) Close() error {
	w.adding.Lock()
	defer w.adding.Unlock()
	w.closed = true
	w.release(w.next)
	w.next = &writing{}
	return w.await(0)
}

// Receipt returns a single receipt for all batches so far.
func (w *Writer) Receipt() Receipt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.receipt
}

func (w *Writer) usable() error {
	if w.closed {
		return ErrClosed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// reserve reserves memory for the next batch. It returns false if there is no room even when no batch
// is under way.
func (w *Writer) reserve(weight int64) (bool, error) {
	if w.options.Memory == nil {
		return true, nil
	}
	for !w.options.Memory.TryAcquire(weight) {
		w.mu.Lock()
		n := len(w.underway)
		w.mu.Unlock()
		if n == 0 {
			return false, nil
		}
		if err := w.await(n - 1); err != nil {
			return false, err
		}
	}
	w.next.reserved += weight
	return true, nil
}

func (w *Writer) release(b *writing) {
	if w.options.Memory != nil {
		w.options.Memory.Release(b.reserved)
	}
}

// publish begins to publish the next batch. The caller must hold adding.
func (w *Writer) publish(ctx context.Context, more bool) (err error) {
	b := w.next
	if len(b.entities) == 0 && len(b.marks) == 0 {
		return nil
	}
	w.next = &writing{entities: make([]*Entity, 0, len(b.entities))}
	if len(b.entities) > 0 {
		if b.wait, err = w.begin(ctx, Batch{Entities: b.entities, More: more}); err != nil {
			w.release(b)
			if b.entities[len(b.entities)-1].Stream == nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.err = cmp.Or(w.err, err)
			}
			return err
		}
	}
	w.mu.Lock()
	if w.underway = append(w.underway, b); len(w.underway) == 1 {
		w.idle = make(chan struct{})
		go w.settle()
	}
	w.mu.Unlock()
	return w.await(w.options.Ahead)
}

// await waits until at most n batches are under way.
func (w *Writer) await(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.underway) > n {
		w.settled.Wait()
	}
	return w.err
}

// settle waits for one batch after another until no more are under way.
func (w *Writer) settle() {
	for more := true; more; {
		w.mu.Lock()
		b, broken := w.underway[0], w.broken
		w.mu.Unlock()
		o := Outcome{Entities: b.entities, Marks: b.marks}
		if b.wait != nil {
			o.Receipt, o.Err = b.wait()
		}
		var err error
		if !broken {
			err = w.done(o)
		}
		w.release(b)
		w.mu.Lock()
		w.err, w.broken = cmp.Or(w.err, err), broken || err != nil
		w.receipt.add(o.Receipt)
		w.underway[0] = nil
		w.underway = w.underway[1:]
		if more = len(w.underway) > 0; !more {
			close(w.idle)
		}
		w.settled.Broadcast()
		w.mu.Unlock()
	}
}

func (w *Writer) done(o Outcome) error {
	if w.options.Done == nil {
		return o.Err
	}
	return cmp.Or(o.Err, w.options.Done(o))
}

// add adds the receipt of a later batch to r.
func (r *Receipt) add(later Receipt) {
	r.Published += later.Published
	r.Duplicates += later.Duplicates
	if later.Page > 0 {
		r.Page, r.ContentID = later.Page, later.ContentID
	}
}
