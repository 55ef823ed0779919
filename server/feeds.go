package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/represent"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/pageindex"
)

// errDeletedPage reports that a page belonged to a feed that has been deleted.
var errDeletedPage = errors.New("page was deleted with its feed")

// feed returns the reader's state of a feed.
func (s *Server) feed(name string) (*feedstore.Feed, error) {
	f, err := s.reader.Feed(name)
	if err != nil {
		return nil, problem.New(http.StatusNotFound, "no-feed", "%v", err)
	}
	return f, nil
}

// poll returns the newest page and the floor of a feed, read from the store.
func (s *Server) poll(ctx context.Context, name string) (*feedstore.Feed, *chain.Page, int64, error) {
	if _, err := s.feed(name); err != nil {
		return nil, nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.reader.Look(ctx, name)
}

// getNewest answers /feeds/{feed}.
func (s *Server) getNewest(w *responder, r *http.Request) error {
	name := r.PathValue("feed")
	if answered, err := s.serveKnown(w, r, name); answered {
		return err
	}
	f, newest, floor, err := s.poll(r.Context(), name)
	if err != nil {
		return err
	}
	return s.serveNewest(w, r, f, newest, floor, newest.Number, true)
}

// getPage answers /feeds/{feed}/pages/{n}.
func (s *Server) getPage(w *responder, r *http.Request) error {
	f, err := s.feed(r.PathValue("feed"))
	if err != nil {
		return err
	}
	n, ok := pageNumber(r.PathValue("n"))
	if !ok || n < 1 {
		return problem.New(http.StatusNotFound, "no-page", "page numbers are positive decimal integers")
	}
	if f.Linked(n) {
		return s.serveLinked(w, r, f, n)
	}
	f, newest, floor, err := s.poll(r.Context(), f.Name())
	switch {
	case errors.Is(err, chain.ErrDeleted) && n < f.SeenFloor():
		return fmt.Errorf("page %d: %w: %w", n, errDeletedPage, err)
	case err != nil:
		return err
	case n > newest.Number:
		return problem.New(http.StatusNotFound, "no-page", "the newest page is %d", newest.Number)
	case n < newest.Number:
		return s.serveLinked(w, r, f, n)
	}
	return s.serveNewest(w, r, f, newest, floor, n, false)
}

// serveLinked serves a page that has a next page. A request for the body takes at
// most one request to the store.
func (s *Server) serveLinked(w *responder, r *http.Request, f *feedstore.Feed, n int64) error {
	floor, err := floorOf(r.Context(), f)
	if err == nil && f.Stale() {
		return s.getPage(w, r)
	}
	if err == nil && n < floor {
		err = fmt.Errorf("page %d of feed %q: %w (the oldest is %d)", n, f.Name(), chain.ErrPruned, floor)
	}
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		f.Crawl(n, floor)
	}
	return s.sender.Send(w, r, &feedPage{server: s, feed: f, number: n, linked: true, floor: floor, base: s.base(r)}, nil)
}

