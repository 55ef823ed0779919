package consumer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
)

// A restoredFeed serves a feed whose store was restored to an older state, through a cache that still
// has some former pages.
type restoredFeed struct {
	before, now *testFeed
	cached      func(number int) bool
}

func (f *restoredFeed) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var number int
	if _, err := fmt.Sscanf(r.URL.Path, "/feed/%d", &number); err == nil && f.cached(number) {
		f.before.ServeHTTP(rw, r)
		return
	}
	f.now.ServeHTTP(rw, r)
}

// all returns the Content-IDs of a feed in order.
func (f *testFeed) all() (ids []string) {
	for _, p := range f.pages {
		for _, e := range p.entities {
			ids = append(ids, e.ContentID)
		}
	}
	return ids
}

// TestTimelines restores a feed behind a cache, with all combinations of former pages in the cache.
// Consumers at any position receive exactly the entities that the feed has now, or an error.
func TestTimelines(t *testing.T) {
	before := "a0 b1 | c2 d3 | e4 f5 | g6 h7 | i8"
	every := 1
	if testing.Short() {
		every = 3 // fewer combinations with the race detector, with and without each page
	}
	for _, now := range []string{
		"a0 b1 | c2 d3 | e4 m9 | n9 o9 | p9 q9 | r9", // the restored state ends within a page or, below, at the end of one
		"a0 b1 | c2 d3 | m9 n9 | o9 p9 | q9",
		"a0 b1 | c2 m9 | n9",
		"a0 b1 | c2 d3 | e4 m9",
		"a0 b1 | c2 d3",
		"m9 n9 | o9",
		"m0 n1 | c2 d3 | e4 f5 | g6 h7 | i8", // entities on later pages have the same names
	} {
		for cached := 0; cached < 1<<4; cached += every { // a set of pages with a next link, as bits
			f := &restoredFeed{newFeed(before), newFeed(now), func(n int) bool { return n > 0 && cached>>(n-1)&1 == 1 }}
			f.before.chained, f.now.chained = true, true
			inWorld(t, f, func(t *testing.T, w *world) {
				c := w.newClient(Config{Retry: RetryConfig{Attempts: 1}})
				for start, read := range positions(t, w, f.before) {
					got, err := ids(t, c, start)
					if err == nil && read+got != "" && strings.TrimSpace(read+" "+got) != strings.Join(f.now.all(), " ") {
						t.Errorf("%s: pages %04b in the cache: after %q got %q and no error", now, cached, read, got)
					}
					if err != nil && !IsGap(err) {
						t.Errorf("%s: pages %04b in the cache: after %q: %v", now, cached, read, err)
					}
					if err != nil && cached == 0 && kindOfGap(err) == "" && !strings.Contains(now, "m0") {
						t.Errorf("%s: nothing in the cache: after %q: %v", now, read, err)
					}
				}
			})
		}
	}
}

// positions returns the Starts at the beginning and after each entity, each with the entities before it.
func positions(t *testing.T, w *world, f *testFeed) map[Start]string {
	t.Helper()
	all := map[Start]string{Beginning(): ""}
	handler := w.handler
	w.handler = f
	defer func() { w.handler = handler }()
	read := ""
	for e, err := range w.newClient(Config{}).Entities(t.Context(), feedURL, Beginning()) {
		if err != nil {
			t.Fatal(err)
		}
		read = strings.TrimSpace(read + " " + e.ContentID)
		all[After(e.Position())] = read
	}
	return all
}

// TestTwoVersionsOfPage: a page that has grown is not read further if it now follows another page, since
// the history before it was replaced.
func TestTwoVersionsOfPage(t *testing.T) {
	f, now := newFeed("a0 | b1"), newFeed("m0 | b1 c2")
	f.chained, now.chained = true, true
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { f.ServeHTTP(rw, r) })
	inWorld(t, handler, func(t *testing.T, w *world) {
		c := w.newClient(Config{Follow: true, Retry: RetryConfig{Attempts: 1}, Idle: func() { f = now }})
		var got []string
		var torn *TimelineError
		for e, err := range c.Entities(t.Context(), feedURL, Beginning()) {
			if err != nil {
				if !errors.As(err, &torn) || torn.Page != pageURL+"2" || torn.Other != torn.Page || torn.Position.ContentID != "b" {
					t.Errorf("error is %v", err)
				}
				break
			}
			if got = append(got, e.ContentID); len(got) > 2 {
				break
			}
		}
		if want := "a b"; strings.Join(got, " ") != want || torn == nil {
			t.Errorf("got %q and %v, want %q and a timeline error", got, torn, want)
		}
	})
}

// TestTimelineError checks the fields of the error, and which gap policies make a job continue.
func TestTimelineError(t *testing.T) {
	f := &restoredFeed{newFeed("a0 | b1 | c2 | d3"), newFeed("a0 | m4 | n5"), nil}
	f.before.chained, f.now.chained = true, true
	purged := false
	f.cached = func(n int) bool { return n == 2 && !purged }
	for _, policy := range []GapPolicy{GapFail, GapReplay} {
		purged = false
		inWorld(t, f, func(t *testing.T, w *world) {
			sink := &memorySink{t: t, at: After(feed.Position{LastModified: second(1), ContentID: "b", Page: pageURL + "2"}).position}
			job := Job{Client: w.newClient(Config{}), Sink: sink, OnGap: policy}
			_, err := runJob(t, job)
			var torn *TimelineError
			if !errors.As(err, &torn) || !errors.Is(err, ErrTimeline) || !IsGap(err) || Retryable(err) {
				t.Fatalf("%v: error is %v", policy, err)
			}
			if torn.Page != pageURL+"3" || torn.Other != pageURL+"2" || !torn.Position.LastModified.Equal(second(1)) {
				t.Errorf("%v: %+v", policy, torn)
			}
			for _, text := range []string{pageURL + "3", pageURL + "2", "purge the caches", "restart"} {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v: %q is not in %q", policy, text, err)
				}
			}
			purged = true
			if _, err := runJob(t, job); policy == GapReplay && err != nil || policy == GapFail && kindOfGap(err) != "id" {
				t.Errorf("%v: after the cache was purged: %v", policy, err)
			}
			if policy == GapReplay {
				sink.expect("m n")
			}
		})
	}
}

// TestTimelineOfOlderPosition: a position without a digest remains usable, and so does a position from a
// server that sends no digests.
func TestTimelineOfOlderPosition(t *testing.T) {
	f := newFeed("a0 b1 | c2 d3 | e4")
	for _, chained := range []bool{true, false} {
		f.chained = chained
		inWorld(t, f, func(t *testing.T, w *world) {
			want(t, w.newClient(Config{}), at("c2", 2), "d e")
			start := at("c2", 2)
			start.position.Prev = f.digest(1)
			want(t, w.newClient(Config{}), start, "d e")
			start.position.Page = ""
			want(t, w.newClient(Config{}), start, "d e")
			start.position.Prev = f.digest(2)
			if _, err := ids(t, w.newClient(Config{}), start); errors.Is(err, ErrTimeline) != chained {
				t.Errorf("with digests %t: error is %v", chained, err)
			}
		})
	}
}
