package server

import (
	"context"
	"errors"
	"sync"

	"github.com/feedctl/feedctl/chain"
)

// errClosing says that nobody looks on behalf of others any more.
var errClosing = errors.New("server is closing")

// looks let requests share a look at the store. What a request gets was looked at
// after it arrived, so it sees every write that returned before. So whoever comes
// while a look is going on waits for the next one, which all who come until then
// share: however many ask, the store sees one look at a time.
type looks struct {
	mu      sync.Mutex
	running bool
	next    *flight[*chain.Page] // nil if nobody waits for it
}

// do looks, or waits for a look that begins after now.
func (l *looks) do(ctx context.Context, b *background, look func(context.Context) (*chain.Page, error)) (*chain.Page, error) {
	next := l.join(b, look)
	if next == nil {
		return look(ctx)
	}
	select {
	case <-next.done:
		if errors.Is(next.err, errClosing) {
			return look(ctx)
		}
		return next.value, next.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns the next look; nil if the server is closing.
func (l *looks) join(b *background, look func(context.Context) (*chain.Page, error)) *flight[*chain.Page] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &flight[*chain.Page]{done: make(chan struct{})}
	}
	next := l.next
	if !l.running {
		l.next = nil
		l.running = l.start(b, next, look)
		if !l.running {
			return nil
		}
	}
	return next
}

// start has a look in the background, and then the next, as long as somebody waits
// for one.
func (l *looks) start(b *background, this *flight[*chain.Page], look func(context.Context) (*chain.Page, error)) bool {
	return b.run(func(ctx context.Context) {
		this.value, this.err = look(ctx)
		close(this.done)
		l.mu.Lock()
		defer l.mu.Unlock()
		next := l.next
		l.next = nil
		l.running = next != nil && l.start(b, next, look)
		if next != nil && !l.running {
			next.err = errClosing
			close(next.done)
		}
	})
}
