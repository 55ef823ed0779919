package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
)

// Limits of what the server remembers.
const (
	maxFeeds = 1024 // feeds that are known to exist
	maxPages = 4096 // metadata of pages that have a next page
)

// floorAge is for how long a feed's floor is taken for granted.
const floorAge = time.Second

// errDeletedPage: the page was one of a feed that was deleted.
var errDeletedPage = errors.New("page was deleted with its feed")

// A servedFeed is what the server knows of a feed that it reads.
type servedFeed struct {
	name   string
	reader *chain.Reader
	newest atomic.Int64               // the highest number that a newest page has had
	last   atomic.Pointer[chain.Page] // the newest page when it was last looked at
	size   atomic.Int64               // of the page that was last fetched, in bytes
	looks  looks
	open   openDigest

	forgotten atomic.Bool

	mu        sync.Mutex
	floor     int64
	floorRead time.Time
}

// feed returns what is known of a feed, or a new beginning of that.
func (s *Server) feed(name string) (*servedFeed, error) {
	if err := layout.CheckName(name); err != nil {
		return nil, newProblem(http.StatusNotFound, "no-feed", "%v", err)
	}
	for {
		f, ok := s.feeds.get(name)
		if !ok {
			f = &servedFeed{name: name, reader: chain.NewReader(s.store, name)}
			f.open.reader, f.open.free = f.reader, make(chan struct{}, 1)
			f = s.newFeeds.add(name, f, 1)
		}
		if !f.stale() {
			return f, nil
		}
		s.forget(f)
	}
}

// stale reports whether what is known of the feed is of a timeline that is gone: the
// store went back to an older state.
func (f *servedFeed) stale() bool { return f.reader.Timeline() > 0 }

// forget forgets a feed, and with it the pages of it that are in memory: they are
// kept by it, not by its name.
func (s *Server) forget(f *servedFeed) {
	if f.forgotten.CompareAndSwap(false, true) {
		s.log.Warn("store went back to an older state of the feed: what is in memory of it is dropped; purge the caches before this server", "feed", f.name)
	}
	own := func(other *servedFeed) bool { return other == f }
	s.feeds.remove(f.name, own)
	s.newFeeds.remove(f.name, own)
}

// usualSize returns what a page that is not known yet may be expected to have.
func (f *servedFeed) usualSize() int64 {
	if size := f.size.Load(); size > 0 {
		return size
	}
	return usualPage
}

// lookNewest returns the newest page as it is in the store now: as it was at some
// moment since the call. Feeds that have none are remembered apart, so that
// whoever makes up names drives out nothing but those.
func (s *Server) lookNewest(ctx context.Context, f *servedFeed) (*chain.Page, error) {
	p, err := f.looks.do(ctx, s.background, f.look)
	if err != nil {
		return nil, err
	}
	if !f.stale() {
		s.feeds.add(f.name, f, 1)
	}
	s.gauges.saw(p)
	return p, nil
}

// look asks the store for the newest page. As long as that grows this takes a
// single request: a page that was the newest and is still open, with the boundary
// that no other page has, is the newest.
func (f *servedFeed) look(ctx context.Context) (*chain.Page, error) {
	if last := f.last.Load(); last != nil && !last.Closed {
		p, err := f.reader.Stat(ctx, last.Number)
		grown := err == nil && p.Boundary == last.Boundary && (p.Entities > last.Entities || p.SHA256 == last.SHA256)
		if grown && !p.Closed {
			f.saw(p)
			return p, nil
		}
	}
	p, err := f.reader.Newest(ctx)
	if err != nil {
		return nil, err
	}
	f.saw(p)
	return p, nil
}

// saw remembers the newest page.
func (f *servedFeed) saw(p *chain.Page) {
	known := lean(p)
	f.last.Store(known)
	f.reader.Remember(known) // so that it notices if the store goes back from there
	for n := f.newest.Load(); p.Number > n && !f.newest.CompareAndSwap(n, p.Number); n = f.newest.Load() {
	}
}

