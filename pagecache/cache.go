// Package pagecache keeps pages of feeds on a local disk, for whoever reads them
// from a store that is far away or costs money for each request.
//
// Only pages that have a next page are kept: they never change. A page is kept
// under its digest in the chain of its feed ([chain.Page.Digest]) and is asked for
// by it, so that it never has to be asked of the store whether what is kept is still
// right, and a directory that was used for another store, or for an older state of
// this one, does no harm. A body is kept once its bytes have the SHA-256 that the
// page's metadata names.
//
// # On disk
//
//	DIR/lock                             locked by the process that uses the directory
//	DIR/tmp/...                          pages that are being written
//	DIR/pages/FEED@NUMBER@DIGEST         a page: body, metadata, and a trailer that tells both apart
//
// The time of a file's last modification is when the page was last used. Nothing is
// synced: what a crash leaves half-written does not have the right digest. The
// directory may be removed whenever nobody uses it.
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

// ErrInUse is matched by the error of [Open] if another process has the directory.
var ErrInUse = errors.New("cache directory is in use by another process")

// Limits of a cache.
const (
	// MinSize is the least that Config.Size may be, in bytes.
	MinSize = 1 << 20
	// MaxShare is the part of the cache that a single page may take: a larger one is
	// not kept.
	MaxShare = 4
)

// VerifyAge is for how long a body is taken to be as it was when it was verified.
const VerifyAge = 10 * time.Minute

const (
	pageDir = "pages"
	tempDir = "tmp"
	lock    = "lock"

	// pause is for how long nothing is kept after the disk refused to.
	pause = time.Minute
	// touchAge is how exact the time of the last use is on disk.
	touchAge = time.Minute
)

// Config holds the settings of a cache.
type Config struct {
	// Dir is the directory, of one process alone. It is made if it is not there.
	Dir string
	// Size is how much of the disk the cache may take, in bytes, with what is being
	// written. Besides, each page in it takes about 400 bytes of memory.
	Size int64
	// Logger gets warnings. Defaults to none.
	Logger *slog.Logger
}

// A Cache is a directory of pages. Its methods may be called concurrently. None of
// them fails because of the disk: what cannot be read is not there, and what cannot
// be written is not kept.
type Cache struct {
	dir  string
	size int64
	log  *slog.Logger
	lock *os.File // nil if the directory cannot be used

	mu      sync.Mutex
	entries map[place]*list.Element // of *entry
	order   list.List               // of *entry, the last used first
	bytes   int64                   // on disk, and reserved for what is being written
	stats   Stats
	resume  time.Time // when to try again to write
	failing bool      // and nothing was written since
	closed  bool
}

// A place is a page in a feed. One page is kept for it.
type place struct {
	feed   string
	number int64
}

// An entry is a page that is kept.
type entry struct {
	place
	digest   string // in the chain
	size     int64  // of the file
	used     time.Time
	touched  time.Time // when used was last written to the disk
	verified time.Time // when the body was; zero if not since the start
}

// Stats says what a cache holds and did since it was opened.
type Stats struct {
	Added   uint64 // pages that were kept
	Evicted uint64 // pages that were removed to make room
	Damaged uint64 // pages that were removed because they were not as written
	Errors  uint64 // of the disk
	Pages   int
	Bytes   int64 // on disk
	Off     bool  // nothing is kept at the moment, because of an error of the disk
}

// Open opens the cache in a directory. It fails if the configuration is wrong or
// another process uses the directory (ErrInUse). If the disk does not allow it to be
// used at all there is a warning, and a cache that keeps nothing.
func Open(config Config) (*Cache, error) {
	if config.Size < MinSize {
		return nil, fmt.Errorf("open page cache %s: its size is %d bytes, must be at least %d", config.Dir, config.Size, MinSize)
	}
	c := &Cache{dir: config.Dir, size: config.Size, log: config.Logger, entries: make(map[place]*list.Element)}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	err := c.prepare()
	if errors.Is(err, ErrInUse) {
		return nil, fmt.Errorf("open page cache %s: %w: give each its own", config.Dir, ErrInUse)
	}
	if err != nil {
		c.mu.Lock()
		c.failed("open", err)
		c.mu.Unlock()
	}
	return c, nil
}

