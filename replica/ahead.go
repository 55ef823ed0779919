package replica

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// queued is the maximum number of pages of a feed that wait to be written. The memory limit restricts their
// number, too.
const queued = 16

const defaultMemory = 16 << 20

func newMemory(size int64) *semaphore.Weighted { return semaphore.NewWeighted(max(size, inMemory)) }

// A reader reads consecutive pages of the source, several at a time, and returns them in
// order. Memory is reserved for one page after another, so a page to be written never waits
// for later ones.
type reader struct {
	next, last int64 // numbers of pages
	pages      chan *loaded
	cancel     context.CancelFunc
}

// A loaded is a page that has been read or, until done is closed, is being read.
type loaded struct {
	page    *chain.Page
	meta    storage.Meta
	source  *body
	content storage.Body // source, or its bytes in memory
	err     error
	done    chan struct{}

	memory *semaphore.Weighted
	held   int64 // reserved memory, in bytes
}

func (l *loaded) release() { l.memory.Release(l.held) }

// read starts to read pages. The caller must call stop.
func (f *Feed) read(ctx context.Context, first, last int64) *reader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{next: first, last: last, pages: make(chan *loaded, queued), cancel: cancel}
	go func() {
		defer close(r.pages)
		for n := first; n <= last; n++ {
			if f.memory.Acquire(ctx, inMemory) != nil {
				return
			}
			l := &loaded{done: make(chan struct{}), memory: f.memory, held: inMemory}
			go func() {
				defer close(l.done)
				l.err = f.load(ctx, n, l)
			}()
			r.pages <- l
		}
	}()
	return r
}

// load reads page n, and releases the reserved memory that it does not need.
func (f *Feed) load(ctx context.Context, n int64, l *loaded) (err error) {
	l.meta, l.source, l.content, err = fetch(ctx, f.from, layout.FeedPage(f.name, n), func(info storage.Info) (string, error) {
		var err error
		if l.page, err = chain.Decode(f.name, n, info); err != nil {
			return "", err
		}
		return l.page.SHA256, nil
	})
	if err != nil {
		return err
	}
	need := l.source.size
	if need > inMemory {
		need = 0
	}
	l.memory.Release(l.held - need)
	l.held = need
	return nil
}

// take waits for the next page, which the caller must release. It returns nil if the
// context of the reader has ended.
func (r *reader) take() *loaded {
	l := <-r.pages
	if l != nil {
		r.next++
		<-l.done
	}
	return l
}

// stop stops reading and releases the memory of pages that were not taken.
func (r *reader) stop() {
	r.cancel()
	for l := r.take(); l != nil; l = r.take() {
		l.release()
	}
}
