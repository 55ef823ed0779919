// Package pagecache caches pages of feeds on a local disk, for readers of a store that is slow or
// charges for requests. Package feedstore uses it, decides what to cache, and proves that a cached
// page still belongs to the feed. A consumer that reads from a store does not use a cache, since it
// reads each page once.
//
// Only pages that have a next page are cached, since they never change. The key of a page is its
// digest in the chain of its feed ([chain.Page.Digest]). So an entry never has to be revalidated,
// and a directory that was used for another store, or for an older state of this store, can be used
// safely. A body is cached only if it has the SHA-256 in the page's metadata: a [Writer] verifies
// this, and callers of [Cache.Keep] have verified it themselves.
//
// # On disk
//
//	DIR/lock                             locked by the process that uses the directory
//	DIR/tmp/...                          pages that are being written
//	DIR/pages/FEED@NUMBER@DIGEST         a page: body, metadata, and a trailer that separates them
//
// The modification time of a file is when the page was last used. Files are not synced: a file that
// was truncated by a crash is noticed, since it does not have the right digest. The directory may
// be removed while no process uses it.
package pagecache

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
)

// ErrInUse is matched by the error of [Open] if another process uses the directory.
var ErrInUse = errors.New("cache directory is in use by another process")

// Limits of a cache.
const (
	// MinSize is the minimum of Config.Size, in bytes.
	MinSize = 1 << 20
	// maxShare is the maximum size of a cached page: 1/maxShare of the cache. Larger pages are not
	// cached.
	maxShare = 4
)

// VerifyAge is how long a body is trusted after it was verified.
const VerifyAge = 10 * time.Minute

const (
	pageDir = "pages"
	tempDir = "tmp"
	lock    = "lock"

	// pause is how long no pages are cached after a disk error.
	pause = time.Minute
	// touchAge is the precision, on disk, of the time at which a page was last used.
	touchAge = time.Minute
)

// Config holds the settings of a cache.
type Config struct {
	// Dir is the directory. Only one process may use it at a time. It is created if it does not
	// exist.
	Dir string
	// Size is the maximum disk space of the cache, in bytes, including pages being written. Each
	// page also takes about 400 bytes of memory.
	Size int64
	// Logger receives warnings; nil discards them.
	Logger *slog.Logger
}

// A Cache is a directory of pages. Its methods may be called concurrently. They do not fail because
// of disk errors: a page that cannot be read is a miss, and a page that cannot be written is not
// cached.
type Cache struct {
	dir  string
	size int64
	log  *slog.Logger
	lock *os.File // nil if the directory cannot be used

	mu      sync.Mutex
	entries map[place]*list.Element // of *entry
	order   list.List               // holds *entry, the most recently used first
	bytes   int64                   // of the pages on disk, and reserved for pages being written
	stats   Stats
	resume  time.Time // when to try writing again after a disk error
	failing bool      // there was a disk error, and no page has been written since
	closed  bool
}

// A place identifies a page by the name of its feed and its number. There is at most one entry for
// each place.
type place struct {
	feed   string
	number int64
}

type entry struct {
	place
	digest   string // in the chain
	size     int64  // of the file
	used     time.Time
	touched  time.Time // the time of use that was last written to disk
	verified time.Time // when the body was last verified; zero if it has not been since Open
}

// Stats holds the size of a cache, and counts events since the cache was opened.
type Stats struct {
	Added   uint64 // pages added
	Evicted uint64 // pages removed to make room
	Damaged uint64 // pages removed because they were damaged
	Errors  uint64 // disk errors
	Pages   int
	Bytes   int64 // on disk
	Off     bool  // no pages are cached at present, because of a disk error
}

// Open opens the cache in a directory. It returns an error if the configuration is invalid or
// another process uses the directory ([ErrInUse]). If the directory cannot be used for another
// reason, Open logs a warning and returns a cache that stores nothing.
func Open(config Config) (*Cache, error) {
	if config.Size < MinSize {
		return nil, fmt.Errorf("open page cache %s: size is %d bytes, must be at least %d", config.Dir, config.Size, MinSize)
	}
	c := &Cache{dir: config.Dir, size: config.Size, log: config.Logger, entries: make(map[place]*list.Element)}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	err := c.prepare()
	if errors.Is(err, ErrInUse) {
		return nil, fmt.Errorf("open page cache %s: %w: use one directory per process", config.Dir, ErrInUse)
	}
	if err != nil {
		c.mu.Lock()
		c.failed("open", err)
		c.mu.Unlock()
	}
	return c, nil
}

// prepare locks the directory and loads its entries. If directories cannot be created at this
// point, they are created when a page is written.
func (c *Cache) prepare() error {
	madeErr := c.makeDirs()
	var err error
	if c.lock, err = lockFile(filepath.Join(c.dir, lock)); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(c.dir, tempDir)); err == nil {
		madeErr = c.makeDirs()
	}
	return errors.Join(madeErr, c.load())
}

func (c *Cache) makeDirs() error {
	for _, name := range []string{pageDir, tempDir} {
		if err := os.MkdirAll(filepath.Join(c.dir, name), 0o777); err != nil {
			return err
		}
	}
	return nil
}

