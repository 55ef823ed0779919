package chain

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/together"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
)

// A Reader finds the pages of one feed. It remembers the newest page it has
// seen, so that finding the newest again costs one or two requests to the store. Its
// methods may be called concurrently.
//
// A Reader is for code that writes to the feed, or needs its state as it is now: producers,
// bridges, the outbox, copies and repairs. To read pages for others, use package feedstore, which
// shares requests, reads ahead and verifies bodies.
type Reader struct {
	store storage.Store
	feed  string

	mu       sync.Mutex
	newest   *Page       // a page that was once the newest; nil if none is known
	floor    int64       // the highest floor seen
	seen     *floorState // the last floor record that differed from the one before; nil if none was read
	beyond   []*Page
	timeline int // how many times another history of the feed was found
	ended    Ending

	fence     erasing // that was read last
	fenceSeen time.Time
}

// NewReader returns a Reader of a feed. It does not access the store.
func NewReader(store storage.Store, feed string) *Reader {
	return &Reader{store: store, feed: feed, floor: 1}
}

// Floor returns the number of the oldest page that exists, if the feed has pages.
func (r *Reader) Floor(ctx context.Context) (int64, error) {
	floor, _, err := r.readFloor(ctx)
	return floor, err
}

// WritableFloor returns the floor for a producer that has read or created a page. The error
// matches [ErrDeleting] or [ErrErasing] if the producer must not write to the page, or confirm it.
func (r *Reader) WritableFloor(ctx context.Context) (int64, error) {
	floor, record, err := r.readFloor(ctx)
	if err == nil && record.Deleting {
		err = fmt.Errorf("feed %q: %w", r.feed, ErrDeleting)
	}
	if err == nil && record.fenced() {
		err = r.passFence(ctx, *record.Erasing)
	}
	return floor, err
}

// Deleted reports whether the feed was deleted and not pruned since. If so, the floor is the number
// of the first page published since, if there is one.
func (r *Reader) Deleted(ctx context.Context) (bool, error) {
	_, record, err := r.readFloor(ctx)
	return record.Deleted, err
}

// Pruned reports whether pages were pruned from the beginning of the feed. A feed that was
// deleted begins at the floor.
func (r *Reader) Pruned(ctx context.Context) (bool, error) {
	_, record, err := r.readFloor(ctx)
	return record.Floor > 1 && !record.Deleted, err
}

// SeenFloor returns the highest floor read so far, without accessing the store. It is 1 if
// none was read.
func (r *Reader) SeenFloor() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.floor
}

// errRestored means that the newest page known is no longer in the store.
var errRestored = errors.New("store was restored to an older state")

// Newest returns the newest page as it is in the store now, or [ErrNoFeed]. If the
// search begins without knowing any page, the error is a [LostError] if the store has
// pages beyond the newest one that a producer cannot have left there.
func (r *Reader) Newest(ctx context.Context) (*Page, error) {
	r.mu.Lock()
	known, timeline := r.newest, r.timeline
	r.mu.Unlock()
	p, err := r.advance(ctx, known)
	if errors.Is(err, errRestored) {
		timeline = r.beginTimeline(timeline)
		p, err = r.findNewest(ctx)
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if timeline == r.timeline {
		r.remember(p)
	}
	return p, nil
}

// Remember records a page that was the newest one, for example one that a producer
// wrote, to save a search for it. It has no effect if a later state is known.
func (r *Reader) Remember(p *Page) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remember(p)
}

// remember implements Remember. The caller must hold mu.
func (r *Reader) remember(p *Page) {
	if r.newest == nil || p.Number > r.newest.Number || p.Number == r.newest.Number && p.Entities >= r.newest.Entities {
		r.newest = p
	}
}

// Skip makes the next search for the newest page begin at page n, which another process found, if the
// page has this digest. Otherwise it has no effect.
func (r *Reader) Skip(ctx context.Context, n int64, digest string) {
	if p, err := r.load(ctx, n); err == nil && p.Closed && p.Digest() == digest {
		r.Remember(p)
	}
}

