package couchdb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
)

// reads counts the reads of a feed.
type reads struct {
	mu     sync.Mutex
	bodies []string // keys of pages
	all    int
}

func (r *reads) of(store storage.Store) storage.Store {
	return observe.Wrap(store, func(_ context.Context, o observe.Operation) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch o.Name {
		case "get":
			if strings.HasPrefix(o.Key, layout.FeedPages(testFeed)) {
				r.bodies = append(r.bodies, o.Key)
			}
			fallthrough
		case "stat", "list":
			r.all++
		}
	})
}

// TestReadsOfTheFeed: with an index, a run reads no page but the newest, however many there are.
func TestReadsOfTheFeed(t *testing.T) {
	r := newRig(t)
	const perPage, pages = 50, 25
	for n := range perPage*pages + 1 {
		r.fake.AddDoc(r.url, fmt.Sprintf("doc %04d", n), `{}`)
	}
	r.run()
	run := func(published int64, most int) (bodies []string) {
		t.Helper()
		var seen reads
		report, err := r.tryRun(seen.of(r.store))
		if err != nil || report.Published != published {
			t.Fatalf("%d published, want %d: %v", report.Published, published, err)
		}
		if seen.all > most {
			t.Errorf("%d reads, want at most %d", seen.all, most)
		}
		slices.Sort(seen.bodies)
		return slices.Compact(seen.bodies)
	}
	if bodies := run(0, 40); len(bodies) > 0 {
		t.Errorf("a run without news read %q", bodies)
	}
	r.put("another", `{}`)
	newest := layout.FeedPage(testFeed, pages+1)
	if bodies := run(1, 46); len(bodies) != 1 || bodies[0] != newest {
		t.Errorf("a run that published one document read %q, want only %q", bodies, newest)
	}
	r.check()
}
