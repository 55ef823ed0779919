package feedstore

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
)

// These constants limit how much is remembered.
const (
	maxFeeds = 1024 // of feeds known to exist
	maxPages = 4096 // metadata of pages that have a next page
)

// floorAge is how long a feed's floor is used before it is read again.
const floorAge = time.Second

// A Feed is what a [Reader] remembers of a feed. Since the Reader may replace it, callers get it from the
// Reader for each request.
type Feed struct {
	name   string
	r      *Reader
	reader *chain.Reader
	newest atomic.Int64               // the highest number that a newest page has had
	last   atomic.Pointer[chain.Page] // the newest page at the last poll
	size   atomic.Int64               // of the last page that was fetched, in bytes
	polls  polls
	known  known
	digest openDigest

	forgotten atomic.Bool

	mu        sync.Mutex
	floor     int64
	floorRead time.Time
}

// Feed returns the state of a feed. It does not access the store, so the feed need not exist. The error
// matches [layout.ErrName].
func (r *Reader) Feed(name string) (*Feed, error) {
	if err := layout.CheckName(name); err != nil {
		return nil, err
	}
	for {
		f, ok := r.feeds.Get(name)
		if !ok {
			f = &Feed{name: name, r: r, reader: chain.NewReader(r.store, name)}
			f.digest.reader, f.digest.free = f.reader, make(chan struct{}, 1)
			f = r.newFeeds.Add(name, f, 1)
		}
		if !f.Stale() {
			return f, nil
		}
		r.forget(f)
	}
}

// Name returns the name of the feed.
func (f *Feed) Name() string { return f.name }

// Linked reports whether page n is known to have a next page, and so never changes.
func (f *Feed) Linked(n int64) bool { return n < f.newest.Load() }

// SeenFloor returns the highest floor read so far, as [chain.Reader.SeenFloor] does.
func (f *Feed) SeenFloor() int64 { return f.reader.SeenFloor() }

// Identity returns the identity of the feed as last read with the floor, without accessing the
// store; see [chain.Reader.Identity].
func (f *Feed) Identity() feed.Identity { return f.reader.Identity() }

// Beyond returns the pages beyond the newest one that were found in the search for it, as
// [chain.Reader.Beyond] does.
func (f *Feed) Beyond() []*chain.Page { return f.reader.Beyond() }

// Stale reports whether f belongs to an earlier timeline, because the store has been restored to an older
// state, the name now belongs to another feed, or the feed began another epoch. A request that finds f stale
// starts again with the state that [Reader.Feed] returns.
func (f *Feed) Stale() bool { return f.reader.Timeline() > 0 }

// forget drops the state of a feed, and with it the feed's pages in memory, which belong to the state, not to
// the feed's name.
func (r *Reader) forget(f *Feed) {
	if f.forgotten.CompareAndSwap(false, true) {
		r.log.Warn("the feed's history has changed: dropped its pages in memory; purge the caches in front of this server",
			"feed", f.name, "cause", f.reader.Ended().String())
		r.subscribers.notice(f.name)
	}
	own := func(other *Feed) bool { return other == f }
	r.feeds.Remove(f.name, own)
	r.newFeeds.Remove(f.name, own)
}

// usualSize returns the expected size of a page that has not been fetched yet.
func (f *Feed) usualSize() int64 {
	if size := f.size.Load(); size > 0 {
		return size
	}
	return usualPage
}

// Newest returns the newest page as it was in the store at some time since the call began. Feeds without
// pages are remembered separately, so requests for feeds that do not exist do not evict others.
func (f *Feed) Newest(ctx context.Context) (*chain.Page, error) {
	p, err := f.polls.do(ctx, f.r.background, f.poll)
	if err != nil {
		return nil, err
	}
	if !f.Stale() {
		f.r.feeds.Add(f.name, f, 1)
	}
	f.r.heads.saw(p)
	f.r.trackers.saw(p)
	return p, nil
}

