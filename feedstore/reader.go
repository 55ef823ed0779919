// Package feedstore reads the feeds and snapshots of a store for many readers at the same
// time. It finds the newest page of a feed, opens pages and verifies their bodies, reads
// ahead of readers that go from page to page, lets readers share requests to the store,
// keeps pages in memory and on disk, and tells of changes.
package feedstore

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/internal/lru"
	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/storage"
)

// Config holds the settings of a [Reader].
type Config struct {
	// ReadAhead is how much memory holds pages that were read from the store, in bytes:
	// those that a reader will ask for next, and those that several readers ask for.
	// Pages of more than a quarter of it are not held. 0 is none.
	ReadAhead int64
	// Cache holds pages on disk; it stays the caller's. nil: there is none.
	Cache *pagecache.Cache
	// MaxWaiters is how many callers of [Feed.Wait] may wait at once. 0: none.
	MaxWaiters int
	// PollInterval is how often a feed that is waited for is looked at, at most. If it is
	// longer than a second, it is at first a second after a change, and grows. In a store
	// that tells of changes a feed is looked at a tenth as often.
	PollInterval time.Duration
	// Network says that bodies leave the process: small ones are then verified before
	// the first byte is given out, and files stay files, which can be sent as such.
	// Otherwise a body is verified as it is read, and read once.
	Network bool
	// Logger gets warnings. nil: nothing.
	Logger *slog.Logger
	// Waiting, if set, is called with how many callers wait for changes when that changes.
	Waiting func(n int)
}

// Stats are counts of what a [Reader] has done, and what it holds.
type Stats struct {
	CacheHits, CacheMisses uint64 // pages that were asked for and were, or were not, in the cache on disk
	Asked, Ahead           uint64 // pages that were read into memory since a reader asked for them, and ahead of one
	Corrupt                uint64 // objects that were not what was written
	Memory                 int64  // bytes taken by pages that were read
}

// A Reader reads the feeds and snapshots of a store. Its methods may be called
// concurrently.
type Reader struct {
	store  storage.Store
	config Config
	log    *slog.Logger

	background  *background
	feeds       *lru.Cache[string, *Feed]
	newFeeds    *lru.Cache[string, *Feed] // those whose newest page was not seen yet
	floors      *calls[string, int64]
	source      *source
	integrity   *integrity
	finished    *lru.Cache[string, struct{}] // snapshots, by the key of the index
	subscribers *subscribers
	heads       heads
	closing     chan struct{}
	closed      atomic.Bool
}

// New returns a Reader of a store, which stays the caller's: Close does not close it.
func New(store storage.Store, c Config) *Reader {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	background, integrity := newBackground(), newIntegrity(store, c.Network)
	r := &Reader{
		store: store, config: c, log: c.Logger,
		background: background,
		feeds:      lru.New[string, *Feed](maxFeeds),
		newFeeds:   lru.New[string, *Feed](maxFeeds),
		floors:     newCalls[string, int64](background),
		source:     newSource(c, background, integrity),
		integrity:  integrity,
		finished:   lru.New[string, struct{}](maxSnapshots),
		closing:    make(chan struct{}),
	}
	r.heads.reader = r
	r.subscribers = &subscribers{reader: r, byFeed: make(map[string]*subscription)}
	return r
}

// Close sends those who wait away, ends reading ahead, and waits for what was begun on
// behalf of several readers until ctx ends. Bodies that are open may be read on.
func (r *Reader) Close(ctx context.Context) {
	if r.closed.CompareAndSwap(false, true) {
		close(r.closing)
	}
	r.subscribers.close()
	r.source.buffers.abandon()
	r.background.close(ctx)
}

// Stats returns counts since the Reader was made.
func (r *Reader) Stats() Stats {
	s := r.source
	return Stats{
		CacheHits: s.hits.Load(), CacheMisses: s.misses.Load(), Asked: s.asked.Load(), Ahead: s.fetchedAhead.Load(),
		Corrupt: r.integrity.corrupt.Load(), Memory: s.buffers.size(),
	}
}

// Corrupt counts an object of the store that is not what was written, and returns the
// error for it, which matches [chain.ErrCorrupt].
func (r *Reader) Corrupt(key string, cause error) error { return r.integrity.corrupted(key, cause) }