// prepare locks the directory and takes stock. Directories that are missing and
// cannot be made are noticed again when something is to be written.
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

// load takes stock of the directory.
func (c *Cache) load() error {
	files, err := os.ReadDir(filepath.Join(c.dir, pageDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var found []*entry
	feeds := make(map[string]string) // one copy of each name
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			continue // gone
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

// insert makes e the entry of its place, used last. The bytes of its file are
// counted already. The caller holds the lock.
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

// drop removes a page. Whoever has its file open reads on. The caller holds the lock.
func (c *Cache) drop(element *list.Element) {
	e := c.order.Remove(element).(*entry)
	delete(c.entries, e.place)
	c.bytes -= onDisk(e.size)
	if err := os.Remove(c.path(e)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.failed("remove", err)
	}
}

// makeRoom removes the pages that were not used for the longest time, until there
// is room for so many bytes more. The caller holds the lock.
func (c *Cache) makeRoom(size int64) {
	for c.bytes+size > c.size && c.order.Len() > 0 {
		c.drop(c.order.Back())
		c.stats.Evicted++
	}
}

// failed notes an error of the disk: for a while nothing more is written. The first
// of a series is told. The caller holds the lock.
func (c *Cache) failed(verb string, err error) {
	c.stats.Errors++
	c.resume = time.Now().Add(pause)
	if !c.failing {
		c.log.Warn("page cache does without the disk", "operation", verb, "directory", c.dir, "error", err)
	}
	c.failing = true
}

// find returns the entry of a page and notes its use.
func (c *Cache) find(at place, digest string) (found entry, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[at]
	if !ok {
		return entry{}, false
	}
	e := element.Value.(*entry)
	if digest != "" && e.digest != digest {
		c.drop(element) // of another chain: the feed was made anew
		return entry{}, false
	}
	c.order.MoveToFront(element)
	e.used = time.Now()
	if e.used.Sub(e.touched) >= touchAge {
		e.touched = e.used
		_ = os.Chtimes(c.path(e), time.Time{}, e.used) // what is lost is a bit of order
	}
	return *e, true
}

// forget removes what is no longer, or not any more, the page that e says.
func (c *Cache) forget(e entry, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[e.place]
	if !ok || element.Value.(*entry).digest != e.digest {
		return
	}
	c.drop(element)
	switch {
	case errors.Is(err, fs.ErrNotExist): // somebody cleans up
	case errors.Is(err, errDamaged):
		c.stats.Damaged++
		c.log.Warn("page in cache is damaged: it is fetched again", "path", c.path(&e), "error", err)
	default:
		c.failed("read", err)
	}
}

// Has reports whether a page is kept for page n of a feed. That it is the one of
// today's feed shows only when it is asked for by its metadata.
func (c *Cache) Has(feed string, n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.entries[place{feed, n}]
	return ok
}

// Drop removes what is kept for page n of a feed.
func (c *Cache) Drop(feed string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[place{feed, n}]; ok {
		c.drop(element)
	}
}

// Stats returns the numbers of now.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Pages, s.Bytes, s.Off = c.order.Len(), c.bytes, c.lock == nil || time.Now().Before(c.resume)
	return s
}

// Close lets another process use the directory: from now on nothing is kept or
// found. Bodies that are open stay readable. What is being written must have been
// given up or committed before.
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

// keyOf returns where a page is kept, and under which digest.
func keyOf(p *chain.Page) (place, string) { return place{p.Feed, p.Number}, p.Digest() }

// block is the unit in which disks are given out, in bytes.
const block = 4096

// onDisk is what a file takes of the disk: whole blocks, and one for its name.
func onDisk(size int64) int64 { return (size + 2*block - 1) / block * block }
