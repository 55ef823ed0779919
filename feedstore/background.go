package feedstore

import (
	"context"
	"sync"
	"time"
)

// backgroundTimeout limits a background task. A store that takes longer for a page, or
// for its metadata, is considered unavailable.
const backgroundTimeout = 2 * time.Minute

// A background runs tasks that are started for one request and shared with others, and therefore must not end
// with the first request.
type background struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup
}

func newBackground() *background {
	b := &background{}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// run starts a task. It returns false, without starting the task, if the reader is being closed.
func (b *background) run(task func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, backgroundTimeout)
		defer cancel()
		task(ctx)
	})
	return true
}

// close waits for the tasks to end, and cancels them when ctx ends.
func (b *background) close(ctx context.Context) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	stop := context.AfterFunc(ctx, b.cancel)
	defer stop()
	b.tasks.Wait()
	b.cancel()
}

// calls shares work among concurrent callers with the same key (single flight). A result may come from a call
// that began earlier.
type calls[K comparable, V any] struct {
	background *background

	mu    sync.Mutex
	byKey map[K]*call[V]
}

type call[V any] struct {
	done  chan struct{} // closed when the following fields are set
	value V
	err   error
}

func newCalls[K comparable, V any](b *background) *calls[K, V] {
	return &calls[K, V]{background: b, byKey: make(map[K]*call[V])}
}

// start starts a call that does work, unless a call with the same key is under way, and returns the call. It
// returns nil if the reader is being closed.
func (g *calls[K, V]) start(key K, work func(context.Context) (V, error)) *call[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f, ok := g.byKey[key]; ok {
		return f
	}
	f := &call[V]{done: make(chan struct{})}
	if !g.background.run(func(ctx context.Context) {
		f.value, f.err = work(ctx)
		g.mu.Lock()
		delete(g.byKey, key)
		g.mu.Unlock()
		close(f.done)
	}) {
		return nil
	}
	g.byKey[key] = f
	return f
}

// do waits for a call with the key that is under way, or starts one that does work, and returns its result.
func (g *calls[K, V]) do(ctx context.Context, key K, work func(context.Context) (V, error)) (value V, err error) {
	f := g.start(key, work)
	if f == nil {
		return work(ctx)
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}