// advance returns the newest page. It starts from known, which once was the newest page, or is nil.
func (r *Reader) advance(ctx context.Context, known *Page) (*Page, error) {
	if known == nil {
		return r.findNewest(ctx)
	}
	p, next, err := r.reload(ctx, known)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !known.becomes(p) {
		return r.replaced(ctx, known)
	}
	switch {
	case err != nil:
		return nil, err
	case !p.Closed && p.Number < r.SeenFloor():
		return r.findNewest(ctx) // the feed was deleted
	case !p.Closed:
		return p, nil
	case next != nil && p.leadsTo(next):
		p, err = r.walk(ctx, next, nil)
	case !known.Closed:
		p, err = r.walk(ctx, p, nil)
	}
	if err != nil {
		return nil, err
	}
	// The walk ends early where pages have been pruned since the last read.
	if floor, err := r.Floor(ctx); err != nil {
		return nil, err
	} else if p.Number < floor {
		return r.findNewest(ctx)
	}
	return p, nil
}

// reload loads a known page and, concurrently, the floor if the page was open, or else
// the page after it, which is nil if there is none.
func (r *Reader) reload(ctx context.Context, known *Page) (p, next *Page, err error) {
	err = together.Do(2, func(i int) (err error) {
		switch {
		case i == 0:
			p, err = r.load(ctx, known.Number)
		case !known.Closed:
			_, err = r.Floor(ctx)
		default:
			next, err = r.load(ctx, known.Number+1)
			if errors.Is(err, storage.ErrNotFound) {
				err = nil
			}
		}
		return err
	})
	return p, next, err
}

// becomes reports whether later can be a later state of p. A page keeps its boundary, which
// is unique.
func (p *Page) becomes(later *Page) bool {
	switch {
	case p.Closed:
		return later.Closed && later.Digest() == p.Digest()
	case later.Closed != p.Closed || later.Entities != p.Entities:
		return later.Boundary == p.Boundary && later.Entities >= p.Entities
	}
	return later.Boundary == p.Boundary && later.SHA256 == p.SHA256
}

// replaced returns the newest page after a known page was found missing, or replaced by
// another: it was pruned, or the store was restored to an older state.
func (r *Reader) replaced(ctx context.Context, known *Page) (*Page, error) {
	if floor, err := r.Floor(ctx); err != nil {
		return nil, err
	} else if known.Number < floor {
		return r.findNewest(ctx)
	}
	return nil, errRestored
}

