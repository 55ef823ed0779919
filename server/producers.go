package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// producers holds the feeds that are open for publishing. A feed is opened when needed.
// When more than limit are open, the least recently used idle ones are closed.
type producers struct {
	store  storage.Store
	config producer.Config
	limit  int

	mu     sync.Mutex
	byFeed map[string]*openProducer
	idle   []string // names of unused producers, the least recently used first
}

func newProducers(store storage.Store, config producer.Config, limit int) *producers {
	return &producers{store: store, config: config, limit: limit, byFeed: make(map[string]*openProducer)}
}

type openProducer struct {
	feed  *producer.Feed
	ready chan struct{} // closed when feed or err is set
	err   error
	users int
}

// acquire returns the producer of a feed, to be released after use.
func (p *producers) acquire(ctx context.Context, name string) (*producer.Feed, func(), error) {
	p.mu.Lock()
	open := p.byFeed[name]
	first := open == nil
	if first {
		open = &openProducer{ready: make(chan struct{})}
		p.byFeed[name] = open
	} else if open.users == 0 {
		p.idle = slices.DeleteFunc(p.idle, func(idle string) bool { return idle == name })
	}
	open.users++
	p.mu.Unlock()
	if first {
		// The producer outlives the request that it is opened for.
		open.feed, open.err = producer.Open(context.WithoutCancel(ctx), p.store, name, p.config)
		close(open.ready)
	}
	<-open.ready
	if open.err != nil {
		p.forget(name, open)
		return nil, nil, fmt.Errorf("open feed %q for publishing: %w", name, open.err)
	}
	return open.feed, func() { p.release(name, open) }, nil
}

// forget removes a producer that could not be opened.
func (p *producers) forget(name string, open *openProducer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byFeed[name] == open {
		delete(p.byFeed, name)
	}
}

// release ends a use of a producer, and closes idle producers beyond the limit.
func (p *producers) release(name string, open *openProducer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open.users--; open.users > 0 {
		return
	}
	p.idle = append(p.idle, name)
	for len(p.byFeed) > p.limit && len(p.idle) > 0 {
		oldest := p.idle[0]
		p.idle = p.idle[1:]
		_ = p.byFeed[oldest].feed.Close() // an idle producer has nothing to write
		delete(p.byFeed, oldest)
	}
}

// close closes all producers. None may be in use.
func (p *producers) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for name, open := range p.byFeed {
		if open.feed != nil {
			errs = append(errs, open.feed.Close())
		}
		delete(p.byFeed, name)
	}
	p.idle = nil
	return errors.Join(errs...)
}
