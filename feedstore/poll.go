package feedstore

import (
	"context"
	"errors"
	"sync"

	"github.com/feedctl/feedctl/chain"
)

// errClosing means that polls are no longer shared because the reader is being closed.
var errClosing = errors.New("reader is being closed")

// polls lets requests share polls of the store. A request shares only a poll that begins after the request
// has arrived, so it sees every write that had returned by then. Requests that arrive during a poll share the
// next one. Thus, the store gets one poll at a time, however many requests there are.
type polls struct {
	mu      sync.Mutex
	running bool
	next    *call[*chain.Page] // the next poll; nil if no request waits for it
}

// do starts a poll, or joins one that has not begun yet, and returns its result.
func (l *polls) do(ctx context.Context, b *background, poll func(context.Context) (*chain.Page, error)) (*chain.Page, error) {
	next := l.join(b, poll)
	if next == nil {
		return poll(ctx)
	}
	select {
	case <-next.done:
		if errors.Is(next.err, errClosing) {
			return poll(ctx)
		}
		return next.value, next.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns the next poll, which it starts if no poll is running. It returns nil if the reader is being
// closed.
func (l *polls) join(b *background, poll func(context.Context) (*chain.Page, error)) *call[*chain.Page] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &call[*chain.Page]{done: make(chan struct{})}
	}
	next := l.next
	if !l.running {
		l.next = nil
		l.running = l.start(b, next, poll)
		if !l.running {
			return nil
		}
	}
	return next
}

// start polls in the background, and polls again as long as requests wait for the next poll.
func (l *polls) start(b *background, this *call[*chain.Page], poll func(context.Context) (*chain.Page, error)) bool {
	return b.run(func(ctx context.Context) {
		this.value, this.err = poll(ctx)
		close(this.done)
		l.mu.Lock()
		defer l.mu.Unlock()
		next := l.next
		l.next = nil
		l.running = next != nil && l.start(b, next, poll)
		if next != nil && !l.running {
			next.err = errClosing
			close(next.done)
		}
	})
}
