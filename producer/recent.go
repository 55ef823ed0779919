package producer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/chain"
)

// window is the number of a feed's newest pages on which a Content-ID is recognized. The number is
// increased by the pages that the batch itself may take up.
const window = 16

// An idHash represents a Content-ID in less memory.
type idHash [16]byte

func hashID(id string) idHash {
	sum := sha256.Sum256(append(make([]byte, 0, 128), id...)) // usually without an allocation
	return idHash(sum[:16])
}

// recent remembers the Content-IDs on the newest pages of a feed.
type recent struct {
	first int64 // the first page whose Content-IDs are known; 0: none is known
	last  int64 // the last page whose Content-IDs were known when fresh was last true
	fresh bool  // whether no other producer can have written since
	pages map[int64][]idHash
	ids   map[idHash]int64 // the page of each Content-ID
}

func newRecent() recent {
	return recent{pages: map[int64][]idHash{}, ids: map[idHash]int64{}}
}

// page returns the number of the page on which an entity is.
func (r *recent) page(id idHash) (int64, bool) {
	n, ok := r.ids[id]
	return n, ok
}

// has reports whether an item is known to be in the feed.
func (r *recent) has(i item) bool {
	_, ok := r.ids[i.id]
	return ok
}

// add records that an entity is on page n.
func (r *recent) add(n int64, id idHash) {
	if _, ok := r.ids[id]; !ok {
		r.ids[id] = n
		r.pages[n] = append(r.pages[n], id)
	}
	r.last = max(r.last, n)
}

// trim forgets the pages before n.
func (r *recent) trim(n int64) {
	if r.first == 0 {
		return // no Content-IDs are known
	}
	for ; r.first < n; r.first++ {
		for _, h := range r.pages[r.first] {
			delete(r.ids, h)
		}
		delete(r.pages, r.first)
	}
}

// fill makes sure that the Content-IDs on page from and all later pages are known. It reads the
// pages whose Content-IDs are not known yet. If the feed has no pages, newest is nil.
func (r *recent) fill(ctx context.Context, c *chain.Reader, newest *chain.Page, from int64) error {
	if r.fresh && r.first <= from {
		return nil
	}
	if r.first == 0 || r.first > from || r.last < from {
		*r = newRecent() // without this, there would be a gap
		r.first, r.last = from, from
	}
	if newest != nil {
		floor, err := c.Floor(ctx)
		if err != nil {
			return err
		}
		for n := max(floor, r.first, r.last); n <= newest.Number; n++ { // the last page may have grown since it was read
			if err := r.read(ctx, c, n); err != nil && !errors.Is(err, chain.ErrPruned) {
				return err
			}
		}
		r.last = newest.Number
	}
	r.fresh = true
	return nil
}

// read adds the Content-IDs on page n.
func (r *recent) read(ctx context.Context, c *chain.Reader, n int64) error {
	p, object, err := c.Open(ctx, n, 0, -1)
	if err != nil {
		return err
	}
	defer object.Body.Close()
	entities := 0
	for h, err := range p.Headers(object.Body) {
		if err != nil {
			return err
		}
		r.add(n, hashID(string(h.Get("Content-ID"))))
		entities++
	}
	if entities != p.Entities {
		return fmt.Errorf("%w: page %d of feed %q has %d entities, its metadata says %d", chain.ErrCorrupt, n, p.Feed, entities, p.Entities)
	}
	return nil
}
