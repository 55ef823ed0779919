package console

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/readers"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/observe"
)

// manyFeeds is a number of feeds with which all pages of the console must still be small and fast.
const manyFeeds = 10_000

// manyName returns the name of feed i, which is as long as the name of a feed may be.
func manyName(i int) string {
	name := fmt.Sprintf("warehouse-%05d.", i)
	return name + strings.Repeat("x", 100-len(name))
}

// fillMany fills a store: feed 0 has 300 pages of 100 entities with long keys, the others have one page; some have
// snapshots. Everything was published in the hour before now.
func fillMany(t testing.TB, store storage.Store, feeds int, now time.Time) {
	t.Helper()
	const pages, entities = 300, 100
	prev := ""
	for n := int64(1); n <= pages; n++ {
		list := make([]feed.Entity, entities)
		at := now.Add(time.Duration(n-pages-1) * 10 * time.Second).Truncate(time.Second)
		for i := range list {
			list[i] = put(fmt.Sprintf("<%d-%d@%s>", n, i, strings.Repeat(`"`, 200)), strings.Repeat(`"`, 200)+fmt.Sprint(i%10), `{"n":1}`)
			list[i].LastModified = at
		}
		prev = writePage(t, store, &chain.Page{Feed: manyName(0), Number: n, Prev: prev, Settled: n - 1, Closed: n < pages}, list)
	}
	for i := 1; i < feeds; i++ {
		e := put("<1>", "a", `{"n":1}`)
		e.LastModified = now.Add(-time.Duration(i%3600) * time.Second).Truncate(time.Second)
		writePage(t, store, &chain.Page{Feed: manyName(i), Number: 1}, []feed.Entity{e})
	}
	for i := range 60 {
		one := func(yield func(*feed.Entity, error) bool) {
			yield(&feed.Entity{ContentType: "text/plain", ContentLocation: "a", Body: []byte("a")}, nil)
		}
		for _, name := range []string{manyName(0), manyName(i)} {
			if _, err := snapshots.Write(t.Context(), store, name, one, snapshots.Config{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// manyReaders returns 4,000 readers of the feeds.
func manyReaders(now time.Time, feeds int) *readers.Tracker {
	w := &readerWorld{now: now, tracker: readers.New(readers.Config{Now: func() time.Time { return now }})}
	for i := range 4000 {
		name := manyName(0)
		if i%2 == 0 {
			name = manyName(i % feeds)
		}
		w.visit(fmt.Sprintf("reader-%d-%s", i, strings.Repeat(`"`, 50)), "feedctl", name, time.Duration(i)*time.Second)
	}
	return w.tracker
}

// manyConsole returns a console with all parts but jobs. Its requests need the credentials "Bearer all".
func manyConsole(t testing.TB, store storage.Store, tracker *readers.Tracker) *Console {
	t.Helper()
	reader := feedstore.NewLocal(store, nil)
	c, err := New(Config{
		Store: store, Feeds: reader, StoreName: "memory:", Readers: tracker, Actions: &fakeActions{}, Requests: new(Requests),
		WriteAuth: Credentials([]server.Credential{{Bearer: "all"}}), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		reader.Close(context.Background())
	})
	return c
}

// A visited is the URL of a page, and the maximum number of operations on the store that a request for it may cause,
// including those that it starts in the background.
type visited struct {
	query      string
	operations int64
}

// manyPaths returns the pages of a console of many feeds, by their paths.
func manyPaths(tracker *readers.Tracker) map[string][]visited {
	long, short := manyName(0), manyName(manyFeeds/2)
	all := tracker.Of(long)
	slices.SortFunc(all, func(a, b readers.Reader) int { return strings.Compare(a.Name, b.Name) })
	return map[string][]visited{
		"/":              {{"", 1500}, {"part=overview", 100}}, // 40 feeds that were not read before, and 50 in the background
		"/feeds":         {{"", 800}, {"after=" + short, 800}, {"q=09999", 20}, {"q=nothing", 2}, {"part=list", 100}},
		"/feed":          {{"name=" + long, 200}, {"name=" + short, 20}, {"name=" + long + "&range=all", 20}, {"part=feed&name=" + long, 20}},
		"/pages":         {{"feed=" + long, 60}, {"feed=" + long + "&to=150", 60}},
		"/page":          {{"feed=" + long + "&n=150", 5}, {"feed=" + long + "&n=300", 5}},
		"/snapshots":     {{"", 60}, {"name=" + long, 60}},
		"/search":        {{"", 0}, {"q=warehouse", 2}, {"q=nothing&feed=" + long, 320}, {"q=%3C150-5@&feed=" + long, 320}, {"q=2026-01-01&feed=" + long, 20}},
		"/entity":        {{"feed=" + long + "&n=150&i=50", 5}, {"feed=" + long + "&n=150&i=0", 5}, {"feed=" + short + "&n=1&i=0", 20}},
		"/history":       {{"feed=" + long + "&n=150&i=50", 20}, {"feed=" + long + "&n=150&i=50&before=newest", 20}},
		"/readers":       {{"", 0}, {"feed=" + long, 0}, {"q=reader-39", 0}, {"part=list", 0}},
		"/reader":        {{"id=" + all[0].ID, 150}},
		"/map":           {{"", 500}, {"part=map", 60}},
		"/checks":        {{"", 0}, {"part=checks", 0}},
		"/verify":        {{"feed=" + long, 60}},
		"/make-snapshot": {{"feed=" + long, 60}},
		"/prune":         {{"feed=" + long, 60}},
		"/run":           {{"id=1", 0}, {"id=1&part=run", 0}},
	}
}

// TestLongQueries: a long query does not make a page large.
func TestLongQueries(t *testing.T) {
	t.Parallel()
	c, _ := actConsole(t, &fakeActions{}, &strings.Builder{})
	w := newReaderWorld(t, "tea")
	long := url.QueryEscape(strings.Repeat(`"`, 20_000))
	for path, status := range map[string]int{
		"/readers?q=" + long: 400, "/readers?feed=" + long: 400, "/readers?sort=" + long: 400, "/search?feed=" + long: 400,
		"/feeds?q=" + long: 400, "/jobs?name=" + long: 400, "/jobs?" + strings.Repeat("state=running&", 4000): 200,
	} {
		from := http.Handler(c)
		if strings.HasPrefix(path, "/readers") {
			from = w.console
		}
		got := get(from, path, "Authorization: Bearer all")
		if got.Code != status || got.Body.Len() > 100_000 {
			t.Errorf("%.20s: status %d, %d bytes", path, got.Code, got.Body.Len())
		}
	}
}

// TestLimits requests all pages of the console of a store with 10,000 feeds. They are small, and cause few operations
// on the store, even when the console has just been started.
func TestLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var operations atomic.Int64
		store := memory.New()
		fillMany(t, store, manyFeeds, time.Now())
		tracker := manyReaders(time.Now(), manyFeeds)
		counted := observe.Wrap(store, func(context.Context, observe.Operation) { operations.Add(1) })
		c := manyConsole(t, counted, tracker)
		const writer = "Authorization: Bearer all"
		if w := post(c, "/verify", map[string][]string{"feed": {manyName(0)}}, writer); w.Code != http.StatusSeeOther {
			t.Fatalf("verify: status %d\n%s", w.Code, w.Body)
		}
		paths := manyPaths(tracker)
		for _, path := range c.Paths() {
			if len(paths[path]) == 0 {
				t.Errorf("%s is not in the list of pages with limits: add it", path)
			}
		}
		for _, round := range []string{"at first", "when all feeds have been polled"} {
			for _, path := range slices.Sorted(maps.Keys(paths)) {
				for _, v := range paths[path] {
					synctest.Wait()
					operations.Store(0)
					url := path + "?" + v.query
					w := get(c, url, writer)
					took := operations.Load()
					if w.Code != http.StatusOK {
						t.Errorf("%s: status %d\n%.1000s", url, w.Code, w.Body)
					}
					if w.Body.Len() > maxResponse {
						t.Errorf("%s, %s: %d bytes, more than %d", url, round, w.Body.Len(), maxResponse)
					}
					if took > v.operations {
						t.Errorf("%s, %s: %d operations on the store, more than %d", url, round, took, v.operations)
					}
					t.Logf("%-70.70s %s: %d operations, %d bytes", url, round, took, w.Body.Len())
				}
			}
			time.Sleep(manyFeeds / 50 * time.Second) // all feeds are polled
		}
	})
}