// poll reads the newest page from the store. While that page grows, this takes a single
// request: a page that was the newest is still the newest if it is open and has the same unique boundary.
func (f *Feed) poll(ctx context.Context) (*chain.Page, error) {
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

// saw records the newest page.
func (f *Feed) saw(p *chain.Page) {
	seen := lean(p)
	f.last.Store(seen)
	f.known.add(seen)
	f.reader.Remember(seen) // lets the reader notice if the store is restored to an older state
	for n := f.newest.Load(); p.Number > n && !f.newest.CompareAndSwap(n, p.Number); n = f.newest.Load() {
	}
}

// lean returns a copy of a page without the checkpoint.
func lean(p *chain.Page) *chain.Page {
	l := *p
	l.Checkpoint = nil
	return &l
}

// FreshFloor returns the number of the oldest page if it was read within the last second. Towards
// the end of that second it is read again in the background, so that a reader that requests page
// after page does not wait for it.
func (f *Feed) FreshFloor() (int64, bool) {
	f.mu.Lock()
	floor, age := f.floor, time.Since(f.floorRead)
	f.mu.Unlock()
	if floor == 0 || age >= floorAge {
		return floor, false
	}
	if age >= floorAge*3/4 {
		f.r.floors.start(f.name, f.readFloor)
	}
	return floor, true
}

// Floor returns the number of the oldest page. It may be up to a second old.
func (f *Feed) Floor(ctx context.Context) (int64, error) {
	if floor, fresh := f.FreshFloor(); fresh {
		return floor, nil
	}
	return f.r.floors.do(ctx, f.name, f.readFloor)
}

// readFloor reads the floor from the store.
func (f *Feed) readFloor(ctx context.Context) (int64, error) {
	asked := time.Now()
	floor, err := f.reader.Floor(ctx)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	rises := floor > max(f.floor, 1)
	f.floor, f.floorRead = max(f.floor, floor), asked
	floor = f.floor
	f.mu.Unlock()
	if rises && f.r.source.cache != nil {
		f.r.source.cache.DropBefore(f.name, floor)
	}
	return floor, nil
}

// Look returns the state of a feed, its newest page (see [Feed.Newest]), and its floor (see [Feed.Floor]). If
// the state turns out to be stale, Look starts again with a new one.
func (r *Reader) Look(ctx context.Context, name string) (f *Feed, newest *chain.Page, floor int64, err error) {
	for {
		if f, err = r.Feed(name); err != nil {
			return nil, nil, 0, err
		}
		newest, floor, err = f.pollWithFloor(ctx)
		if err != nil || !f.Stale() {
			return f, newest, floor, err
		}
	}
}

// pollWithFloor reads the newest page and the floor concurrently. If the page is below
// the floor, it polls again: a producer that was suspended for a long time may have created a page where one
// was pruned.
func (f *Feed) pollWithFloor(ctx context.Context) (newest *chain.Page, floor int64, err error) {
	floor, fresh := f.FreshFloor()
	var asking errgroup.Group
	if !fresh {
		asking.Go(func() (err error) {
			floor, err = f.Floor(ctx)
			return err
		})
	}
	newest, err = f.Newest(ctx)
	if floorErr := asking.Wait(); err == nil {
		err = floorErr
	}
	if err == nil && newest.Number < floor {
		newest, err = f.Newest(ctx)
	}
	return newest, floor, err
}

// Stat returns the metadata of a page that has a next page.
func (f *Feed) Stat(ctx context.Context, n int64) (*chain.Page, error) {
	return f.r.source.stat(ctx, f, n)
}

// StatNewest returns the current metadata of page n, which was the newest a moment ago.
func (f *Feed) StatNewest(ctx context.Context, n int64) (*chain.Page, error) {
	return f.reader.Stat(ctx, n)
}

// Pages yields the metadata of the pages from the floor to the newest page, both as returned by
// [Reader.Look]. It skips pages that are pruned meanwhile.
func (f *Feed) Pages(ctx context.Context, floor int64, newest *chain.Page) iter.Seq2[*chain.Page, error] {
	return func(yield func(*chain.Page, error) bool) {
		for p, err := range f.LinkedPages(ctx, floor, newest.Number-1) {
			if !yield(p, err) || err != nil {
				return
			}
		}
		yield(newest, nil)
	}
}

// LinkedPages yields the metadata of the pages from first to last, which must have a next page.
// It skips pages that are pruned meanwhile.
func (f *Feed) LinkedPages(ctx context.Context, first, last int64) iter.Seq2[*chain.Page, error] {
	return func(yield func(*chain.Page, error) bool) {
		for n := first; n <= last; n++ {
			f.r.source.statAhead(f, n+1, min(n+maxStatAhead, last))
			p, err := f.Stat(ctx, n)
			if errors.Is(err, chain.ErrPruned) {
				continue
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Crawl reads metadata ahead for a reader that goes back from page n, down to the floor.
func (f *Feed) Crawl(n, floor int64) { f.r.source.crawl(f, n, floor) }

// Open opens length bytes, beginning at offset, of the body of a page that has a next page; a negative length
// means to the end. A whole body ends with io.EOF only if it has the digest in the page's metadata. A part
// cannot be verified alone. Instead, the whole page is verified, unless that was done in the last 10 minutes
// ([pagecache.VerifyAge]), so damage to the store since then is not noticed. The error of a damaged page
// matches [chain.ErrCorrupt].
func (f *Feed) Open(ctx context.Context, n, offset, length int64) (*chain.Page, io.ReadCloser, error) {
	return f.r.source.open(ctx, f, n, offset, length)
}

// OpenNewest opens a page that was the newest when it was seen, in that state or a later one. Otherwise, it
// does the same as Open. digest is the SHA-256 of the page with its closing delimiter, or nil if it is not
// known.
func (f *Feed) OpenNewest(ctx context.Context, seen *chain.Page, offset, length int64) (p *chain.Page, body io.ReadCloser, digest []byte, err error) {
	whole := offset == 0 && length < 0
	if whole {
		b, err := f.r.source.openState(ctx, f, seen)
		if err == nil {
			return b.page, f.r.source.reader(b, 0, -1), b.digest, nil
		}
		if !errors.Is(err, errUnbuffered) {
			return nil, nil, nil, err
		}
	}
	if !whole && length < 0 {
		if g, err := f.digest.read(ctx, seen.Number, offset, f.r.integrity); err != nil {
			return nil, nil, nil, err
		} else if g != nil {
			return g.page, g.body, g.digest, nil
		}
	}
	p, object, err := f.reader.Open(ctx, seen.Number, offset, length)
	if err != nil {
		return nil, nil, nil, err
	}
	if whole {
		body, err = f.r.integrity.whole(object, p.SHA256)
		return p, body, nil, err
	}
	if !p.Closed { // this way, only bytes that were appended have to be read to verify the page
		if digest, err = f.Digest(ctx, p); err != nil {
			return nil, nil, nil, errors.Join(err, object.Body.Close())
		}
	}
	body, err = f.r.integrity.part(ctx, object, p.SHA256)
	return p, body, digest, err
}

// Headers yields the headers of the entities on page n, in order. If the caller goes from page to page, the
// next pages are read ahead.
func (f *Feed) Headers(ctx context.Context, n int64) iter.Seq2[page.Header, error] {
	return func(yield func(page.Header, error) bool) {
		p, body, err := f.openWhole(ctx, n)
		if err != nil {
			yield(page.Header{}, err)
			return
		}
		defer body.Close()
		p.Headers(body)(yield)
	}
}

// openWhole opens page n, which may be the newest.
func (f *Feed) openWhole(ctx context.Context, n int64) (*chain.Page, io.ReadCloser, error) {
	if f.Linked(n) {
		return f.Open(ctx, n, 0, -1)
	}
	seen, err := f.StatNewest(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	p, body, _, err := f.OpenNewest(ctx, seen, 0, -1)
	return p, body, err
}

// Digest returns the SHA-256 of the newest page with its closing delimiter, or nil if it
// is not known. An error means that the page is corrupt.
func (f *Feed) Digest(ctx context.Context, p *chain.Page) ([]byte, error) {
	return f.digest.sum(ctx, p, f.r.integrity)
}

// A pageKey identifies a page of a feed in one timeline.
type pageKey struct {
	feed   *Feed
	number int64
}
