package feedstore

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/storage"
)

// Limits of searches by time.
const (
	// timeRequests is how many pages of a remote store a search reads at the same time.
	timeRequests = 8
	// maxSearches is how many searches a Reader makes at the same time; further ones wait.
	maxSearches = 8
	// maxSearched is how many times a search is tried if the pages that it reads are pruned or deleted
	// meanwhile.
	maxSearched = 3
)

// PageBefore returns the number of the last page of a feed whose last entity is older than t, or the
// number of the oldest page if there is no such page. It reads the metadata of at most 1 + log2(pages)
// pages or, in a remote store, of at most 20 pages, up to eight at a time, and remembers the metadata.
// The errors are those of [Reader.Look].
func (r *Reader) PageBefore(ctx context.Context, name string, t time.Time) (int64, error) {
	select {
	case r.searches <- struct{}{}:
		defer func() { <-r.searches }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	for tries := 1; ; tries++ {
		f, newest, floor, err := r.Look(ctx, name)
		if err != nil {
			return 0, err
		}
		n, err := f.pageBefore(ctx, t, max(floor, f.SeenFloor()), newest)
		moved := errors.Is(err, chain.ErrPruned) || errors.Is(err, chain.ErrNoPage)
		if !moved || tries == maxSearched {
			return n, err
		}
	}
}

// pageBefore implements PageBefore for the pages from floor to newest. All of these are in the chain,
// in which times never decrease.
func (f *Feed) pageBefore(ctx context.Context, t time.Time, floor int64, newest *chain.Page) (int64, error) {
	if newest.Number <= floor || newest.Last.Before(t) {
		return newest.Number, nil
	}
	oldest, err := f.Stat(ctx, floor)
	if err != nil || !oldest.Last.Before(t) {
		return floor, err
	}
	older, later := oldest, newest // the result is the page older, or one between older and later
	for later.Number-older.Number > 1 {
		numbers := halve(older, later)
		if storage.PropertiesOf(f.r.store).Remote {
			numbers = spread(older, later, t)
		}
		pages, err := f.statAll(ctx, numbers)
		if err != nil {
			return 0, err
		}
		for _, p := range pages {
			if !p.Last.Before(t) {
				later = p
				break
			}
			older = p
		}
	}
	return older.Number, nil
}

// halve returns the number in the middle between two pages.
func halve(older, later *chain.Page) []int64 {
	return []int64{older.Number + (later.Number-older.Number)/2}
}

// spread returns up to timeRequests numbers between two pages, in order. If pages span equal times,
// apart from random differences, two of the numbers enclose the page of time t: the differences add up
// to about the square root of the number of pages. The other numbers divide the range evenly, in case
// pages do not span equal times.
func spread(older, later *chain.Page, t time.Time) []int64 {
	size := later.Number - older.Number
	var numbers []int64
	const even = timeRequests - 2
	for i := int64(1); i <= even; i++ {
		numbers = append(numbers, older.Number+size*i/(even+1))
	}
	part := float64(t.Sub(older.Last)) / float64(later.Last.Sub(older.Last))
	around, margin := older.Number+int64(part*float64(size)), int64(math.Sqrt(float64(size)))
	numbers = append(numbers, around-margin, around+margin)
	numbers = slices.DeleteFunc(numbers, func(n int64) bool { return n <= older.Number || n >= later.Number })
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// statAll reads the metadata of pages that have a next page, concurrently.
func (f *Feed) statAll(ctx context.Context, numbers []int64) ([]*chain.Page, error) {
	pages, errs := make([]*chain.Page, len(numbers)), make([]error, len(numbers))
	var group sync.WaitGroup
	for i, n := range numbers {
		group.Go(func() { pages[i], errs[i] = f.Stat(ctx, n) })
	}
	group.Wait()
	return pages, errors.Join(errs...)
}
