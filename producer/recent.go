package producer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/page"
)

// window is on how many of a feed's newest pages a Content-ID is recognised.
const window = 16

// An idHash stands for a Content-ID, in less memory.
type idHash [16]byte

func hashID(id string) idHash {
	sum := sha256.Sum256([]byte(id))
	return idHash(sum[:16])
}

// recent knows the Content-IDs on the newest pages of a feed: all those from
// page first to page last, as far as they were read or written.
type recent struct {
	known       bool // whether it has been filled at all
	first, last int64
	pages       map[int64][]idHash
	ids         map[idHash]int64 // the page
}

func newRecent() recent {
	return recent{pages: map[int64][]idHash{}, ids: map[idHash]int64{}}
}

// page returns the page that an entity is on.
func (r *recent) page(id string) (int64, bool) {
	n, ok := r.ids[hashID(id)]
	return n, ok
}

// add notes an entity that was written to page n.
func (r *recent) add(n int64, id string) {
	h := hashID(id)
	if _, ok := r.ids[h]; !ok {
		r.ids[h] = n
		r.pages[n] = append(r.pages[n], h)
	}
	r.last = max(r.last, n)
}

// trim forgets the pages before n.
func (r *recent) trim(n int64) {
	for ; r.first < n; r.first++ {
		for _, h := range r.pages[r.first] {
			delete(r.ids, h)
		}
		delete(r.pages, r.first)
	}
}

// fill reads the pages up to the newest of which it does not know all: from page
// from on, or the start of the window if that is earlier, if it knows nothing.
func (r *recent) fill(ctx context.Context, c *chain.Reader, newest *chain.Page, from int64) error {
	floor, err := c.Floor(ctx)
	if err != nil {
		return err
	}
	from = max(floor, min(from, newest.Number-window+1))
	if r.known && r.first <= from {
		from = max(from, r.last) // the last page may have grown
	} else {
		*r = newRecent()
		r.first = from
	}
	for n := from; n <= newest.Number; n++ {
		if err := r.read(ctx, c, n); errors.Is(err, chain.ErrPruned) {
			continue
		} else if err != nil {
			return err
		}
	}
	r.known = true
	r.last = newest.Number
	return nil
}

// read notes the entities of page n.
func (r *recent) read(ctx context.Context, c *chain.Reader, n int64) error {
	p, object, err := c.Open(ctx, n, 0, -1)
	if err != nil {
		return err
	}
	defer object.Body.Close()
	parts := page.NewReader(object.Body, p.Boundary, page.ReaderOptions{})
	entities := 0
	for part, err := range parts.Parts() {
		// A page that is open has no closing delimiter in the store.
		if errors.Is(err, page.ErrTruncated) && !p.Closed && entities == p.Entities {
			break
		}
		if err != nil {
			return fmt.Errorf("read page %d of feed %q: %w", n, p.Feed, err)
		}
		r.add(n, string(part.Header.Get("Content-ID")))
		entities++
	}
	if entities != p.Entities {
		return fmt.Errorf("%w: page %d of feed %q has %d entities, its metadata says %d", chain.ErrCorrupt, n, p.Feed, entities, p.Entities)
	}
	return nil
}
