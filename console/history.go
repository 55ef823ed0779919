package console

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
)

// samplesAtOnce is how many pages are read at the same time.
const samplesAtOnce = 16

// A history is a summary of a part of a feed, computed from the metadata of its pages. If there are many, it is
// estimated from a sample of them.
type history struct {
	// pages are the pages that were read, oldest first. Each represents itself and the pages between the previous
	// element and itself.
	pages []*chain.Page
	// before is the number of the page before the first page of this part.
	before int64
}

// readHistory reads the metadata of at most limit of the pages between number from and the newest page.
func readHistory(ctx context.Context, f *feedstore.Feed, from int64, newest *chain.Page, limit int) (*history, error) {
	pages, err := statPages(ctx, f, sampled(from, newest.Number, limit), newest)
	if err != nil {
		return nil, err
	}
	return &history{pages: pages, before: from - 1}, nil
}

// statPages returns the metadata of some pages, in order, without those that were pruned in the meantime. The pages are
// read concurrently.
func statPages(ctx context.Context, f *feedstore.Feed, numbers []int64, newest *chain.Page) ([]*chain.Page, error) {
	pages := make([]*chain.Page, len(numbers))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(samplesAtOnce)
	for i, n := range numbers {
		if n == newest.Number {
			pages[i] = newest
			continue
		}
		group.Go(func() (err error) {
			if pages[i], err = f.Stat(ctx, n); errors.Is(err, chain.ErrPruned) {
				return nil // pruned a moment ago
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pages, func(p *chain.Page) bool { return p == nil }), nil
}

// sampled returns at most limit numbers from first to last, evenly distributed and in order, including both ends.
func sampled(first, last int64, limit int) (numbers []int64) {
	count := min(last-first+1, int64(limit))
	for i := range count {
		n := last
		if count > 1 {
			n = first + int64(math.Round(float64(last-first)*float64(i)/float64(count-1)))
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// each calls do for each page that was read, with the number of pages that it represents, and the times between which
// these were published.
func (h *history) each(do func(p *chain.Page, pages int64, from, to time.Time)) {
	before, last := h.before, time.Time{}
	for _, p := range h.pages {
		from := p.First
		if p.Number-before > 1 && !last.IsZero() {
			from = last
		}
		do(p, p.Number-before, from, p.Last)
		before, last = p.Number, p.Last
	}
}

// exact reports whether all pages were read.
func (h *history) exact() bool {
	all := true
	h.each(func(_ *chain.Page, pages int64, _, _ time.Time) { all = all && pages == 1 })
	return all
}

// An amount is a number of entities and bytes, exact or estimated.
type amount struct {
	Entities, Bytes int64
	Exact           bool
}

// total returns the number of entities and bytes in the pages.
func (h *history) total() amount {
	sum := amount{Exact: h.exact()}
	h.each(func(p *chain.Page, pages int64, _, _ time.Time) {
		sum.Entities += int64(p.Entities) * pages
		sum.Bytes += p.Size * pages
	})
	if !sum.Exact {
		sum.Entities, sum.Bytes = rounded(sum.Entities), rounded(sum.Bytes)
	}
	return sum
}

// rounded returns an estimate rounded to three digits, since the remaining digits are unlikely to be right.
func rounded(n int64) int64 {
	unit := int64(1)
	for n/unit >= 1000 {
		unit *= 10
	}
	return (n + unit/2) / unit * unit
}

// A series holds how many entities and bytes were published in each of a number of equal intervals.
type series struct {
	From            time.Time
	Step            time.Duration
	Entities, Bytes []float64
	Exact           bool // not estimated from some of the pages
}

// series returns what was published between two times, in a number of steps.
func (h *history) series(from, to time.Time, steps int) *series {
	s := &series{From: from, Step: max(to.Sub(from)/time.Duration(steps), 1), Exact: h.exact(), Entities: make([]float64, steps), Bytes: make([]float64, steps)}
	h.each(func(p *chain.Page, pages int64, first, last time.Time) {
		s.spread(s.Entities, first, last, float64(p.Entities)*float64(pages))
		s.spread(s.Bytes, first, last, float64(p.Size)*float64(pages))
	})
	return s
}

// spread distributes an amount over the steps between two times, as if it had been published at a constant rate. The
// part outside the series is not counted.
func (s *series) spread(steps []float64, first, last time.Time, amount float64) {
	begin, end := float64(first.Sub(s.From))/float64(s.Step), float64(last.Sub(s.From))/float64(s.Step)
	if end-begin < 1e-6 { // all at once
		if i := int(math.Floor(end)); i >= 0 && i < len(steps) {
			steps[i] += amount
		} else if i == len(steps) && end == float64(i) { // now
			steps[i-1] += amount
		}
		return
	}
	for i := max(int(math.Floor(begin)), 0); i < len(steps) && float64(i) < end; i++ {
		part := min(end, float64(i+1)) - max(begin, float64(i))
		steps[i] += amount * part / (end - begin)
	}
}

// total returns the sum of steps, which are s.Entities or s.Bytes.
func (s *series) total(steps []float64) int64 {
	sum := 0.0
	for _, n := range steps {
		sum += n
	}
	if s.Exact {
		return int64(math.Round(sum))
	}
	return rounded(int64(math.Round(sum)))
}

// usualGap returns the mean time between the entities of a page.
func usualGap(p *chain.Page) time.Duration {
	if p.Entities < 2 {
		return 0
	}
	return p.Last.Sub(p.First) / time.Duration(p.Entities-1)
}

// States of a feed.
const (
	stateActive  = "active"  // the newest entity is not older than usual
	stateQuiet   = "quiet"   // no entity was published for longer than usual
	stateDamaged = "damaged" // it cannot be read
)

// minQuiet is the minimum age of the newest entity of a quiet feed, however close together its entities usually are.
const minQuiet = 5 * time.Minute

// stateOf returns the state of a feed: it is quiet if its newest entity is older than three times the usual time
// between entities.
func stateOf(newest *chain.Page, now time.Time) string {
	if now.Sub(newest.Last) > max(minQuiet, 3*usualGap(newest)) {
		return stateQuiet
	}
	return stateActive
}
