package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/feedctl/feedctl/internal/together"
	"github.com/feedctl/feedctl/storage"
)

// findNewest finds the newest page without knowing any. An exponential search finds a page n that is not
// followed by another; it is at most Ahead pages beyond the newest. Page n-Ahead certainly belongs to
// the feed, so findNewest walks forward from there. Requests are concurrent where possible, since a
// store may be remote.
//
// Pages beyond the newest that are not orphans are an error if a second search has the
// same result; otherwise the feed has grown between the reads of its pages.
func (r *Reader) findNewest(ctx context.Context) (*Page, error) {
	var suspect *storage.Version // version of the newest page in the last search, if pages seemed lost
	for {
		floor, record, exists, closed, err := r.readStart(ctx)
		if err != nil {
			return nil, err
		}
		var (
			top, seen int64
			p         *Page
			loaded    map[int64]*Page
		)
		if exists {
			if top, seen, err = r.exponentialSearch(ctx, floor, closed); err != nil {
				return nil, err
			}
			if p, loaded, err = r.lastOfChain(ctx, floor, top, closed); err != nil {
				return nil, err
			}
		}
		var (
			again  int64
			beyond []*Page
			lost   *LostError
		)
		err = together.Do(2, func(i int) (err error) {
			if i == 0 {
				again, err = r.Floor(ctx)
			} else {
				beyond, lost, err = r.findBeyond(ctx, p, floor, loaded, seen)
			}
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case p != nil && p.Number < again, p == nil && again != floor:
			continue // the feed was pruned concurrently
		case p == nil && (floor > 1 && !record.Deleted || top > 0):
			return nil, fmt.Errorf("%w: %s is missing", ErrCorrupt, key(r.feed, max(floor, top-Ahead)))
		}
		if lost != nil {
			var version storage.Version
			if p != nil {
				version = p.Version
			}
			if suspect != nil && *suspect == version {
				return nil, lost
			}
			suspect = &version
			continue
		}
		r.mu.Lock()
		r.beyond = beyond
		r.mu.Unlock()
		switch {
		case p == nil && record.Deleted:
			return nil, fmt.Errorf("feed %q: %w", r.feed, ErrDeleted)
		case p == nil:
			return nil, fmt.Errorf("feed %q: %w", r.feed, ErrNoFeed)
		}
		return p, nil
	}
}

// readStart returns the floor and its record, and whether there is a page at the floor; if that page is
// closed, it is in the map closed. If the floor has not risen since it was last seen, this takes one
// round trip.
func (r *Reader) readStart(ctx context.Context) (floor int64, record floorRecord, exists bool, closed map[int64]*Page, err error) {
	expected := r.SeenFloor()
	var there int
	closed = map[int64]*Page{}
	err = together.Do(2, func(i int) (err error) {
		if i == 0 {
			floor, record, err = r.readFloor(ctx)
		} else {
			there, _, err = r.leading(ctx, []int64{expected}, closed)
		}
		return err
	})
	if err == nil && floor != expected {
		there, _, err = r.leading(ctx, []int64{floor}, closed)
	}
	return floor, record, there > 0, closed, err
}

// lastOfChain returns the last page of the chain, or nil if there is no first page, and the
// pages from which it was found, by number. The last page is at most Ahead pages before top. Pages in
// closed need not be loaded again.
func (r *Reader) lastOfChain(ctx context.Context, floor, top int64, closed map[int64]*Page) (*Page, map[int64]*Page, error) {
	start := max(floor, top-Ahead)
	loaded := r.loadAll(ctx, start, top, closed)
	p, err := loaded[start], error(nil)
	if p == nil {
		p, err = r.load(ctx, start)
	}
	if errors.Is(err, storage.ErrNotFound) {
		return nil, loaded, nil
	}
	if err == nil {
		p, err = r.walk(ctx, p, loaded)
	}
	return p, loaded, err
}

// searchRequests is the number of concurrent requests of a search.
const searchRequests = 16

// exponentialSearch returns the number of a page that exists and is not followed by another, and the
// highest page number that it found, if there is a page at the floor. It adds the closed pages that it
// loads to a map. The number of its requests is logarithmic in the number of pages.
func (r *Reader) exponentialSearch(ctx context.Context, floor int64, closed map[int64]*Page) (top, seen int64, err error) {
	var numbers []int64
	low, high := floor, int64(0) // low exists; high does not
	seen = floor
	narrow := func() error {
		found, highest, err := r.leading(ctx, numbers, closed)
		if err != nil {
			return err
		}
		seen = max(seen, highest)
		if found > 0 {
			low = numbers[found-1]
		}
		if found < len(numbers) {
			high = numbers[found]
		}
		return nil
	}
	for jump := int64(1); high == 0; {
		numbers = numbers[:0]
		for range searchRequests / 2 {
			numbers = append(numbers, floor+jump)
			jump *= 2
		}
		if err := narrow(); err != nil {
			return 0, 0, err
		}
	}
	for high-low > 1 {
		parts := min(high-low, searchRequests+1)
		numbers = numbers[:0]
		for i := int64(1); i < parts; i++ {
			numbers = append(numbers, low+(high-low)*i/parts)
		}
		if err := narrow(); err != nil {
			return 0, 0, err
		}
	}
	return low, seen, nil
}

// leading checks pages concurrently. It returns how many of them exist before the first
// that does not, and the highest number that exists. It adds the closed ones to a map.
func (r *Reader) leading(ctx context.Context, numbers []int64, closed map[int64]*Page) (found int, highest int64, err error) {
	exist, pages := make([]bool, len(numbers)), make([]*Page, len(numbers))
	err = together.Do(len(numbers), func(i int) (err error) {
		pages[i], err = r.load(ctx, numbers[i])
		exist[i] = err == nil || errors.Is(err, ErrCorrupt)
		if exist[i] || errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	for i, p := range pages {
		if exist[i] {
			highest = numbers[i]
		}
		if p != nil && p.Closed {
			closed[p.Number] = p
		}
	}
	if found = slices.Index(exist, false); found < 0 {
		found = len(exist)
	}
	return found, highest, nil
}

// loadAll loads the pages from first to last, both included, except those in closed, which do not
// change. It omits those that cannot be loaded.
func (r *Reader) loadAll(ctx context.Context, first, last int64, closed map[int64]*Page) map[int64]*Page {
	pages := make([]*Page, max(last-first+1, 0))
	_ = together.Do(len(pages), func(i int) (err error) {
		n := first + int64(i)
		if pages[i] = closed[n]; pages[i] == nil {
			pages[i], err = r.load(ctx, n)
		}
		return err // reported when the page is needed and loaded again
	})
	loaded := make(map[int64]*Page, len(pages))
	for i, p := range pages {
		if p != nil {
			loaded[first+int64(i)] = p
		}
	}
	return loaded
}
