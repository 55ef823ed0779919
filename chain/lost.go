package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedctl/feedctl/internal/together"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// MaxCommit is longer than any producer keeps trying to link the pages that it has written.
const MaxCommit = time.Hour

// Overdue is the [LostError.Why] of pages for which [Page.Overdue] reports true.
const Overdue = "written more than an hour ago: no producer is still at work there"

// ErrLostPages means that the store has pages that the chain does not reach and that
// no producer can have left there: a page before them is missing, or has been restored
// to an older state. It matches [ErrCorrupt]. A [LostError] lists the pages.
var ErrLostPages = fmt.Errorf("%w: pages are lost", ErrCorrupt)

// A LostError reports pages beyond the newest one that are not orphans. It matches
// [ErrLostPages] and [ErrCorrupt].
type LostError struct {
	Feed   string
	Newest int64   // the last page that the chain reaches, or 0
	Beyond []int64 // pages that were found beyond it, in order
	Why    string  // why they are not orphans; empty if their metadata proves it
}

// Error implements error.
func (e *LostError) Error() string {
	first, last := e.Beyond[0], e.Beyond[len(e.Beyond)-1]
	var what string
	switch missing := e.Newest + 1; first {
	case missing:
		what = fmt.Sprintf("page %d is not the one that %s followed", e.Newest, span(first, last))
	case missing + 1:
		what = fmt.Sprintf("page %d is missing: %s beyond it", missing, exist(first, last))
	default:
		what = fmt.Sprintf("pages %d to %d are missing: %s beyond them", missing, first-1, exist(first, last))
	}
	if e.Newest == 0 {
		what += fmt.Sprintf(" (or %s is)", layout.FeedFloor(e.Feed))
	}
	if e.Why != "" {
		what += " (" + e.Why + ")"
	}
	return fmt.Sprintf("%v: feed %q: %s: restore what is missing, or use \"feedctl repair\"", ErrCorrupt, e.Feed, what)
}

// Unwrap returns [ErrLostPages].
func (e *LostError) Unwrap() error { return ErrLostPages }

func span(first, last int64) string {
	if first == last {
		return fmt.Sprintf("page %d", first)
	}
	return fmt.Sprintf("pages %d to %d", first, last)
}

func exist(first, last int64) string {
	if first == last {
		return span(first, last) + " exists"
	}
	return span(first, last) + " exist"
}

// NewLostError returns an error about pages beyond the newest one; newest is nil if the chain has
// no page.
func NewLostError(feed string, newest *Page, beyond []*Page, why string) *LostError {
	e := &LostError{Feed: feed, Newest: number(newest), Why: why}
	for _, p := range beyond {
		e.Beyond = append(e.Beyond, p.Number)
	}
	return e
}

func number(p *Page) int64 {
	if p == nil {
		return 0
	}
	return p.Number
}

// ProvesLoss reports whether this page, which is beyond the newest one (nil if there is
// none), proves that the chain once reached further: to it, or to another page beyond
// the newest.
//
// A page is created on condition that its number is free, so a page whose writer knew
// the page before it to be closed and linked is linked itself. An orphan never records
// this: its writer did not know yet what had become of the pages before it.
func (p *Page) ProvesLoss(newest *Page) bool {
	if p.unborn {
		return false
	}
	linked := p.Settled
	if p.Settled == p.Number-1 {
		linked = p.Number
	}
	return linked > number(newest) || newest != nil && !newest.Closed && p.Settled >= newest.Number
}

// Overdue reports whether this page, which is beyond the newest one (nil if there is
// none), was written more than MaxCommit ago by the store's clock. In that case, the page before it
// may have been lost, and a producer does not replace this page.
//
// This page is an orphan nevertheless, and not overdue, if the newest page was begun less than
// MaxCommit after it and was written to MaxCommit or longer after it: the chain never continued
// from the newest page to this one.
func (p *Page) Overdue(newest *Page, now time.Time) bool {
	if p.unborn || now.Sub(p.Modified) < MaxCommit {
		return false
	}
	orphan := newest != nil && newest.First.Sub(p.Modified) < MaxCommit && newest.Modified.Sub(p.Modified) >= MaxCommit
	return !orphan
}

