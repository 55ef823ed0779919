package feedstore

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
)

// Limits of what is remembered.
const (
	maxFeeds = 1024 // feeds that are known to exist
	maxPages = 4096 // metadata of pages that have a next page
)

// floorAge is for how long a feed's floor is taken for granted.
const floorAge = time.Second

// A Feed is what a [Reader] knows of a feed. It is of use for a while: callers get it
// from the Reader each time they have something to do.
type Feed struct {
	name   string
	r      *Reader
	reader *chain.Reader
	newest atomic.Int64               // the highest number that a newest page has had
	last   atomic.Pointer[chain.Page] // the newest page when it was last looked at
	size   atomic.Int64               // of the page that was last fetched, in bytes
	polls  polls
	digest openDigest

	forgotten atomic.Bool

	mu        sync.Mutex
	floor     int64
	floorRead time.Time
}

// Feed returns what is known of a feed, or a new beginning of that. It does not look at
// the store. The error matches [layout.ErrName].
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
		if !f.stale() {
			return f, nil
		}
		r.forget(f)
	}
}

// Name returns the name of the feed.
func (f *Feed) Name() string { return f.name }

// Linked reports whether page n is known to have a next page: then it never changes.
func (f *Feed) Linked(n int64) bool { return n < f.newest.Load() }

// SeenFloor is that of [chain.Reader].
func (f *Feed) SeenFloor() int64 { return f.reader.SeenFloor() }

// stale reports whether what is known of the feed is of a timeline that is gone: the
// store went back to an older state.
func (f *Feed) stale() bool { return f.reader.Timeline() > 0 }

// forget forgets a feed, and with it the pages of it that are in memory: they are
// kept by it, not by its name.
func (r *Reader) forget(f *Feed) {
	if f.forgotten.CompareAndSwap(false, true) {
		r.log.Warn("store went back to an older state of the feed: what is in memory of it is dropped; purge the caches before this server", "feed", f.name)
	}
	own := func(other *Feed) bool { return other == f }
	r.feeds.Remove(f.name, own)
	r.newFeeds.Remove(f.name, own)
}

// usualSize returns what a page that is not known yet may be expected to have.
func (f *Feed) usualSize() int64 {
	if size := f.size.Load(); size > 0 {
		return size
	}
	return usualPage
}

// Newest returns the newest page as it is in the store now: as it was at some moment
// since the call. Feeds that have none are remembered apart, so that made-up names
// displace nothing else.
func (f *Feed) Newest(ctx context.Context) (*chain.Page, error) {
	p, err := f.polls.do(ctx, f.r.background, f.look)
	if err != nil {
		return nil, err
	}
	if !f.stale() {
		f.r.feeds.Add(f.name, f, 1)
	}
	f.r.heads.saw(p)
	return p, nil
}

// look asks the store for the newest page. As long as that grows this takes a
// single request: a page that was the newest and is still open, with the boundary
// that no other page has, is the newest.
func (f *Feed) look(ctx context.Context) (*chain.Page, error) {
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
func (f *Feed) saw(p *chain.Page) {
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
func (f *Feed) freshFloor() (int64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.floor, f.floor > 0 && time.Since(f.floorRead) < floorAge
}

// Floor returns the number of the oldest page, as it was a second ago or later.
func (f *Feed) Floor(ctx context.Context) (int64, error) {
	if floor, fresh := f.freshFloor(); fresh {
		return floor, nil
	}
	return f.r.floors.do(ctx, f.name, func(ctx context.Context) (int64, error) {
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

// Look returns what is known of a feed, its newest page, as [Feed.Newest] does, and the
// floor, as [Feed.Floor] does. If the store turns out to have gone back, the feed is looked
// at as if nothing was known of it.
func (r *Reader) Look(ctx context.Context, name string) (f *Feed, newest *chain.Page, floor int64, err error) {
	for {
		if f, err = r.Feed(name); err != nil {
			return nil, nil, 0, err
		}
		newest, floor, err = f.lookAt(ctx)
		if err != nil || !f.stale() {
			return f, newest, floor, err
		}
	}
}

// lookAt asks for the newest page and the floor at the same time. The newest page that
// is found without looking at the floor is looked for again if it is below that: a
// writer that slept for very long may have put a page where one was pruned.
func (f *Feed) lookAt(ctx context.Context) (newest *chain.Page, floor int64, err error) {
	floor, fresh := f.freshFloor()
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

// StatNewest returns the metadata of page n, which was the newest a moment ago, as it is now.
func (f *Feed) StatNewest(ctx context.Context, n int64) (*chain.Page, error) {
	return f.reader.Stat(ctx, n)
}

// Crawl reads metadata ahead for a reader that goes back from page n, down to the floor.
func (f *Feed) Crawl(n, floor int64) { f.r.source.crawl(f, n, floor) }

// Open opens length bytes, from offset on, of the body of a page that has a next page; a
// negative length means to the end. The end of a whole body comes only if it has the digest in
// the page's metadata. A part has no digest: its page was verified as a whole, now or in the
// last 10 minutes ([pagecache.VerifyAge]), and what has changed in the store since then is not
// noticed. An error that matches [chain.ErrCorrupt] says that the page is not what was written.
func (f *Feed) Open(ctx context.Context, n, offset, length int64) (*chain.Page, io.ReadCloser, error) {
	return f.r.source.open(ctx, f, n, offset, length)
}

// OpenNewest is Open of a page that was the newest when it was seen, in that state or a
// later one. The digest is the SHA-256 of the page with its closing delimiter, if it is at
// hand.
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
	p, object, err := f.reader.Open(ctx, seen.Number, offset, length)
	if err != nil {
		return nil, nil, nil, err
	}
	if whole {
		body, err = f.r.integrity.whole(object, p.SHA256)
		return p, body, nil, err
	}
	if !p.Closed { // then no more has to be read to verify it than was appended
		if digest, err = f.Digest(ctx, p); err != nil {
			return nil, nil, nil, errors.Join(err, object.Body.Close())
		}
	}
	body, err = f.r.integrity.part(ctx, object, p.SHA256)
	return p, body, digest, err
}

// Digest returns the SHA-256 of a page that has no next page, with its closing delimiter;
// nil if that cannot be told. An error says that the page is not what was written.
func (f *Feed) Digest(ctx context.Context, p *chain.Page) ([]byte, error) {
	return f.digest.sum(ctx, p, f.r.integrity)
}

// A pageKey names a page of a feed in the timeline that the feed is known in.
type pageKey struct {
	feed   *Feed
	number int64
}
