package console

import (
	"context"
	"sync"
)

// A background runs tasks that outlive requests. The zero value is not usable; use newBackground.
type background struct {
	ctx    context.Context // ends with the console
	cancel context.CancelFunc
	places chan struct{} // holds one value per running task

	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup
}

// newBackground returns a background for at most limit tasks at the same time.
func newBackground(limit int) *background {
	ctx, cancel := context.WithCancel(context.Background())
	return &background{ctx: ctx, cancel: cancel, places: make(chan struct{}, limit)}
}

// run starts a task, unless there are too many already or the background is closed.
func (b *background) run(task func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	select {
	case b.places <- struct{}{}:
	default:
		return false
	}
	b.tasks.Go(func() {
		defer func() { <-b.places }()
		task(b.ctx)
	})
	return true
}

// close ends the tasks and waits for them.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.tasks.Wait()
}