// walk follows the chain from a page of the feed to its end. loaded has pages, by
// number, that need not be loaded again. If loaded is nil and the end is far, walk searches for the
// end as if no page were known.
func (r *Reader) walk(ctx context.Context, p *Page, loaded map[int64]*Page) (*Page, error) {
	for steps := 0; p.Closed; steps++ {
		if loaded == nil && steps == Ahead {
			return r.findNewest(ctx)
		}
		next, err := loaded[p.Number+1], error(nil)
		if next == nil {
			next, err = r.load(ctx, p.Number+1)
		}
		if errors.Is(err, storage.ErrNotFound) {
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		if !p.leadsTo(next) {
			return p, nil
		}
		p = next
	}
	return p, nil
}

// load reads the metadata of a page, whether or not it is in the chain. The error
// matches storage.ErrNotFound if there is no such page.
func (r *Reader) load(ctx context.Context, n int64) (*Page, error) {
	p, err := r.read(ctx, n)
	if err != nil || p.Floor <= r.SeenFloor() {
		return p, err
	}
	if floor, err := r.Floor(ctx); err != nil {
		return nil, err
	} else if floor < p.Floor {
		return nil, fmt.Errorf("read page %d of feed %q: %w: it is a copy made by an erasure that was not completed", n, r.feed, storage.ErrNotFound)
	}
	return p, nil
}

// read reads the metadata of the object of a page, which may be a copy that does not exist yet.
func (r *Reader) read(ctx context.Context, n int64) (*Page, error) {
	info, err := r.store.Stat(ctx, key(r.feed, n))
	if err != nil {
		return nil, fmt.Errorf("read page %d of feed %q: %w", n, r.feed, err)
	}
	return Decode(r.feed, n, info)
}

// Orphan returns the page that follows the newest one in the store but not in the chain, or
// nil if there is none. A producer can replace it on condition that it is still at Version. The error
// is a [LostError] if that page is not an orphan.
func (r *Reader) Orphan(ctx context.Context, newest *Page) (*Page, error) {
	p, err := r.read(ctx, newest.Number+1)
	if errors.Is(err, storage.ErrNotFound) || err == nil && newest.leadsTo(p) {
		return nil, nil
	}
	if err == nil && p.Floor > r.SeenFloor() {
		floor, err := r.WritableFloor(ctx) // now that p was read: an erasure may have put it there
		if err != nil {
			return nil, err
		}
		p.unborn = p.Floor > floor
	}
	if err == nil && p.ProvesLoss(newest) {
		return nil, NewLostError(r.feed, newest, []*Page{p}, "")
	}
	return p, err
}

// within checks that page n is neither pruned nor beyond the newest page.
func (r *Reader) within(ctx context.Context, n int64) error {
	r.mu.Lock()
	newest := r.newest
	r.mu.Unlock()
	if newest == nil || n > newest.Number {
		p, err := r.Newest(ctx)
		if errors.Is(err, ErrDeleted) && n < r.SeenFloor() {
			return r.pruned(n, r.SeenFloor())
		}
		if err != nil {
			return err
		}
		if n > p.Number {
			return r.notYet(n, p)
		}
	}
	if floor := r.SeenFloor(); n < floor {
		return r.pruned(n, floor)
	}
	return nil
}

func (r *Reader) notYet(n int64, newest *Page) error {
	return fmt.Errorf("page %d of feed %q: %w (the newest is %d)", n, r.feed, ErrNoPage, newest.Number)
}

func (r *Reader) pruned(n, floor int64) error {
	return fmt.Errorf("page %d of feed %q: %w (the oldest is %d)", n, r.feed, ErrPruned, floor)
}

// missing returns the error for a page that should exist but does not.
func (r *Reader) missing(ctx context.Context, n int64) error {
	floor, err := r.Floor(ctx)
	switch {
	case err != nil:
		return err
	case n < floor:
		return r.pruned(n, floor)
	}
	if newest, err := r.Newest(ctx); err != nil {
		return err
	} else if n > newest.Number { // the store was restored to an older state
		return r.notYet(n, newest)
	}
	return fmt.Errorf("%w: %s is missing", ErrCorrupt, key(r.feed, n))
}

// Stat returns the current metadata of page n. The error matches [ErrPruned] below the
// highest floor seen, [ErrNoPage] beyond the newest page, and [ErrNoFeed] if the feed has
// no page.
func (r *Reader) Stat(ctx context.Context, n int64) (*Page, error) {
	if err := r.within(ctx, n); err != nil {
		return nil, err
	}
	p, err := r.load(ctx, n)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, r.missing(ctx, n)
	}
	return p, err
}

// Open returns the metadata of page n and opens length bytes of its body from offset, both
// of the same version; a negative length means to the end. The errors are those of
// [Reader.Stat].
func (r *Reader) Open(ctx context.Context, n, offset, length int64) (*Page, *storage.Object, error) {
	if err := r.within(ctx, n); err != nil {
		return nil, nil, err
	}
	object, err := r.store.Get(ctx, key(r.feed, n), offset, length)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil, r.missing(ctx, n)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open page %d of feed %q: %w", n, r.feed, err)
	}
	p, err := Decode(r.feed, n, object.Info)
	if err != nil {
		return nil, nil, errors.Join(err, object.Body.Close())
	}
	return p, object, nil
}

// Headers yields the headers of the entities on page n, in order. The errors are those of
// [Reader.Stat], and those of reading.
func (r *Reader) Headers(ctx context.Context, n int64) iter.Seq2[page.Header, error] {
	return func(yield func(page.Header, error) bool) {
		p, object, err := r.Open(ctx, n, 0, -1)
		if err != nil {
			yield(page.Header{}, err)
			return
		}
		defer object.Body.Close()
		p.Headers(object.Body)(yield)
	}
}
