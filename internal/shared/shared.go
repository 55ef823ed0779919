// Package shared opens a resource, such as the connections to a database, once for all its
// concurrent users.
package shared

import (
	"context"
	"sync"
)

// A Pool holds resources by name. The zero Pool is empty.
type Pool[T any] struct {
	mu   sync.Mutex
	used map[string]*resource[T]
}

// A resource is one that is open or is being opened.
type resource[T any] struct {
	users int           // pool.mu guards it
	ready chan struct{} // closed when value, err and stopped are set
	value T
	close func(T) error
	err   error
	// stopped reports whether the resource was not opened because its first user no longer wanted it.
	stopped bool
}

// Open returns the resource with a name. If no one uses the resource, Open opens it with ctx;
// other callers wait until it is open, and get the same error if opening it fails. The caller must call release when
// it no longer uses the resource: the last call closes it.
func (p *Pool[T]) Open(ctx context.Context, name string, open func(context.Context) (T, error), closeIt func(T) error) (value T, release func() error, err error) {
	for {
		r, first := p.use(name)
		if first {
			r.value, r.err = open(ctx)
			r.close, r.stopped = closeIt, r.err != nil && ctx.Err() != nil
			if r.err != nil {
				p.forget(name, r)
			}
			close(r.ready)
		} else {
			select {
			case <-r.ready:
			case <-ctx.Done():
				go func() { // the resource may be open by then
					<-r.ready
					_ = p.release(name, r) // the error is lost, since the user is gone
				}()
				return value, nil, ctx.Err()
			}
		}
		switch {
		case r.err == nil:
			return r.value, sync.OnceValue(func() error { return p.release(name, r) }), nil
		case first || !r.stopped:
			return value, nil, r.err
		}
	}
}

// use adds a user to the resource with a name, and reports whether that user is the first.
func (p *Pool[T]) use(name string) (r *resource[T], first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r = p.used[name]; r == nil {
		if p.used == nil {
			p.used = map[string]*resource[T]{}
		}
		first, r = true, &resource[T]{ready: make(chan struct{})}
		p.used[name] = r
	}
	r.users++
	return r, first
}

// forget makes the next user of a name open the resource again.
func (p *Pool[T]) forget(name string, r *resource[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used[name] == r {
		delete(p.used, name)
	}
}

// release removes a user from a resource, and closes the resource if that user was the last.
func (p *Pool[T]) release(name string, r *resource[T]) error {
	p.mu.Lock()
	r.users--
	last := r.users == 0 && r.err == nil
	if last {
		delete(p.used, name)
	}
	p.mu.Unlock()
	if !last {
		return nil
	}
	return r.close(r.value)
}
