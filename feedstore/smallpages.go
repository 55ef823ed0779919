package feedstore

import (
	"bytes"
	"container/list"
	"io"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
)

// These constants limit, in bytes, the small pages in memory.
const (
	maxSmall    = 64 << 10 // of a page
	maxSmallAll = 6 << 20  // of all pages, including those that are being sent
)

// smallPages keeps the bodies of small pages in memory between requests, for as long as openFiles keeps the
// files of other pages, since for a small page, handling a file takes longer than sending the bytes. As for
// openFiles, the pages must have a next page. Their total size is limited, and no request waits for memory.
type smallPages struct {
	mu    sync.Mutex
	taken int64
	byKey map[pageKey]*smallPage
	idle  list.List // of *smallPage: those that no request holds, the most recently used first
}

// A smallPage is a verified page in memory. Any number of requests may send it.
type smallPage struct {
	key   pageKey
	page  *chain.Page
	data  []byte
	until time.Time

	// The following fields are guarded by the mutex of smallPages.
	holders int
	element *list.Element // in idle, or nil
}

func newSmallPages() *smallPages { return &smallPages{byKey: make(map[pageKey]*smallPage)} }

// open returns a page in memory and a body of it, or nil if the page is not in memory.
func (s *smallPages) open(key pageKey) (*chain.Page, io.ReadCloser) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byKey[key]
	if p == nil || !now.Before(p.until) {
		return nil, nil
	}
	if p.holders++; p.element != nil {
		s.idle.Remove(p.element)
		p.element = nil
	}
	return p.page, s.body(p)
}

// reserve makes room for a page of size bytes, if possible. The caller then adds the page, or frees
// the room.
func (s *smallPages) reserve(size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.taken+size > maxSmallAll {
		oldest := s.idle.Back()
		if oldest == nil {
			return false
		}
		s.remove(oldest.Value.(*smallPage))
	}
	s.taken += size
	return true
}

func (s *smallPages) free(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken -= size
}

// add adds a page, for which room must have been reserved, and returns a body of it. The page replaces an
// older copy of it, if there is one.
func (s *smallPages) add(p *smallPage) io.ReadCloser {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byKey[p.key]; old != nil && old.holders == 0 {
		s.remove(old)
	}
	p.holders = 1
	s.byKey[p.key] = p
	return s.body(p)
}

func (s *smallPages) body(p *smallPage) io.ReadCloser {
	b := &smallBody{pages: s, page: p}
	b.Reset(p.data)
	return b
}

// release ends the use of a page by a request.
func (s *smallPages) release(p *smallPage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.holders--; p.holders > 0 {
		return
	}
	p.element = s.idle.PushFront(p)
	if s.byKey[p.key] != p {
		s.remove(p) // the page was replaced
	}
}

// remove forgets a page that no request holds. The caller must hold mu.
func (s *smallPages) remove(p *smallPage) {
	s.idle.Remove(p.element)
	s.taken -= int64(len(p.data))
	if s.byKey[p.key] == p {
		delete(s.byKey, p.key)
	}
}

// A smallBody is the body of a page for one request.
type smallBody struct {
	bytes.Reader
	pages *smallPages
	page  *smallPage
}

// Close implements [io.Closer]. It must be called only once.
func (b *smallBody) Close() error {
	b.pages.release(b.page)
	return nil
}
