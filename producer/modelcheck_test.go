package producer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"slices"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// check compares the entities that are visible now with those that were visible before.
func (r *run) check() {
	if r.t.Failed() {
		return
	}
	_, pages := r.chain()
	var now []string
	for _, p := range pages {
		now = append(now, p.ids...)
		if before, ok := r.closed[p.number]; ok && before != p.digest {
			r.t.Fatalf("closed page %d changed", p.number)
		}
		if p.closed {
			r.closed[p.number] = p.digest
		}
	}
	for len(r.history) > 0 && r.pruned[r.history[0]] {
		r.history = r.history[1:]
	}
	if len(now) < len(r.history) || !slices.Equal(now[:len(r.history)], r.history) {
		r.t.Fatalf("what is visible changed:\n%v\n%v", r.history, now)
	}
	r.history = now
	once := map[string]int{} // maps entities to their positions, counted from 1
	for n, id := range now {
		if once[id] > 0 || r.pruned[id] {
			r.t.Fatalf("%s is in the feed twice: %v", id, now)
		}
		once[id] = n + 1
	}
	for _, p := range r.publishes {
		for _, id := range p.ids {
			if p.acked && once[id] == 0 && !r.pruned[id] {
				r.t.Fatalf("%s was acknowledged and is not in the feed: %v", id, now)
			}
			if p.after == nil || once[id] == 0 {
				continue
			}
			for _, before := range p.after.ids {
				if !r.pruned[before] && (once[before] == 0 || once[before] > once[id]) {
					r.t.Fatalf("%s is in the feed before %s: %v", id, before, now)
				}
			}
		}
	}
	r.checkCold(pages)
}

// checkCold checks that a new process finds the right newest page.
func (r *run) checkCold(pages []visiblePage) {
	newest, err := chain.NewReader(r.store, testFeed).Newest(context.Background())
	switch {
	case errors.Is(err, chain.ErrNoFeed) && len(pages) == 0:
	case err != nil:
		r.t.Fatalf("newest page: %v", err)
	case len(pages) == 0 || newest.Number != pages[len(pages)-1].number:
		r.t.Fatalf("newest page is %d, want the last of %+v", newest.Number, pages)
	}
}

// A visiblePage is a page as readers see it. It is found without the Reader of package chain.
type visiblePage struct {
	number int64
	ids    []string
	closed bool
	digest string
}

// chain walks the feed from the floor, and returns the floor and the pages.
func (r *run) chain() (int64, []visiblePage) {
	floor, err := chain.NewReader(r.store, testFeed).Floor(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return floor, walkChain(r.t, r.store, floor)
}

// newest returns the number of the newest page, or 0.
func (r *run) newest() int64 {
	_, pages := r.chain()
	if len(pages) == 0 {
		return 0
	}
	return pages[len(pages)-1].number
}

func walkChain(t *testing.T, store storage.Store, floor int64) []visiblePage {
	t.Helper()
	var pages []visiblePage
	for n := floor; ; n++ {
		object, err := store.Get(context.Background(), layout.FeedPage(testFeed, n), 0, -1)
		if errors.Is(err, storage.ErrNotFound) {
			return pages
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(object.Body)
		if err := errors.Join(err, object.Body.Close()); err != nil {
			t.Fatal(err)
		}
		p, err := chain.Decode(testFeed, n, object.Info)
		if err != nil {
			t.Fatal(err)
		}
		if len(pages) > 0 {
			if last := pages[len(pages)-1]; !last.closed || p.Prev != last.digest {
				return pages
			}
		}
		pages = append(pages, visiblePage{number: n, ids: contentIDs(t, p, body), closed: p.Closed, digest: p.Digest()})
	}
}

// contentIDs returns the Content-IDs of the entities on a page. It reads the page with a
// different implementation.
func contentIDs(t *testing.T, p *chain.Page, body []byte) []string {
	t.Helper()
	end := []byte("--" + p.Boundary + "--\r\n")
	if p.Closed != bytes.HasSuffix(body, end) {
		t.Fatalf("page %d: closed is %v, but the body ends in %q", p.Number, p.Closed, body[max(0, len(body)-60):])
	}
	if !p.Closed {
		body = append(body, end...)
	}
	if n := bytes.Index(body, end); n != len(body)-len(end) {
		t.Fatalf("page %d: closing delimiter in the middle", p.Number)
	}
	var ids []string
	parts := multipart.NewReader(bytes.NewReader(body), p.Boundary)
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("page %d: %v", p.Number, err)
		}
		content, err := io.ReadAll(part)
		if err != nil {
			t.Fatalf("page %d: %v", p.Number, err)
		}
		id := part.Header.Get("Content-ID")
		if string(content) != "body of "+id {
			t.Fatalf("page %d: %s has body %q", p.Number, id, content)
		}
		ids = append(ids, id)
	}
	if len(ids) != p.Entities {
		t.Fatalf("page %d has %d entities, its metadata says %d", p.Number, len(ids), p.Entities)
	}
	return ids
}