// lean returns what is remembered of a page: all but the checkpoint.
func lean(p *chain.Page) *chain.Page {
	l := *p
	l.Checkpoint = nil
	return &l
}

// freshFloor returns the number of the oldest page if that was read not long ago.
func (f *servedFeed) freshFloor() (int64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.floor, f.floor > 0 && time.Since(f.floorRead) < floorAge
}

// floorNow returns the number of the oldest page, as it was floorAge ago or later.
func (s *Server) floorNow(ctx context.Context, f *servedFeed) (int64, error) {
	if floor, fresh := f.freshFloor(); fresh {
		return floor, nil
	}
	return s.floors.do(ctx, f.name, func(ctx context.Context) (int64, error) {
		asked := time.Now()
		floor, err := f.reader.Floor(ctx)
		if err != nil {
			return 0, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.floor, f.floorRead = max(f.floor, floor), asked
		return f.floor, nil
	})
}

// lookBoth returns what is known of a feed, its newest page, as lookNewest does, and the
// floor, as floorNow does. If the store turns out to have gone back, the feed is looked
// at as if nothing was known of it.
func (s *Server) lookBoth(ctx context.Context, name string) (f *servedFeed, newest *chain.Page, floor int64, err error) {
	for {
		if f, err = s.feed(name); err != nil {
			return nil, nil, 0, err
		}
		newest, floor, err = s.lookAt(ctx, f)
		if err != nil || !f.stale() {
			return f, newest, floor, err
		}
	}
}

// lookAt asks for the newest page and the floor at the same time. The newest page that
// is found without looking at the floor is looked for again if it is below that: a
// writer that slept for very long may have put a page where one was pruned.
func (s *Server) lookAt(ctx context.Context, f *servedFeed) (newest *chain.Page, floor int64, err error) {
	floor, fresh := f.freshFloor()
	var asking errgroup.Group
	if !fresh {
		asking.Go(func() (err error) {
			floor, err = s.floorNow(ctx, f)
			return err
		})
	}
	newest, err = s.lookNewest(ctx, f)
	if floorErr := asking.Wait(); err == nil {
		err = floorErr
	}
	if err == nil && newest.Number < floor {
		newest, err = s.lookNewest(ctx, f)
	}
	return newest, floor, err
}

// getNewest answers /feeds/{feed}.
func (s *Server) getNewest(w *responder, r *http.Request) error {
	f, newest, floor, err := s.lookBoth(r.Context(), pathValue(r, "feed"))
	if err != nil {
		return err
	}
	return s.serveNewest(w, r, f, newest, floor, newest.Number, true)
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
	f, newest, floor, err := s.lookBoth(r.Context(), f.name)
	switch {
	case errors.Is(err, chain.ErrDeleted) && n < f.reader.SeenFloor():
		return fmt.Errorf("page %d: %w: %w", n, errDeletedPage, err)
	case err != nil:
		return err
	case n > newest.Number:
		return newProblem(http.StatusNotFound, "no-page", "the newest page is %d", newest.Number)
	case n < newest.Number:
		return s.serveLinked(w, r, f, n)
	}
	return s.serveNewest(w, r, f, newest, floor, n, false)
}

// serveLinked serves a page that has a next page. Unless the request asks about
// its state only, the store is asked for its body and nothing else, if at all.
func (s *Server) serveLinked(w *responder, r *http.Request, f *servedFeed, n int64) error {
	floor, err := s.floorNow(r.Context(), f)
	if err == nil && n < floor {
		err = fmt.Errorf("page %d of feed %q: %w (the oldest is %d)", n, f.name, chain.ErrPruned, floor)
	}
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		s.source.crawl(f, n, floor)
	}
	return s.serve(w, r, &feedPage{server: s, feed: f, number: n, linked: true, floor: floor, base: s.base(r)}, nil)
}