// LastClosed returns the [Page.Settled] to write when p is known to be the newest page:
// the number of the last closed page.
func (p *Page) LastClosed() int64 {
	if p.Closed {
		return p.Number
	}
	return p.Number - 1
}

// Beyond returns the readable pages beyond the newest one that the last search for the
// end of the feed found, if it began without knowing any page. They may be orphans unless
// one of them proves that a page was lost.
func (r *Reader) Beyond() []*Page {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.beyond
}

// findBeyond returns the pages beyond the newest one, and an error about them if they are not
// orphans. The newest page is nil if the chain has no page; loaded holds the pages that have been
// loaded already, by number, up to the first gap; seen is the highest page number found so far.
func (r *Reader) findBeyond(ctx context.Context, newest *Page, floor int64, loaded map[int64]*Page, seen int64) ([]*Page, *LostError, error) {
	last := number(newest)
	if newest == nil {
		last = floor - 1
		listed, highest, err := r.list(ctx, floor)
		if err != nil {
			return nil, nil, err
		}
		loaded, seen = listed, max(seen, highest)
	} else if newest.Closed {
		// The page after the last one may be missing, with others beyond it.
		from := last + 2
		for loaded[from-1] != nil {
			from++
		}
		hidden, err := r.loadHidden(ctx, from, last+Ahead+1)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range hidden {
			loaded[p.Number] = p
			seen = max(seen, p.Number)
		}
	}
	var beyond []*Page
	for n, p := range loaded {
		if n > last {
			beyond = append(beyond, p)
		}
	}
	slices.SortFunc(beyond, func(a, b *Page) int { return int(a.Number - b.Number) })
	far := seen > last+Ahead // farther than an orphan may be
	if far && loaded[seen] == nil {
		beyond = append(beyond, &Page{Number: seen})
	}
	if far || slices.ContainsFunc(beyond, func(p *Page) bool { return p.ProvesLoss(newest) }) {
		lost := NewLostError(r.feed, newest, beyond, "")
		lost.Newest = last
		return beyond, lost, nil
	}
	return beyond, nil, nil
}

// loadHidden loads the pages from first to last, both included, that exist and can be
// read.
func (r *Reader) loadHidden(ctx context.Context, first, last int64) ([]*Page, error) {
	pages := make([]*Page, max(last-first+1, 0))
	err := together.Do(len(pages), func(i int) (err error) {
		pages[i], err = r.load(ctx, first+int64(i))
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrLayout) || errors.Is(err, ErrCorrupt) {
			return nil
		}
		return err
	})
	return slices.DeleteFunc(pages, func(p *Page) bool { return p == nil }), err
}

// list loads the pages of a feed that has no page at the floor, up to where an orphan may
// be; highest is the number of the first page beyond that, or 0.
func (r *Reader) list(ctx context.Context, floor int64) (loaded map[int64]*Page, highest int64, err error) {
	loaded = make(map[int64]*Page)
	for entry, err := range r.store.List(ctx, layout.FeedPages(r.feed), "") {
		if err != nil {
			return nil, 0, fmt.Errorf("list pages of feed %q: %w", r.feed, err)
		}
		n, err := layout.ParseFeedPage(r.feed, entry.Key)
		if err != nil || n < floor {
			continue
		}
		p, err := r.load(ctx, n)
		switch {
		case errors.Is(err, storage.ErrNotFound):
		case n >= floor+Ahead:
			return loaded, n, nil
		case err == nil:
			loaded[n] = p
		case !errors.Is(err, ErrCorrupt):
			return nil, 0, err
		}
	}
	return loaded, 0, nil
}
