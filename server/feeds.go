package server

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
)

// Limits of what the server remembers.
const (
	maxFeeds = 1024 // feeds that are known to exist
	maxPages = 4096 // metadata of linked pages
)

// floorAge is for how long a feed's floor is taken for granted.
const floorAge = time.Second

// A servedFeed is what the server knows of a feed that it reads.
type servedFeed struct {
	name   string
	reader *chain.Reader
	newest atomic.Int64 // the highest number that a newest page has had
	open   openDigest

	mu        sync.Mutex
	floor     int64
	floorRead time.Time
}

// feed returns what is known of a feed, or a new beginning of that.
func (s *Server) feed(name string) (*servedFeed, error) {
	if err := layout.CheckName(name); err != nil {
		return nil, newProblem(http.StatusNotFound, "no-feed", "%v", err)
	}
	if f, ok := s.feeds.get(name); ok {
		return f, nil
	}
	f := &servedFeed{name: name, reader: chain.NewReader(s.store, name)}
	f.open.reader, f.open.free = f.reader, make(chan struct{}, 1)
	return f, nil
}

// lookNewest returns the newest page as it is in the store now. Only feeds that
// have one are remembered, so that nobody can fill the memory with names.
func (s *Server) lookNewest(ctx context.Context, f *servedFeed) (*chain.Page, error) {
	p, err := f.reader.Newest(ctx)
	if err != nil {
		return nil, err
	}
	for n := f.newest.Load(); p.Number > n && !f.newest.CompareAndSwap(n, p.Number); n = f.newest.Load() {
	}
	s.feeds.add(f.name, f, 1)
	return p, nil
}

// floorNow returns the number of the oldest page, as it was floorAge ago or later.
func (f *servedFeed) floorNow(ctx context.Context) (int64, error) {
	f.mu.Lock()
	floor, fresh := f.floor, time.Since(f.floorRead) < floorAge
	f.mu.Unlock()
	if floor > 0 && fresh {
		return floor, nil
	}
	floor, err := f.reader.Floor(ctx)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.floor, f.floorRead = max(f.floor, floor), time.Now()
	return f.floor, nil
}

// getNewest answers /feeds/{feed}.
func (s *Server) getNewest(w *responder, r *http.Request) error {
	f, err := s.feed(pathValue(r, "feed"))
	if err != nil {
		return err
	}
	newest, err := s.lookNewest(r.Context(), f)
	if err != nil {
		return err
	}
	return s.serveNewest(w, r, f, newest, newest.Number, true)
}

// getPage answers /feeds/{feed}/pages/{n}.
func (s *Server) getPage(w *responder, r *http.Request) error {
	f, err := s.feed(pathValue(r, "feed"))
	if err != nil {
		return err
	}
	n, ok := pageNumber(pathValue(r, "n"))
	if !ok || n < 1 {
		return newProblem(http.StatusNotFound, "no-page", "page numbers are 1, 2, 3 and so on")
	}
	if n < f.newest.Load() {
		return s.serveLinked(w, r, f, n)
	}
	newest, err := s.lookNewest(r.Context(), f)
	switch {
	case err != nil:
		return err
	case n > newest.Number:
		return newProblem(http.StatusNotFound, "no-page", "the newest page is %d", newest.Number)
	case n < newest.Number:
		return s.serveLinked(w, r, f, n)
	}
	return s.serveNewest(w, r, f, newest, n, false)
}

// serveLinked serves a page that has a next page. Unless the request asks about
// its state only, the store is asked for its body and nothing else.
func (s *Server) serveLinked(w *responder, r *http.Request, f *servedFeed, n int64) error {
	floor, err := f.floorNow(r.Context())
	if err == nil && n < floor {
		err = fmt.Errorf("page %d of feed %q: %w (the oldest is %d)", n, f.name, chain.ErrPruned, floor)
	}
	if err != nil {
		return err
	}
	return s.serve(w, r, &feedPage{server: s, feed: f, number: n, linked: true, floor: floor, base: s.base(r)}, nil)
}

