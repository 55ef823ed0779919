package chain

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/feedctl/feedctl/storage"
)

// A Reader finds the pages of one feed. It remembers the newest page it has
// seen, so that finding the newest again costs a look or two at the store. Its
// methods may be called concurrently.
type Reader struct {
	store storage.Store
	feed  string

	mu     sync.Mutex
	newest *Page // a page that was once the newest; nil before the first look
	floor  int64 // the highest floor seen
}

// NewReader returns a Reader of a feed. It does not look at the store.
func NewReader(store storage.Store, feed string) *Reader {
	return &Reader{store: store, feed: feed, floor: 1}
}

// Feed returns the name of the feed.
func (r *Reader) Feed() string { return r.feed }

// Floor returns the number of the oldest page that exists if the feed has any.
func (r *Reader) Floor(ctx context.Context) (int64, error) {
	floor, _, err := readFloor(ctx, r.store, r.feed)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.floor = max(r.floor, floor)
	return r.floor, nil
}

// Newest returns the newest page as it is in the store now, or [ErrNoFeed].
func (r *Reader) Newest(ctx context.Context) (*Page, error) {
	r.mu.Lock()
	known := r.newest
	r.mu.Unlock()
	p, err := r.advance(ctx, known)
	if err != nil {
		return nil, err
	}
	r.remember(p)
	return p, nil
}

// remember keeps p as the newest page, unless a later state of the feed is known.
func (r *Reader) remember(p *Page) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newest == nil || p.Number > r.newest.Number || p.Number == r.newest.Number && p.Entities >= r.newest.Entities {
		r.newest = p
	}
}

// advance returns the newest page, starting from one that once was (or nil).
func (r *Reader) advance(ctx context.Context, known *Page) (*Page, error) {
	if known == nil {
		return r.cold(ctx)
	}
	p := known
	if !p.Closed {
		var err error
		if p, err = r.load(ctx, known.Number); errors.Is(err, storage.ErrNotFound) {
			return r.cold(ctx)
		} else if err != nil {
			return nil, err
		}
	}
	end, err := r.walk(ctx, p)
	if err != nil {
		return nil, err
	}
	// The walk ends early where pages were pruned while nobody looked.
	if floor, err := r.Floor(ctx); err != nil {
		return nil, err
	} else if end.Number < floor {
		return r.cold(ctx)
	}
	return end, nil
}

// walk follows the chain from a page of the feed to its end.
func (r *Reader) walk(ctx context.Context, p *Page) (*Page, error) {
	for p.Closed {
		next, err := r.load(ctx, p.Number+1)
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

// cold finds the newest page without knowing any: it gallops to a page that
// has none after it, which is at most Ahead pages beyond the newest, goes back
// that far to a page that is certainly of the feed, and walks forward from there.
func (r *Reader) cold(ctx context.Context) (*Page, error) {
	for {
		floor, err := r.Floor(ctx)
		if err != nil {
			return nil, err
		}
		top, err := r.gallop(ctx, floor)
		if err != nil {
			return nil, err
		}
		start := floor
		if top > 0 {
			start = max(floor, top-Ahead)
		}
		p, err := r.load(ctx, start)
		if err == nil {
			if p, err = r.walk(ctx, p); err != nil {
				return nil, err
			}
			if again, err := r.Floor(ctx); err != nil {
				return nil, err
			} else if p.Number >= again {
				return p, nil
			}
			continue // the feed was pruned meanwhile
		}
		if !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
		again, err := r.Floor(ctx)
		switch {
		case err != nil:
			return nil, err
		case again != floor:
			continue
		case floor == 1 && top == 0:
			return nil, fmt.Errorf("feed %q: %w", r.feed, ErrNoFeed)
		default:
			return nil, fmt.Errorf("%w: %s is missing", ErrCorrupt, key(r.feed, start))
		}
	}
}

// gallop returns the number of a page that exists and is not followed by
// another, or 0. It asks about a number of pages that is logarithmic in theirs.
func (r *Reader) gallop(ctx context.Context, floor int64) (int64, error) {
	exists := func(n int64) (bool, error) {
		_, err := r.store.Stat(ctx, key(r.feed, n))
		if errors.Is(err, storage.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for page %d of feed %q: %w", n, r.feed, err)
		}
		return true, nil
	}
	low, step := floor-1, int64(1) // low exists, or is before the first
	for {
		found, err := exists(low + step)
		if err != nil {
			return 0, err
		}
		if !found {
			break
		}
		low, step = low+step, step*2
	}
	for high := low + step; high-low > 1; {
		middle := low + (high-low)/2
		found, err := exists(middle)
		if err != nil {
			return 0, err
		}
		if found {
			low = middle
		} else {
			high = middle
		}
	}
	if low < floor {
		return 0, nil
	}
	return low, nil
}

// load reads the metadata of a page, whether or not it is in the chain. Its
// error matches storage.ErrNotFound if there is no such object.
func (r *Reader) load(ctx context.Context, n int64) (*Page, error) {
	info, err := r.store.Stat(ctx, key(r.feed, n))
	if err != nil {
		return nil, fmt.Errorf("read page %d of feed %q: %w", n, r.feed, err)
	}
	return Decode(r.feed, n, info)
}

// Orphan returns the object at the number after the newest page, which the
// chain does not reach, or nil if there is none. It is for the producer that
// wants to put a page in its place, on condition that it is still at Version.
func (r *Reader) Orphan(ctx context.Context, newest *Page) (*Page, error) {
	p, err := r.load(ctx, newest.Number+1)
	if errors.Is(err, storage.ErrNotFound) || err == nil && newest.leadsTo(p) {
		return nil, nil
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
		if err != nil {
			return err
		}
		if n > p.Number {
			return fmt.Errorf("page %d of feed %q: %w (the newest is %d)", n, r.feed, ErrNoPage, p.Number)
		}
	}
	r.mu.Lock()
	floor := r.floor
	r.mu.Unlock()
	if n < floor {
		return r.pruned(n, floor)
	}
	return nil
}

func (r *Reader) pruned(n, floor int64) error {
	return fmt.Errorf("page %d of feed %q: %w (the oldest is %d)", n, r.feed, ErrPruned, floor)
}

// missing says why a page that should exist does not.
func (r *Reader) missing(ctx context.Context, n int64) error {
	floor, err := r.Floor(ctx)
	switch {
	case err != nil:
		return err
	case n < floor:
		return r.pruned(n, floor)
	}
	return fmt.Errorf("%w: %s is missing", ErrCorrupt, key(r.feed, n))
}

// Stat returns the metadata of page n as it is now: [ErrPruned] below the highest
// floor seen, [ErrNoPage] beyond the newest page, [ErrNoFeed] if there is none.
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

// Open returns the metadata of page n and opens length bytes of its body from
// offset on, both of the same version; a negative length means to the end. The
// errors are those of Stat.
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

// Linked reports whether page n has a next page. Such a page never changes.
func (r *Reader) Linked(ctx context.Context, n int64) (bool, error) {
	r.mu.Lock()
	newest := r.newest
	r.mu.Unlock()
	if newest != nil && n < newest.Number {
		return true, nil
	}
	p, err := r.Newest(ctx)
	return err == nil && n < p.Number, err
}
