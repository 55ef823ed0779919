package feedstore

import (
	"context"
	"errors"
	"sync"

	"github.com/feedctl/feedctl/chain"
)

// errClosing says that there are no shared looks any more.
var errClosing = errors.New("reader is being closed")

// polls let requests share a look at the store. What a request gets was looked at
// after it arrived, so it sees every write that returned before. A request that comes
// during a look waits for the next one, which all that come until then share: however
// many there are, the store sees one look at a time.
type polls struct {
	mu      sync.Mutex
	running bool
	next    *call[*chain.Page] // nil if no one waits for it
}

// do looks, or waits for a look that begins after now.
func (l *polls) do(ctx context.Context, b *background, look func(context.Context) (*chain.Page, error)) (*chain.Page, error) {
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

// join returns the next look; nil if the reader is being closed.
func (l *polls) join(b *background, look func(context.Context) (*chain.Page, error)) *call[*chain.Page] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &call[*chain.Page]{done: make(chan struct{})}
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

// start has a look in the background, and then the next, as long as a request
// waits for one.
func (l *polls) start(b *background, this *call[*chain.Page], look func(context.Context) (*chain.Page, error)) bool {
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