// serveNewest serves page n, which was the newest a moment ago. A request that
// asks to wait does so before.
func (s *Server) serveNewest(w *responder, r *http.Request, f *servedFeed, newest *chain.Page, floor, n int64, entry bool) error {
	res := &feedPage{server: s, feed: f, number: n, seen: newest, floor: floor, base: s.base(r), entry: entry}
	rep := res.represent(newest)
	wait := preferredWait(r.Header.Values("Prefer"), s.config.MaxWait)
	coding, _ := acceptedCoding(r.Header.Values("Accept-Encoding"))
	if wait > 0 && len(r.Header["If-None-Match"]) > 0 && precondition(r, rep, rep.etag(coding)) == http.StatusNotModified {
		later, granted, err := s.hubs.wait(r.Context(), f, newest, wait)
		if err != nil {
			return err
		}
		if granted {
			w.waited = true
			w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", int(wait/time.Second)))
		}
		if f, err = s.feed(f.name); err != nil {
			return err
		}
		res.feed = f
		if entry {
			res.number = later.Number
		} else if later.Number > n {
			return s.serveLinked(w, r, f, n)
		}
		res.seen = later
		rep = res.represent(later)
	}
	return s.serve(w, r, res, rep)
}

// A feedPage is the resource of one page.
type feedPage struct {
	server *Server
	feed   *servedFeed
	number int64
	linked bool        // it has a next page, so it never changes
	seen   *chain.Page // not linked: a state that it was seen in by this request
	floor  int64
	base   string // begins all URLs
	entry  bool   // asked for as the entry point
}

// A pageKey names a page of a feed in the timeline that the feed is known in.
type pageKey struct {
	feed   *servedFeed
	number int64
}

// stat implements resource.
func (f *feedPage) stat(ctx context.Context) (*representation, error) {
	var p *chain.Page
	var err error
	if f.linked {
		p, err = f.server.source.stat(ctx, f.feed, f.number)
	} else {
		p, err = f.feed.reader.Stat(ctx, f.number)
	}
	if err != nil {
		return nil, err
	}
	return f.represent(p), nil
}

// open implements resource.
func (f *feedPage) open(ctx context.Context, offset, length int64) (*representation, io.ReadCloser, error) {
	if f.linked {
		p, body, err := f.server.source.open(ctx, f.feed, f.number, offset, length)
		if err != nil {
			return nil, nil, err
		}
		return f.represent(p), body, nil
	}
	if offset == 0 && length < 0 {
		b, err := f.server.source.openState(ctx, f.feed, f.seen)
		if err == nil {
			rep := f.represent(b.page)
			rep.digest = func(context.Context) ([]byte, error) { return b.digest, nil }
			return rep, f.server.source.reader(b, 0, -1), nil
		}
		if !errors.Is(err, errUnbuffered) {
			return nil, nil, err
		}
	}
	p, object, err := f.feed.reader.Open(ctx, f.number, offset, length)
	if err != nil {
		return nil, nil, err
	}
	if offset > 0 || length >= 0 {
		return f.represent(p), object.Body, nil
	}
	body, err := f.server.integrity.whole(ctx, object, p.SHA256)
	if err != nil {
		return nil, nil, err
	}
	return f.represent(p), body, nil
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
		hosted:      f.server.publicURL == "",
		stored:      p.Size,
		chain:       chainOf(p).Header(),
		digest:      func(ctx context.Context) ([]byte, error) { return f.feed.open.sum(ctx, p, f.server.integrity) },
	}
	if p.Closed {
		rep.digest = func(context.Context) ([]byte, error) { return decodeDigest(p.SHA256), nil }
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

// chainOf returns where a page is in the chain. A page that may grow has no digest
// of its own yet.
func chainOf(p *chain.Page) feed.Chain {
	c := feed.Chain{Prev: p.Prev}
	if p.Closed {
		c.Self = p.Digest()
	}
	return c
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
