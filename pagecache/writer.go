package pagecache

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/feedctl/feedctl/chain"
)

// A Writer adds a page to the cache. The caller writes the body of the page to the Writer.
type Writer struct {
	cache   *Cache
	entry   *entry
	page    *chain.Page
	trailer []byte
	file    *os.File  // nil after Commit or Abort
	hash    hash.Hash // nil if the body has been verified
	written int64
	err     error // a disk error
}

// Create returns a Writer that adds a page, which must have a next page. It returns nil if the page
// is already cached or cannot be cached. Create makes room for the whole page.
func (c *Cache) Create(p *chain.Page) *Writer {
	end, err := trailer(p)
	if err != nil || c.lock == nil {
		return nil
	}
	at, digest := keyOf(p)
	e := &entry{place: at, digest: digest, size: p.Size + int64(len(end))}
	if !c.reserve(e) {
		return nil
	}
	f, err := c.createTemp()
	if err != nil {
		c.release(e, err)
		return nil
	}
	return &Writer{cache: c, entry: e, page: p, trailer: end, file: f, hash: sha256.New()}
}

// Keep adds a page to the cache, if that is possible. The caller must have verified the body.
func (c *Cache) Keep(p *chain.Page, body []byte) {
	w := c.Create(p)
	if w == nil {
		return
	}
	defer w.Abort()
	w.hash = nil
	_, _ = w.Write(body) // never fails
	w.Commit()
}

// reserve makes room for a page. It returns false if the page is already cached or cannot be
// cached.
func (c *Cache) reserve(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.entries[e.place]; ok && old.Value.(*entry).digest == e.digest {
		return false
	}
	size := onDisk(e.size)
	if size > c.size/maxShare || c.closed || time.Now().Before(c.resume) {
		return false
	}
	c.makeRoom(size)
	if c.bytes+size > c.size {
		return false // pages being written occupy the rest
	}
	c.bytes += size
	return true
}

// release undoes reserve. If err is not nil, it is a disk error.
func (c *Cache) release(e *entry, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= onDisk(e.size)
	if err != nil {
		c.failed("write", err)
	}
}

func (c *Cache) createTemp() (*os.File, error) {
	path := filepath.Join(c.dir, tempDir, rand.Text())
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := c.makeDirs(); err != nil { // a user has removed the directory
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// Write implements [io.Writer]. It never returns an error.
func (w *Writer) Write(b []byte) (int, error) {
	if w.file != nil && w.err == nil {
		if w.hash != nil {
			w.hash.Write(b)
		}
		w.written += int64(len(b))
		if w.written <= w.page.Size { // otherwise Commit aborts
			_, w.err = w.file.Write(b)
		}
	}
	return len(b), nil
}

// Commit adds the page to the cache if the written body has the size and SHA-256 of the page.
// Otherwise it aborts.
func (w *Writer) Commit() {
	if w.file == nil {
		return
	}
	if w.err == nil && !w.right() {
		w.Abort()
		return
	}
	if w.err == nil {
		_, w.err = w.file.Write(w.trailer)
	}
	c := w.cache
	if w.err == nil {
		w.err = w.file.Close()
	}
	if w.err == nil {
		w.err = os.Rename(w.file.Name(), c.path(w.entry))
	}
	if w.err != nil {
		w.Abort()
		return
	}
	w.file = nil
	now := time.Now()
	w.entry.used, w.entry.touched, w.entry.verified = now, now, now
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Added++
	if c.failing {
		c.failing = false
		c.log.Info("page cache resumed", "directory", c.dir)
	}
	c.insert(w.entry)
}

// right reports whether the written bytes are the body of the page.
func (w *Writer) right() bool {
	return w.written == w.page.Size && (w.hash == nil || hex.EncodeToString(w.hash.Sum(nil)) == w.page.SHA256)
}

// Abort discards the page. After Commit it does nothing.
func (w *Writer) Abort() {
	if w.file == nil {
		return
	}
	w.file.Close()
	os.Remove(w.file.Name())
	w.file = nil
	w.cache.release(w.entry, w.err)
}
