package publish

import (
	"context"
	"math"
	"sync"

	"github.com/feedctl/feedctl/feed"
)

// Limits of what is published at once. The queue holds at most one batch more.
const (
	batchEntities = 4096
	batchBytes    = 1 << 20
)

// A queue passes entities from the goroutine that reads the input to the one that
// publishes it, in order. The publisher takes what is there as soon as the reader has nothing
// to do: when it waits for more of the input, or a batch is full. So a slow input is
// published entity by entity, a fast one in large batches, and nothing waits for a
// timer.
type queue struct {
	batch limits // of one batch
	ahead limits // of all that was taken and is not published yet
	room  int64  // memory in bytes for that

	mu      sync.Mutex
	changed sync.Cond
	pending []*feed.Entity
	waiting limits // what pending has
	taken   limits // what was taken and is not published yet
	put     int64  // entities that went in
	done    int64  // entities that were published
	busy    bool   // the reader has some of the input that is not in pending yet
	held    bool   // the reader waits until a full batch is taken
	streams bool   // the reader waits until a stream is published
	closed  bool
	err     error // why the input ended, if not at its end
}

// limits are a number of entities and the bytes of their bodies.
type limits struct {
	entities int
	bytes    int64
}

// least returns the lower of each.
func (l limits) least(m limits) limits {
	return limits{min(l.entities, m.entities), min(l.bytes, m.bytes)}
}

// memory returns how much memory so much takes until it is published, in bytes,
// roughly: what goes with a body (its entity, headers as they were read and as they are
// on the page, bookkeeping) weighs three quarters of a KiB.
func (l limits) memory() int64 { return l.bytes + int64(l.entities)*768 }

// newQueue returns a queue of which as much is on its way at a time as fits into so
// many bytes of memory, or one batch.
func newQueue(room int64) *queue {
	q := &queue{
		batch: limits{batchEntities, batchBytes},
		ahead: limits{math.MaxInt, math.MaxInt64},
		room:  room,
	}
	q.changed.L = &q.mu
	return q
}

// fit keeps all that is on its way on no more pages than Content-IDs are recognized
// on. What was published before a crash is recognized when it is published again,
// however often that happens and however the input is cut into batches. Pages may be
// half full, and an entity has up to half a KiB of headers.
func (q *queue) fit(pageEntities int, pageBytes int64) {
	const pages = 16
	entities := min(pages*int64(pageEntities), pages*pageBytes/(2*512))
	fit := limits{int(max(1, entities)), max(1, pages*pageBytes/2)}
	q.batch, q.ahead = q.batch.least(fit), q.ahead.least(fit)
}

// add appends an entity, waiting while the queue is full. One with a Stream
// can be read only while its reader stands still, so add then returns after it
// was published. It returns false if ctx ended.
func (q *queue) add(ctx context.Context, e *feed.Entity) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.full() {
		if ctx.Err() != nil {
			return false
		}
		q.held = true
		q.changed.Broadcast()
		q.changed.Wait()
	}
	q.held = false
	q.pending = append(q.pending, e)
	q.waiting.entities++
	q.waiting.bytes += int64(len(e.Body))
	q.put++
	q.streams = e.Stream != nil
	q.changed.Broadcast()
	for mine := q.put; e.Stream != nil && q.done < mine; {
		if ctx.Err() != nil {
			return false
		}
		q.changed.Wait()
	}
	q.streams = false
	return ctx.Err() == nil
}

// reads is told whether the reader has got some of the input, or waits for it.
func (q *queue) reads(busy bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = busy
	q.changed.Broadcast()
}

// full reports whether a whole batch waits.
func (q *queue) full() bool {
	return q.waiting.entities >= q.batch.entities || q.waiting.bytes >= q.batch.bytes
}

// close ends the input.
func (q *queue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.err = true, err
	q.changed.Broadcast()
}

// take returns everything that waits, and waits if there is nothing, or too much is
// on its way. It returns nothing after the end of the input, with the input's
// error, and when ctx ends. More is true if the reader has more already.
func (q *queue) take(ctx context.Context) (batch []*feed.Entity, more bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ctx.Err() == nil && !q.ready() {
		q.changed.Wait()
	}
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if len(q.pending) == 0 {
		return nil, false, q.err
	}
	batch, more, q.held = q.pending, q.held, false
	q.taken.entities += q.waiting.entities
	q.taken.bytes += q.waiting.bytes
	q.pending, q.waiting = nil, limits{}
	q.changed.Broadcast()
	return batch, more, nil
}

// ready reports whether the publisher has something to do.
func (q *queue) ready() bool {
	if len(q.pending) == 0 {
		return q.closed
	}
	return q.fits() && (!q.busy || q.held || q.streams || q.closed)
}

// fits reports whether what waits may be taken.
func (q *queue) fits() bool {
	all := limits{q.taken.entities + q.waiting.entities, q.taken.bytes + q.waiting.bytes}
	return q.taken.entities == 0 || all == all.least(q.ahead) && all.memory() <= q.room
}

// published tells that the batch that was taken first is done with.
func (q *queue) published(batch []*feed.Entity) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done += int64(len(batch))
	q.taken.entities -= len(batch)
	q.taken.bytes -= bodies(batch)
	q.changed.Broadcast()
}

// bodies returns the length of the bodies.
func bodies(entities []*feed.Entity) (bytes int64) {
	for _, e := range entities {
		bytes += int64(len(e.Body))
	}
	return bytes
}

// watch wakes all that wait when ctx ends. The returned function ends that.
func (q *queue) watch(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
}
