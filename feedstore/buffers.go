package feedstore

import (
	"container/list"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
)

// These constants limit the pages in memory.
const (
	// bufferUnit is the granularity of memory for pages, in bytes.
	bufferUnit = 64 << 10
	// maxBufferShare limits one page to this fraction of the memory.
	maxBufferShare = 4
	// unreadAge is how long a page that was fetched ahead is kept for a reader before another page may
	// replace it.
	unreadAge = 10 * time.Second
)

// errUnbuffered means that a page cannot be buffered in memory.
var errUnbuffered = errors.New("no memory for the page")

// buffers holds pages in memory: those being fetched, those fetched ahead, and those that were read and may
// soon be read by another reader. Their total size is limited, and no reader waits for memory.
type buffers struct {
	limit int64 // in bytes; 0 disables buffering

	mu     sync.Mutex
	taken  int64
	byKey  map[bufferKey]*buffer
	read   list.List // of *buffer: those that were read and have no holders, the most recent first
	unread list.List // of *buffer: those that were fetched ahead and not yet read, the most recent first
	free   []sync.Pool
}

// A bufferKey identifies a page that has a next page, or a state of the newest page, by its SHA-256.
type bufferKey struct {
	pageKey
	state string
}

// A buffer is a page in memory.
type buffer struct {
	bufferKey
	ready chan struct{} // closed when the following fields are set

	page   *chain.Page
	body   []byte
	lender io.Closer // closes body if that is memory of the driver; otherwise nil
	digest []byte    // SHA-256 of the page as it is served, if it has no next page
	err    error

	// The following fields are guarded by the mutex of buffers.
	taken   int64
	holders int // number of readers, plus one for the task that fetches the page
	wanted  bool
	useless bool // whether the fetch failed, or the page is on disk
	cancel  context.CancelFunc
	element *list.Element // the element of one of the lists, or nil
	since   time.Time     // when it was fetched
}

func newBuffers(limit int64) *buffers {
	return &buffers{
		limit: limit, byKey: make(map[bufferKey]*buffer),
		free: make([]sync.Pool, limit/maxBufferShare/bufferUnit+1),
	}
}

// fits reports whether a page of size bytes may be held.
func (p *buffers) fits(size int64) bool { return size > 0 && size <= p.limit/maxBufferShare }

// acquire returns the buffer of a page; the caller must release it. If begun is true, the buffer is new, and
// the caller has to fetch the page and release the buffer twice. acquire returns nil if there is no memory
// for size bytes.
func (p *buffers) acquire(key bufferKey, size int64) (b *buffer, begun bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b = p.hold(key); b != nil {
		return b, false
	}
	if b = p.add(key, size, false); b != nil {
		b.holders++
		b.wanted = true
	}
	return b, b != nil
}

// begin returns a new buffer for a page to be fetched ahead. It returns nil if the page already has a buffer,
// or if there is no memory for a new one, in which case full is true.
func (p *buffers) begin(key bufferKey, size int64) (b *buffer, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.byKey[key]; ok {
		return nil, false
	}
	b = p.add(key, size, true)
	return b, b == nil
}

// hold returns the buffer with a key for another reader, or nil if there is none. The caller must hold mu.
func (p *buffers) hold(key bufferKey) *buffer {
	b := p.byKey[key]
	if b == nil {
		return nil
	}
	b.holders++
	p.unlist(b)
	b.wanted = true
	return b
}

func (p *buffers) add(key bufferKey, size int64, ahead bool) *buffer {
	size = rounded(size)
	if !p.fits(size) || !p.makeRoom(size, ahead) {
		return nil
	}
	p.taken += size
	b := &buffer{bufferKey: key, ready: make(chan struct{}), taken: size, holders: 1}
	p.byKey[key] = b
	return b
}

// makeRoom removes unused buffers until there is room for size bytes: first those that
// were read, the oldest first, and then those fetched ahead. If ahead is true, it removes buffers fetched
// ahead only if they have not been read for unreadAge.
func (p *buffers) makeRoom(size int64, ahead bool) bool {
	for p.taken+size > p.limit {
		oldest := p.read.Back()
		if oldest == nil {
			oldest = p.unread.Back()
		}
		if oldest == nil {
			return false
		}
		b := oldest.Value.(*buffer)
		if ahead && !b.wanted && time.Since(b.since) < unreadAge {
			return false
		}
		p.remove(b)
	}
	return true
}

// resize corrects the size of a buffer once the size of the page is known. It returns false if there is no
// memory for that size.
func (p *buffers) resize(b *buffer, size int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	size = rounded(max(size, 1))
	if !p.fits(size) || size > b.taken && !p.makeRoom(size-b.taken, !b.wanted) {
		return false
	}
	p.taken += size - b.taken
	b.taken = size
	return true
}

// finish completes a buffer, which the caller must still hold.
func (p *buffers) finish(b *buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.since = time.Now()
	if b.err != nil {
		p.discard(b)
	}
	close(b.ready)
}

// discard ensures that no other reader gets the buffer. The caller must hold mu.
func (p *buffers) discard(b *buffer) {
	b.useless = true
	if p.byKey[b.bufferKey] == b {
		delete(p.byKey, b.bufferKey)
	}
}

// retire ensures that a page that is now on disk is not read from memory again.
func (p *buffers) retire(b *buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discard(b)
}

// release releases the buffer. The caller must not use it afterwards.
func (p *buffers) release(b *buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.holders--; b.holders > 0 {
		return
	}
	switch {
	case b.useless:
		p.remove(b)
	case b.wanted:
		b.element = p.read.PushFront(b)
	default:
		b.element = p.unread.PushFront(b)
	}
}

func (p *buffers) unlist(b *buffer) {
	if b.element == nil {
		return
	}
	if b.wanted {
		p.read.Remove(b.element)
	} else {
		p.unread.Remove(b.element)
	}
	b.element = nil
}

// remove frees the memory of a buffer that has no holders.
func (p *buffers) remove(b *buffer) {
	p.unlist(b)
	p.discard(b)
	p.taken -= b.taken
	body := b.body
	b.body = nil
	switch {
	case b.lender != nil:
		_ = b.lender.Close()
	case body != nil:
		p.free[cap(body)/bufferUnit].Put(&body)
	}
}

// memory returns memory for a page, reused if possible.
func (p *buffers) memory(size int64) []byte {
	whole := rounded(size)
	if used, ok := p.free[whole/bufferUnit].Get().(*[]byte); ok {
		return (*used)[:size]
	}
	return make([]byte, size, whole)
}

func rounded(size int64) int64 { return (size + bufferUnit - 1) / bufferUnit * bufferUnit }

// size returns the memory in use, in bytes.
func (p *buffers) size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// begun records how to cancel the fetch of a page.
func (p *buffers) begun(b *buffer, cancel context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.cancel = cancel
}

// abandon cancels the fetches of pages that no reader has requested yet.
func (p *buffers) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.byKey {
		if !b.wanted && b.cancel != nil {
			b.cancel()
		}
	}
}