// load adds the pages in the directory to the cache.
func (c *Cache) load() error {
	files, err := os.ReadDir(filepath.Join(c.dir, pageDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var found []*entry
	feeds := make(map[string]string) // makes equal names share one string
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			continue // removed in the meantime
		}
		e, ok := parseName(file.Name())
		if !ok {
			os.Remove(filepath.Join(c.dir, pageDir, file.Name()))
			continue
		}
		if _, ok := feeds[e.feed]; !ok {
			feeds[e.feed] = e.feed
		}
		e.feed, e.size, e.used = feeds[e.feed], info.Size(), info.ModTime()
		e.touched = e.used
		found = append(found, e)
	}
	slices.SortFunc(found, func(a, b *entry) int { return a.used.Compare(b.used) })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range found {
		c.bytes += onDisk(e.size)
		c.insert(e)
	}
	c.makeRoom(0)
	return nil
}

// insert makes e the entry for its place, and the most recently used entry. The size of its file
// must already be counted. The caller must hold mu.
func (c *Cache) insert(e *entry) {
	if old, ok := c.entries[e.place]; ok {
		if old.Value.(*entry).digest == e.digest {
			c.bytes -= onDisk(e.size) // the same file
			return
		}
		c.drop(old)
	}
	c.entries[e.place] = c.order.PushFront(e)
}

// drop removes a page. Its files that are open remain readable. The caller must hold mu.
func (c *Cache) drop(element *list.Element) {
	e := c.order.Remove(element).(*entry)
	delete(c.entries, e.place)
	c.bytes -= onDisk(e.size)
	if err := os.Remove(c.path(e)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.failed("remove", err)
	}
}

// makeRoom removes the least recently used pages until there is room for a page of the given size, in
// bytes. The caller must hold mu.
func (c *Cache) makeRoom(size int64) {
	for c.bytes+size > c.size && c.order.Len() > 0 {
		c.drop(c.order.Back())
		c.stats.Evicted++
	}
}

// failed records a disk error, after which no pages are written for a while. It logs the first
// error of a series. The caller must hold mu.
func (c *Cache) failed(verb string, err error) {
	c.stats.Errors++
	c.resume = time.Now().Add(pause)
	if !c.failing {
		c.log.Warn("page cache is suspended after a disk error", "operation", verb, "directory", c.dir, "error", err)
	}
	c.failing = true
}

// find returns the entry of a page and marks it as used.
func (c *Cache) find(at place, digest string) (found entry, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[at]
	if !ok {
		return entry{}, false
	}
	e := element.Value.(*entry)
	if digest != "" && e.digest != digest {
		c.drop(element) // the entry belongs to another chain: the feed was re-created or restored
		return entry{}, false
	}
	c.order.MoveToFront(element)
	e.used = time.Now()
	if e.used.Sub(e.touched) >= touchAge {
		e.touched = e.used
		_ = os.Chtimes(c.path(e), time.Time{}, e.used) // if this fails, only the order of use is less exact
	}
	return *e, true
}

// forget removes an entry that could not be read.
func (c *Cache) forget(e entry, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[e.place]
	if !ok || element.Value.(*entry).digest != e.digest {
		return
	}
	c.drop(element)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a user has removed the file
	case errors.Is(err, errDamaged):
		c.stats.Damaged++
		c.log.Warn("cached page is damaged, fetching it again", "path", c.path(&e), "error", err)
	default:
		c.failed("read", err)
	}
}

// Has reports whether there is an entry for page n of a feed. It does not check that the
// entry belongs to the current chain of the feed.
func (c *Cache) Has(feed string, n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.entries[place{feed, n}]
	return ok
}

// Drop removes the entry for page n of a feed.
func (c *Cache) Drop(feed string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[place{feed, n}]; ok {
		c.drop(element)
	}
}

// DropBefore removes the entries for pages of a feed with numbers less than n, since those pages no
// longer exist.
func (c *Cache) DropBefore(feed string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, element := range c.entries {
		if at.feed == feed && at.number < n {
			c.drop(element)
		}
	}
}

// Stats returns the current statistics.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Pages, s.Bytes, s.Off = c.order.Len(), c.bytes, c.lock == nil || time.Now().Before(c.resume)
	return s
}

// Close closes the cache and unlocks the directory. Open bodies remain readable. All Writers must
// have been committed or aborted before.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	clear(c.entries)
	if c.lock == nil {
		return nil
	}
	if err := c.lock.Close(); err != nil {
		return fmt.Errorf("close page cache %s: %w", c.dir, err)
	}
	return nil
}

// keyOf returns the place and the digest of a page.
func keyOf(p *chain.Page) (place, string) { return place{p.Feed, p.Number}, p.Digest() }

// block is the assumed size of a disk block, in bytes.
const block = 4096

// onDisk returns the disk space that a file of the given size takes: whole blocks, and one more for
// its inode and name.
func onDisk(size int64) int64 { return (size + 2*block - 1) / block * block }
