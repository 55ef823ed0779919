// Package feedstore reads the feeds and snapshots of a store for many readers at the same
// time. It finds the newest page of a feed, opens pages and verifies their bodies, reads
// ahead of readers that go from page to page, lets readers share requests to the store,
// keeps pages in memory and on disk, and reports changes.
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
	// ReadAhead limits the memory, in bytes, for pages read from the store: pages that a reader will
	// request next, and pages that several readers request. Pages that are larger than a quarter of the
	// limit are not kept. Zero means none.
	ReadAhead int64
	// Cache keeps pages on disk. The caller closes it. nil means no cache.
	Cache *pagecache.Cache
	// MaxWaiters is how many callers of [Feed.Wait] may wait at the same time. Zero means none.
	MaxWaiters int
	// PollInterval is the longest interval between polls of a feed for whose changes callers wait. After a
	// change, an interval of more than a second is shortened to a second, and then grows again. A store
	// that reports changes is polled a tenth as often.
	PollInterval time.Duration
	// Network means that bodies leave the process. In this case, small bodies are verified before the
	// first byte is returned, and files are returned as files, which the kernel can send. Otherwise, each
	// body is verified as it is read, in a single pass.
	Network bool
	// Logger logs warnings. nil means no logging.
	Logger *slog.Logger
	// Waiting, if set, is called with the number of waiting callers whenever that number changes.
	Waiting func(n int)
}

// Stats holds statistics of a [Reader].
type Stats struct {
	CacheHits, CacheMisses uint64 // how many requested pages were, or were not, in the cache on disk
	Asked, Ahead           uint64 // how many pages were read into memory because a reader requested them, or ahead of readers
	Corrupt                uint64 // corrupt objects
	Memory                 int64  // bytes used by pages in memory
}

// A Reader reads the feeds and snapshots of a store. Its methods may be called
// concurrently.
type Reader struct {
	store  storage.Store
	config Config
	log    *slog.Logger

	background  *background
	feeds       *lru.Cache[string, *Feed]
	newFeeds    *lru.Cache[string, *Feed] // feeds whose newest page is not known yet
	floors      *calls[string, int64]
	source      *source
	integrity   *integrity
	finished    *lru.Cache[string, struct{}] // snapshots known to be finished, by the key of the index
	subscribers *subscribers
	heads       heads
	trackers    trackers
	searches    chan struct{} // holds a value for each search by time under way
	closing     chan struct{}
	closed      atomic.Bool
}

// New returns a Reader of a store. [Reader.Close] does not close the store.
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
		searches:   make(chan struct{}, maxSearches),
		closing:    make(chan struct{}),
	}
	r.heads.reader = r
	r.subscribers = &subscribers{reader: r, byFeed: make(map[string]*subscription)}
	return r
}

// These are the settings of [NewLocal].
const (
	localReadAhead = 12 << 20 // bytes; enough for one reader
	localWaiters   = 1000
	localInterval  = time.Second
)

// NewLocal returns a Reader for use in the same process, without a cache on disk, since a page is usually
// read only once. It reads ahead if the store is remote.
func NewLocal(store storage.Store, logger *slog.Logger) *Reader {
	c := Config{MaxWaiters: localWaiters, PollInterval: localInterval, Logger: logger}
	if storage.PropertiesOf(store).Remote {
		c.ReadAhead = localReadAhead
	}
	return New(store, c)
}

// Close ends all waiting and reading ahead, and waits, until ctx ends, for the shared requests under way.
// Open bodies remain readable.
func (r *Reader) Close(ctx context.Context) {
	if r.closed.CompareAndSwap(false, true) {
		close(r.closing)
	}
	r.subscribers.close()
	r.trackers.close()
	r.source.buffers.abandon()
	r.source.files.close()
	r.background.close(ctx)
}

// Stats returns statistics since the Reader was created.
func (r *Reader) Stats() Stats {
	s := r.source
	return Stats{
		CacheHits: s.hits.Load(), CacheMisses: s.misses.Load(), Asked: s.asked.Load(), Ahead: s.fetchedAhead.Load(),
		Corrupt: r.integrity.corrupt.Load(), Memory: s.buffers.size(),
	}
}

// Corrupt counts a corrupt object of the store and returns the error for it, which matches
// [chain.ErrCorrupt].
func (r *Reader) Corrupt(key string, cause error) error { return r.integrity.corrupted(key, cause) }
