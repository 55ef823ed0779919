package publish

import (
	"context"
	"math"
	"sync"

	"github.com/feedctl/feedctl/feed"
)

// Limits of a batch. The queue holds at most one batch more.
const (
	batchEntities = 4096
	batchBytes    = 1 << 20
)

// A queue passes entities from the goroutine that reads the input to the one that
// publishes them, in order. The publisher takes the waiting entities as soon as the reader
// is idle: when it waits for more of the input, or a batch is full. So a slow input is
// published entity by entity, a fast one in large batches, and nothing waits for a
// timer.
type queue struct {
	batch limits // of one batch
	ahead limits // of all entities that were taken and not published yet
	room  int64  // memory for these, in bytes

	mu      sync.Mutex
	changed sync.Cond
	pending []*feed.Entity
	waiting limits // sum of pending
	taken   limits // sum of entities that were taken and not published yet
	put     int64  // entities that were added
	done    int64  // entities that were published
	busy    bool   // the reader has read some input that is not in pending yet
	held    bool   // the reader waits until a full batch is taken
	streams bool   // the reader waits until a stream is published
	closed  bool
	err     error // error that ended the input, or nil
}

// limits are a number of entities and the bytes of their bodies.
type limits struct {
	entities int
	bytes    int64
}

// least returns the smaller of each.
func (l limits) least(m limits) limits {
	return limits{min(l.entities, m.entities), min(l.bytes, m.bytes)}
}

// memory returns an estimate of the memory that entities take until they are published,
// in bytes. The overhead of a body (its entity, the headers as read and as on the page,
// bookkeeping) is three quarters of a KiB.
func (l limits) memory() int64 { return l.bytes + int64(l.entities)*768 }

// newQueue returns a queue that limits the entities being published at a time to what
// fits into room bytes of memory, or one batch.
func newQueue(room int64) *queue {
	q := &queue{
		batch: limits{batchEntities, batchBytes},
		ahead: limits{math.MaxInt, math.MaxInt64},
		room:  room,
	}
	q.changed.L = &q.mu
	return q
}

// fit limits the entities being published at a time to the pages on which Content-IDs
// are recognized. So entities published before a crash are recognized when they are
// published again, after any number of crashes and with other batches. Pages may be
// half full, and an entity has up to half a KiB of headers.
func (q *queue) fit(pageEntities int, pageBytes int64) {
	const pages = 16
	entities := min(pages*int64(pageEntities), pages*pageBytes/(2*512))
	fit := limits{int(max(1, entities)), max(1, pages*pageBytes/2)}
	q.batch, q.ahead = q.batch.least(fit), q.ahead.least(fit)
}

// add appends an entity. It waits while the queue is full. A Stream can be read only
// while its reader is blocked, so add then returns after the entity was published. It
// returns false if ctx ended.
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

// reads records whether the reader has read some input, or waits for it.
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

// take returns all waiting entities. It blocks while there are none, or while too much
// is being published. After the end of the input it returns none and the input's error;
// when ctx ends it returns none. More is true if the reader already has more.
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

// ready reports whether take must not block.
func (q *queue) ready() bool {
	if len(q.pending) == 0 {
		return q.closed
	}
	return q.fits() && (!q.busy || q.held || q.streams || q.closed)
}

// fits reports whether the waiting entities may be taken.
func (q *queue) fits() bool {
	all := limits{q.taken.entities + q.waiting.entities, q.taken.bytes + q.waiting.bytes}
	return q.taken.entities == 0 || all == all.least(q.ahead) && all.memory() <= q.room
}

// published records that the batch taken first is durable.
func (q *queue) published(batch []*feed.Entity) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done += int64(len(batch))
	q.taken.entities -= len(batch)
	q.taken.bytes -= bodies(batch)
	q.changed.Broadcast()
}

// bodies returns the total length of the bodies.
func bodies(entities []*feed.Entity) (bytes int64) {
	for _, e := range entities {
		bytes += int64(len(e.Body))
	}
	return bytes
}

// watch wakes all waiting goroutines when ctx ends. The returned function stops it.
func (q *queue) watch(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
}
