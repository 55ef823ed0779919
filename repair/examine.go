package repair

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// An examination finds the damage of a feed and plans the repair.
type examination struct {
	ctx       context.Context
	store     storage.Store
	recoverer storage.Recoverer // nil if the store cannot lose parts of objects
	feed      string
	now       time.Time
	numbers   []int64 // of pages with any remains, in order
	loaded    map[int64]*found
	broken    bool // a page that the chain reaches cannot be restored
	report    *Report
	exists    int64 // the floor, or 0 if it is damaged; an erasure's copies with a higher floor count as missing
	first     int64 // the number of the first page that the feed ever had, or has had since it was deleted
}

// A found is what was found under the key of a page.
type found struct {
	page *chain.Page // nil if its metadata cannot be read
	none bool        // the object does not exist
	// The object is a copy by an erasure that was not completed, and counts as missing.
	unborn bool
}

func examine(ctx context.Context, store storage.Store, feed string, now func() time.Time) (*examination, error) {
	x := &examination{
		ctx: ctx, store: store, feed: feed, loaded: map[int64]*found{}, first: 1,
		report: &Report{Feed: feed, Steps: []Step{}, Lost: []Loss{}},
	}
	x.recoverer, _ = storage.As[storage.Recoverer](store)
	if now == nil {
		now = time.Now
	}
	var err error
	if x.now, err = storage.Now(ctx, store, now); err != nil {
		return nil, err
	}
	floor, damaged, err := x.floor()
	if err != nil {
		return nil, err
	}
	if !damaged {
		x.exists = floor
	}
	if err := x.list(floor); err != nil {
		return nil, err
	}
	if len(x.numbers) == 0 && floor == x.first {
		return nil, chain.ErrNoFeed
	}
	return x, x.run(floor, damaged)
}

// floor returns the number of the oldest page, or 1 if the floor is damaged.
func (x *examination) floor() (n int64, damaged bool, err error) {
	reader := chain.NewReader(x.store, x.feed)
	deleted, err := reader.Deleted(x.ctx)
	if errors.Is(err, chain.ErrCorrupt) || errors.Is(err, storage.ErrLayout) {
		return 1, true, nil
	}
	if deleted {
		x.first = reader.SeenFloor()
	}
	return reader.SeenFloor(), false, err
}

// list finds the pages with any remains.
func (x *examination) list(floor int64) error {
	note := func(key string) {
		if n, err := layout.ParseFeedPage(x.feed, key); err == nil && n >= floor {
			x.numbers = append(x.numbers, n)
		}
	}
	if x.recoverer != nil {
		for key, err := range x.recoverer.LeftoverKeys(x.ctx, layout.FeedPages(x.feed)) {
			if err != nil {
				return err
			}
			note(key)
		}
		return nil
	}
	for entry, err := range x.store.List(x.ctx, layout.FeedPages(x.feed), "") {
		if err != nil {
			return err
		}
		note(entry.Key)
	}
	return nil
}

// load reads the metadata of a page.
func (x *examination) load(n int64) (*found, error) {
	if f := x.loaded[n]; f != nil {
		return f, nil
	}
	delete(x.loaded, n-3) // no longer needed
	f := new(found)
	info, err := x.store.Stat(x.ctx, layout.FeedPage(x.feed, n))
	switch {
	case err == nil:
		f.page, _ = chain.Decode(x.feed, n, info) // nil if it cannot be read
		if x.exists > 0 && f.page != nil && f.page.Floor > x.exists {
			f.page, f.none, f.unborn = nil, true, true
		}
	case errors.Is(err, storage.ErrNotFound):
		f.none = true
	case !errors.Is(err, storage.ErrLayout):
		return nil, err
	}
	x.loaded[n] = f
	return f, nil
}

// run follows the chain from the floor and plans the steps.
func (x *examination) run(floor int64, damaged bool) error {
	start, first, err := x.start(floor)
	if err != nil {
		return err
	}
	if start == 0 {
		return x.beyond(nil)
	}
	newest := first
	for newest.page.Closed {
		next, err := x.choose(newest.page.Number+1, newest.page)
		if err != nil {
			return err
		}
		if next == nil {
			break
		}
		x.restore(newest)
		newest = next
	}
	x.restore(newest)
	if start > floor || damaged {
		x.raise(floor, start, damaged)
	}
	x.report.Oldest, x.report.Newest = start, newest.page.Number
	return x.beyond(newest.page)
}

// start returns the oldest page that is intact or can be restored: that of the floor, or a
// later one if it is certain that the feed reached it. It returns 0 if there is none.
func (x *examination) start(floor int64) (int64, *candidate, error) {
	for _, n := range x.numbers {
		c, err := x.choose(n, nil)
		if err != nil {
			return 0, nil, err
		}
		if c != nil && (n == floor || floor > x.first || n >= x.first+chain.Ahead || c.page.ProvesLoss(nil) || x.mayLackPages(nil)) {
			return n, c, nil
		}
	}
	return 0, nil, nil
}

// mayLackPages reports whether there is a page beyond newest that is not necessarily an orphan; newest may be
// nil.
func (x *examination) mayLackPages(newest *chain.Page) bool {
	last := x.first - 1
	if newest != nil {
		last = newest.Number
	}
	from, _ := slices.BinarySearch(x.numbers, last+1)
	for _, n := range x.numbers[from:] {
		f, err := x.load(n)
		switch {
		case err != nil, f.none:
			continue
		case f.page == nil, n > last+chain.Ahead, f.page.ProvesLoss(newest), f.page.Overdue(newest, x.now):
			return true
		}
	}
	return false
}

// raise adds the step that raises the floor to page start.
func (x *examination) raise(floor, start int64, damaged bool) {
	key := layout.FeedFloor(x.feed)
	x.report.Steps = append(x.report.Steps, Step{Action: RaiseFloor, Page: start, Key: key, do: func(ctx context.Context) error {
		if damaged {
			if err := x.store.Delete(ctx, key); err != nil {
				return err
			}
		}
		_, err := chain.RaiseFloor(ctx, x.store, x.feed, start)
		return err
	}})
	for n := floor; n < start && n < floor+maxNamed; n++ {
		x.report.Lost = append(x.report.Lost, Loss{Page: n, Entities: -1})
	}
}

// maxNamed is the maximum number of pages without any remains that are listed one by one. All pages before a
// lost floor are such pages.
const maxNamed = 16

// beyond moves aside the pages that the chain does not reach, unless they may be orphans.
func (x *examination) beyond(newest *chain.Page) error {
	if !x.broken && !x.mayLackPages(newest) {
		return nil
	}
	last, before := x.first-1, time.Time{}
	if newest != nil {
		last, before = newest.Number, newest.Last
	}
	from, _ := slices.BinarySearch(x.numbers, last+1)
	expected := last + 1
	for _, n := range x.numbers[from:] {
		f, err := x.load(n)
		if err != nil {
			return err
		}
		if f.unborn {
			continue
		}
		step, loss, err := x.move(n, f)
		if err != nil {
			return err
		}
		if step == nil {
			continue
		}
		for ; expected < n; expected++ {
			missing := Loss{Page: expected, Entities: -1, First: before}
			if f.page != nil {
				missing.Last = f.page.First
			}
			x.report.Lost = append(x.report.Lost, missing)
		}
		expected = n + 1
		x.report.Steps, x.report.Lost = append(x.report.Steps, *step), append(x.report.Lost, *loss)
		if !loss.Last.IsZero() {
			before = loss.Last
		}
	}
	return nil
}