// serveNewest serves page n, which was the newest a moment ago. A request that
// asks to wait does so before.
func (s *Server) serveNewest(w *responder, r *http.Request, f *servedFeed, newest *chain.Page, n int64, entry bool) error {
	ctx := r.Context()
	floor, err := f.floorNow(ctx)
	if err != nil {
		return err
	}
	res := &feedPage{server: s, feed: f, number: n, floor: floor, base: s.base(r), entry: entry}
	rep := res.represent(newest)
	wait := preferredWait(r.Header.Values("Prefer"), s.config.MaxWait)
	coding, _ := acceptedCoding(r.Header.Values("Accept-Encoding"))
	if wait > 0 && len(r.Header["If-None-Match"]) > 0 && precondition(r, rep, rep.etag(coding)) == http.StatusNotModified {
		later, granted, err := s.hubs.wait(ctx, f, newest, wait)
		if err != nil {
			return err
		}
		if granted {
			w.waited = true
			w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", int(wait/time.Second)))
		}
		if entry {
			res.number = later.Number
		} else if later.Number > n {
			return s.serveLinked(w, r, f, n)
		}
		rep = res.represent(later)
	}
	return s.serve(w, r, res, rep)
}

// A feedPage is the resource of one page.
type feedPage struct {
	server *Server
	feed   *servedFeed
	number int64
	linked bool // it has a next page, so it never changes
	floor  int64
	base   string // begins all URLs
	entry  bool   // asked for as the entry point
}

type pageKey struct {
	feed   string
	number int64
}

// stat implements resource.
func (f *feedPage) stat(ctx context.Context) (*representation, error) {
	if p, ok := f.server.pages.get(pageKey{f.feed.name, f.number}); ok && f.linked {
		return f.represent(p), nil
	}
	p, err := f.feed.reader.Stat(ctx, f.number)
	if err != nil {
		return nil, err
	}
	f.remember(p)
	return f.represent(p), nil
}

// open implements resource.
func (f *feedPage) open(ctx context.Context, offset, length int64) (*representation, io.ReadCloser, error) {
	p, object, err := f.feed.reader.Open(ctx, f.number, offset, length)
	if err != nil {
		return nil, nil, err
	}
	f.remember(p)
	return f.represent(p), object.Body, nil
}

// remember keeps the metadata of a page that cannot change any more.
func (f *feedPage) remember(p *chain.Page) {
	if !f.linked {
		return
	}
	lean := *p
	lean.Checkpoint = nil
	f.server.pages.add(pageKey{f.feed.name, f.number}, &lean, 1)
}

// represent describes a state of the page. An open page ends with a closing
// delimiter that is not stored.
func (f *feedPage) represent(p *chain.Page) *representation {
	url := func(n int64) string { return f.base + layout.FeedPagePath(f.feed.name, n) }
	links := feed.Links{Self: url(p.Number)}
	if p.Number > f.floor {
		links.Prev = url(p.Number - 1)
	}
	rep := &representation{
		contentType: page.ContentType(p.Boundary),
		tag:         shortDigest(p.SHA256),
		modified:    feed.Truncate(p.Last),
		changing:    true,
		stored:      p.Size,
		digest:      func(ctx context.Context) []byte { return f.feed.open.sum(ctx, p) },
	}
	if p.Closed {
		rep.digest = func(context.Context) []byte { return decodeDigest(p.SHA256) }
	} else {
		rep.tail = string(page.AppendClose(nil, p.Boundary))
	}
	if f.linked {
		links.Next = url(p.Number + 1)
		rep.tag += "-l"
		rep.immutable = true
	}
	if f.entry {
		rep.location = links.Self
	}
	rep.links = links.Header()
	return rep
}

// shortDigest is as much of a SHA-256 in hex as an ETag needs.
func shortDigest(sum string) string { return sum[:min(len(sum), 32)] }

// decodeDigest returns nil for what is no SHA-256 in hex.
func decodeDigest(sum string) []byte {
	digest, err := hex.DecodeString(sum)
	if err != nil || len(digest) != 32 {
		return nil
	}
	return digest
}
