package main

import (
	"context"
	"sync"

	"github.com/feedctl/feedctl/feed"
)

// Limits of one Publish call. The queue holds at most one batch more.
const (
	batchEntities = 4096
	batchBytes    = 1 << 20
)

// A queue passes entities from whoever reads the input to whoever publishes
// it, in order. The publisher takes what is there: a slow input is published
// entity by entity, a fast one in large batches, and nothing waits for a timer.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	pending []*feed.Entity
	bytes   int64
	put     int64 // entities that went in
	done    int64 // entities that were published
	closed  bool
	err     error // why the input ended, if not at its end
}

func newQueue() *queue {
	q := &queue{}
	q.changed.L = &q.mu
	return q
}

// add appends an entity, waiting while the queue is full. One with a Stream
// can be read only while its reader stands still, so add then returns after it
// was published. It returns false if ctx ended.
func (q *queue) add(ctx context.Context, e *feed.Entity) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.pending) >= batchEntities || q.bytes >= batchBytes {
		if ctx.Err() != nil {
			return false
		}
		q.changed.Wait()
	}
	q.pending = append(q.pending, e)
	q.bytes += int64(len(e.Body))
	q.put++
	q.changed.Broadcast()
	for mine := q.put; e.Stream != nil && q.done < mine; {
		if ctx.Err() != nil {
			return false
		}
		q.changed.Wait()
	}
	return ctx.Err() == nil
}

// close ends the input.
func (q *queue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.err = true, err
	q.changed.Broadcast()
}

// take returns everything that waits, and waits if there is nothing. It
// returns nothing after the end of the input, with the input's error, and when
// ctx ends.
func (q *queue) take(ctx context.Context) ([]*feed.Entity, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.pending) == 0 && !q.closed && ctx.Err() == nil {
		q.changed.Wait()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(q.pending) == 0 {
		return nil, q.err
	}
	batch := q.pending
	q.pending, q.bytes = nil, 0
	q.changed.Broadcast()
	return batch, nil
}

// published tells that n more entities are done with.
func (q *queue) published(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done += int64(n)
	q.changed.Broadcast()
}

// watch wakes whoever waits when ctx ends. The returned function ends that.
func (q *queue) watch(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
}