// floorOf returns the number of the oldest page of a feed.
func floorOf(ctx context.Context, f *feedstore.Feed) (int64, error) {
	if floor, fresh := f.FreshFloor(); fresh {
		return floor, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return f.Floor(ctx)
}

// serveNewest serves page n, which was the newest a moment ago, after waiting for a
// change if the request prefers to wait.
func (s *Server) serveNewest(w *responder, r *http.Request, f *feedstore.Feed, newest *chain.Page, floor, n int64, entry bool) error {
	res := &feedPage{server: s, feed: f, number: n, seen: newest, floor: floor, base: s.base(r), entry: entry}
	rep := res.represent(newest)
	wait := preferredWait(r.Header.Values("Prefer"), s.config.MaxWait)
	coding, _ := represent.Coding(r)
	if wait > 0 && len(r.Header["If-None-Match"]) > 0 && represent.Precondition(r, rep, rep.ETag(coding)) == http.StatusNotModified {
		later, granted, err := f.Wait(r.Context(), newest, wait)
		if err != nil {
			return err
		}
		if granted {
			w.waited = true
			w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", int(wait/time.Second)))
		}
		if f, err = s.feed(f.Name()); err != nil {
			return err
		}
		if f != res.feed {
			if res.floor, err = floorOf(r.Context(), f); err != nil {
				return err
			}
		}
		res.feed = f
		switch {
		case entry:
			res.number = later.Number
		case later.Number > n:
			return s.serveLinked(w, r, f, n)
		case later.Number < n: // the store was restored to an older state
			return problem.New(http.StatusNotFound, "no-page", "the newest page is %d", later.Number)
		}
		res.seen = later
		rep = res.represent(later)
	}
	return s.sender.Send(w, r, res, rep)
}

// A feedPage is the resource of one page.
type feedPage struct {
	server *Server
	feed   *feedstore.Feed
	number int64
	linked bool        // it has a next page, so it never changes
	seen   *chain.Page // if not linked, the state that this request has read
	floor  int64
	base   string // prefix of all URLs
	entry  bool   // requested as the entry point
	known  bool   // seen is a state known to this process, not read for this request
}

// Stat implements [represent.Resource].
func (f *feedPage) Stat(ctx context.Context) (*represent.Representation, error) {
	var p *chain.Page
	var err error
	if f.linked {
		p, err = f.feed.Stat(ctx, f.number)
	} else {
		p, err = f.feed.StatNewest(ctx, f.number)
	}
	if err != nil {
		return nil, err
	}
	return f.represent(p), nil
}

// Open implements [represent.Resource].
func (f *feedPage) Open(ctx context.Context, offset, length int64) (*represent.Representation, io.ReadCloser, error) {
	if f.linked {
		p, body, err := f.feed.Open(ctx, f.number, offset, length)
		if err != nil {
			return nil, nil, err
		}
		return f.represent(p), body, nil
	}
	p, body, digest, err := f.feed.OpenNewest(ctx, f.seen, offset, length)
	if f.known {
		if outdated := f.checkKnown(p, err); outdated != nil {
			if err == nil {
				_ = body.Close() // not read
			}
			return nil, nil, outdated
		}
	}
	if err != nil {
		return nil, nil, err
	}
	rep := f.represent(p)
	if digest != nil {
		rep.Digest = func(context.Context) ([]byte, error) { return digest, nil }
	}
	return rep, body, nil
}

// A linkedKey identifies a representation of a page that has a next page.
type linkedKey struct {
	page  *chain.Page // as remembered for all requests
	base  string
	id    string // of the feed
	first bool   // there is no page before it
}

// weight returns the memory, in bytes, for a representation that requests share.
func (k linkedKey) weight() int { return 3<<10 + 4*len(k.base) }

// maxLinked limits the memory for representations that are shared by requests, in bytes.
const maxLinked = 1 << 20

// represent returns the representation of a state of the page. The result must not be changed, since requests
// share that of a linked page.
func (f *feedPage) represent(p *chain.Page) *represent.Representation {
	if !f.linked {
		return f.describe(p)
	}
	key := linkedKey{p, f.base, f.feed.Identity().ID, p.Number <= f.floor}
	rep, ok := f.server.linked.Get(key)
	if !ok {
		rep = f.describe(p)
		rep.Fields = f.server.sender.Fields(rep)
		rep = f.server.linked.Add(key, rep, key.weight())
	}
	return rep
}

// describe makes the representation of a state of the page. An open page ends with a closing delimiter that
// is not stored.
func (f *feedPage) describe(p *chain.Page) *represent.Representation {
	url := func(n int64) string { return f.base + layout.FeedPagePath(f.feed.Name(), n) }
	links := feed.Links{Self: url(p.Number), Last: f.base + layout.FeedPath(f.feed.Name())}
	if p.Number > f.floor {
		links.Prev = url(p.Number - 1)
	}
	links.Timemap = f.base + layout.FeedIndexPath(f.feed.Name(), pageindex.TileOf(p.Number))
	rep := &represent.Representation{
		ContentType: page.ContentType(p.Boundary),
		Tag:         shortDigest(p.SHA256),
		Modified:    feed.Truncate(p.Last),
		Changing:    true,
		Hosted:      f.server.publicURL == "",
		Stored:      p.Size,
		Chain:       f.chainOf(p).Header(),
		Digest:      func(ctx context.Context) ([]byte, error) { return f.feed.Digest(ctx, p) },
	}
	if p.Closed {
		rep.Sum = p.SHA256
		rep.Digest = func(context.Context) ([]byte, error) { return decodeDigest(p.SHA256), nil }
	} else {
		rep.Tail = string(page.AppendClose(nil, p.Boundary))
	}
	if f.linked {
		links.Next = url(p.Number + 1)
		rep.Tag += "-l"
		rep.Immutable = true
	} else { // an immutable page would keep these links as they once were
		links.First = url(min(f.floor, p.Number))
		links.Timegate = f.base + layout.FeedTimegatePath(f.feed.Name())
		links.DescribedBy = f.base + layout.DigestPath(f.feed.Name())
	}
	if f.entry {
		rep.Location = links.Self
	}
	rep.Links = links.Header()
	return rep
}

// chainOf returns the digests that place a page in the chain, and the feed's identity. An open page has no
// digest yet. A page that never changes does not say which epoch the feed is in.
func (f *feedPage) chainOf(p *chain.Page) feed.Chain {
	c := feed.Chain{Prev: p.Prev, First: p.Number > 1 && p.IsFirst(), Identity: f.feed.Identity()}
	if p.Closed {
		c.Self = p.Digest()
	}
	if f.linked {
		c.Identity.Epoch = feed.Epoch{}
	}
	return c
}

// shortDigest shortens a SHA-256 in hex for an ETag.
func shortDigest(sum string) string { return sum[:min(len(sum), 32)] }

// decodeDigest decodes a SHA-256 in hex. It returns nil for any other string.
func decodeDigest(sum string) []byte {
	digest, err := hex.DecodeString(sum)
	if err != nil || len(digest) != 32 {
		return nil
	}
	return digest
}
