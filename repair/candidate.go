package repair

import (
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// A candidate is a page as it is or as it can be restored.
type candidate struct {
	page     *chain.Page
	leftover *storage.Leftover // its first page.Size bytes become the body; nil if the page is intact
	proven   bool              // by the digest in the next page
	was      *chain.Page       // the current metadata, if it can be read
}

// choose returns page n, which must follow prev (nil for the first page), as it is or as it
// can be restored. It returns nil if the page cannot be restored, or does not follow prev.
func (x *examination) choose(n int64, prev *chain.Page) (*candidate, error) {
	f, err := x.load(n)
	if err != nil {
		return nil, err
	}
	next, err := x.load(n + 1)
	if err != nil {
		return nil, err
	}
	stored := f.page
	if stored != nil && !follows(prev, stored) {
		return nil, nil
	}
	if stored != nil && next.page != nil && follows(stored, next.page) {
		if there, err := x.there(stored); err != nil || there {
			return &candidate{page: stored}, err
		}
	}
	others, err := x.restorable(n, prev, next.page, stored)
	if err != nil {
		return nil, err
	}
	for _, c := range others {
		if c.proven {
			return c, nil
		}
	}
	if stored != nil {
		switch whole, err := x.whole(stored); {
		case err != nil:
			return nil, err
		case whole:
			return &candidate{page: stored}, nil
		}
	}
	var best *candidate
	for _, c := range others {
		if best == nil || c.page.Entities > best.page.Entities {
			best = c
		}
	}
	x.broken = x.broken || best == nil && stored != nil
	return best, nil
}

func follows(prev, p *chain.Page) bool {
	return prev == nil || prev.Closed && p.Prev == prev.Digest()
}

// there reports whether the body of a page exists and has the right length. It returns true for a store that
// cannot lose a body alone.
func (x *examination) there(p *chain.Page) (bool, error) {
	if x.recoverer == nil {
		return true, nil
	}
	object, err := x.store.Get(x.ctx, layout.FeedPage(x.feed, p.Number), 0, 0)
	if errors.Is(err, storage.ErrLayout) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, object.Body.Close()
}

// whole reports whether the body of a page matches its metadata.
func (x *examination) whole(p *chain.Page) (bool, error) {
	object, err := x.store.Get(x.ctx, layout.FeedPage(x.feed, p.Number), 0, -1)
	if errors.Is(err, storage.ErrLayout) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, chain.ErrCorrupt) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	sum, err := digest(object.Body, p.Size)
	if err := errors.Join(err, object.Body.Close()); err != nil {
		return false, fmt.Errorf("read page %d: %w", p.Number, err)
	}
	return sum == p.SHA256, nil
}

// restorable returns the candidates from the remaining bodies of page n.
func (x *examination) restorable(n int64, prev, next, stored *chain.Page) ([]*candidate, error) {
	if x.recoverer == nil {
		return nil, nil
	}
	leftovers, err := x.recoverer.Leftovers(x.ctx, layout.FeedPage(x.feed, n))
	if err != nil {
		return nil, err
	}
	var all []*candidate
	for _, r := range leftovers {
		cs, err := x.fromLeftover(&r, n, prev, next)
		if err != nil {
			return nil, err
		}
		for _, c := range cs {
			c.leftover, c.was = &r, stored
			c.proven = next != nil && follows(c.page, next)
			all = append(all, c)
		}
	}
	return all, nil
}

// fromLeftover returns the candidates from one body: its known states, and the state that its text
// shows.
func (x *examination) fromLeftover(r *storage.Leftover, n int64, prev, next *chain.Page) ([]*candidate, error) {
	var known, verified *chain.Page // any state; the last one whose body is intact
	damaged := false                // the body does not have the digest of one of its states
	var all []*candidate
	for _, state := range r.States {
		p, err := chain.Decode(x.feed, n, state)
		if err != nil || !follows(prev, p) {
			continue
		}
		known = p
		if p.Size > r.Size {
			continue
		}
		sum, err := x.digest(r, p.Size)
		if err != nil {
			return nil, err
		}
		if sum != p.SHA256 {
			damaged = true
			continue
		}
		if verified == nil || p.Size > verified.Size {
			verified = p
		}
		all = append(all, &candidate{page: p})
	}
	if damaged {
		return all, nil // the text of a damaged body cannot be trusted
	}
	text, err := x.read(r)
	if err != nil || text == nil {
		return all, err
	}
	p := &chain.Page{
		Feed: x.feed, Number: n, Boundary: text.boundary, Entities: text.entities, LastContentID: text.lastID,
		First: text.first, Last: text.last, Closed: text.closed, Size: text.end, Settled: n - 1,
	}
	switch {
	case prev != nil:
		p.Prev, p.Checkpoint = prev.Digest(), prev.Checkpoint
	case known != nil:
		p.Prev = known.Prev
	case n > 1:
		return all, nil // the page that it follows is unknown
	}
	if verified != nil {
		p.Checkpoint = verified.Checkpoint
	}
	if p.SHA256, err = x.digest(r, p.Size); err != nil {
		return nil, err
	}
	if next != nil && p.Closed && recallTimes(p, next) {
		return append(all, &candidate{page: p}), nil
	}
	// Without metadata, the producer may have been killed before the page was created; if the body
	// is complete, the page is restored as if it had been published late.
	if len(r.States) == 0 && !text.whole {
		return all, nil
	}
	adjust(p, prev, known)
	return append(all, &candidate{page: p}), nil
}

// adjust corrects the times of p, which the body has only in whole seconds: First is taken from known if both
// are in the same second, and no time is earlier than those of the page before.
func adjust(p, prev, known *chain.Page) {
	if known != nil && known.First.Truncate(time.Second).Equal(p.First) {
		p.First = known.First
	}
	if prev != nil && p.First.Before(prev.Last) {
		p.First = prev.Last
	}
	if p.Last.Before(p.First) {
		p.Last = p.First
	}
}

// recallTimes finds the times of the first and last entity of a closed page in milliseconds, although the
// body has only whole seconds, with the help of the digest in the next page. It reports whether it found
// them.
func recallTimes(p, next *chain.Page) bool {
	first, last := p.First, p.Last
	try := func(a, b time.Duration) bool {
		p.First, p.Last = first.Add(a), last.Add(b)
		return !p.Last.Before(p.First) && next.Prev == p.Digest()
	}
	const second = time.Second
	if first.Equal(last) { // usually one commit
		for a := time.Duration(0); a < second; a += time.Millisecond {
			if try(a, a) {
				return true
			}
		}
	}
	for a := time.Duration(0); a < second; a += time.Millisecond {
		for b := time.Duration(0); b < second; b += time.Millisecond {
			if try(a, b) {
				return true
			}
		}
	}
	p.First, p.Last = first, last
	return false
}
