package watch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/jobs/watch"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/observe"
	"github.com/feedctl/feedctl/storage/stores"
)

type openStore = func(context.Context, string, string) (storage.Store, error)

func s3Source(open openStore) watch.Source    { return watch.S3{Open: open} }
func filesSource(open openStore) watch.Source { return watch.Files{Open: open} }

// publish publishes an entity. A page has room for two entities.
func publish(t *testing.T, store storage.Store, name string) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, name, producer.Config{MaxPageEntities: 2})
	if err == nil {
		_, err = f.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentType: "text/plain", ContentLocation: "x", Body: []byte("y")})
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A storeWorld is a store with feeds that counts requests, and a job for each feed, in fake time.
type storeWorld struct {
	storage.Store
	jobs   *waiting
	source func(open openStore) watch.Source

	mu     sync.Mutex
	counts map[string]int
	broken map[string]bool // feeds that cannot be read; "" stands for all
}

func (w *storeWorld) Stat(ctx context.Context, key string) (storage.Info, error) {
	w.mu.Lock()
	broken := w.broken[""] || w.broken[strings.Split(key, "/")[1]]
	w.mu.Unlock()
	if broken {
		return storage.Info{}, storage.ErrUnavailable
	}
	return w.Store.Stat(ctx, key)
}

func (w *storeWorld) Close() error { return nil }

// Unwrap makes the store's notifications available to the watcher.
func (w *storeWorld) Unwrap() storage.Store { return w.Store }

func (w *storeWorld) watch(t *testing.T) (stop func()) {
	open := func(context.Context, string, string) (storage.Store, error) { return w, nil }
	return w.jobs.watching(t, w.source(open), "store:")
}

// requests returns the number of requests of each kind since the last call.
func (w *storeWorld) requests() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := w.counts
	w.counts = map[string]int{}
	return counts
}

func (w *storeWorld) breakFeeds(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = map[string]bool{}
	for _, name := range names {
		w.broken[name] = true
	}
}

func inStoreWorld(t *testing.T, feeds int, test func(t *testing.T, w *storeWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &storeWorld{source: s3Source, counts: map[string]int{}}
		w.Store = observe.Wrap(memory.New(), func(_ context.Context, o observe.Operation) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.counts[o.Name]++
		})
		names := numbered("f", feeds)
		for n, name := range names {
			for range 1 + n%3 { // some of the newest pages are open, others closed
				publish(t, w, name)
			}
		}
		w.jobs = waitFor(names...)
		test(t, w)
	})
}

// TestS3AtRest counts the requests for watching a thousand feeds in which nothing happens.
func TestS3AtRest(t *testing.T) {
	feeds, less := many()
	inStoreWorld(t, feeds, func(t *testing.T, w *storeWorld) {
		stop := w.watch(t)
		time.Sleep(20 * time.Minute)
		if n := len(strings.Fields(w.jobs.take())); n != feeds {
			t.Errorf("%d jobs were woken by the first comparison", n)
		}
		w.requests()
		w.jobs.confirmed()
		time.Sleep(time.Hour)
		got := w.requests() // 1 for each feed whose newest page is open, 3 for each of the others, a third of all
		t.Logf("%d feeds at rest, in an hour: %v", feeds, got)
		if n := got["stat"] * less; len(got) != 1 || n < 19_500 || n > 24_000 {
			t.Errorf("requests: %v", got)
		}
		if woken := w.jobs.take(); woken != "" {
			t.Errorf("woken at rest: %.100s", woken)
		}
		if n := w.jobs.confirmed(); n < 11 {
			t.Errorf("%d confirmations", n)
		}
		stop()
	})
}

// TestS3Bound: the number of requests a second is limited, whatever happens in the store.
func TestS3Bound(t *testing.T) {
	inStoreWorld(t, 500, func(t *testing.T, w *storeWorld) {
		stop := w.watch(t)
		for range 60 {
			w.requests()
			time.Sleep(10 * time.Second)
			if got := w.requests(); len(got) > 1 || got["stat"] > 1001 {
				t.Errorf("requests in 10 s: %v", got)
			}
		}
		stop()
	})
}

// TestS3Wakes: a change, a new feed and a deletion wake a job within 5 min, and a further change wakes it
// within 5 s.
func TestS3Wakes(t *testing.T) {
	inStoreWorld(t, 6, func(t *testing.T, w *storeWorld) {
		w.jobs.states["new"] = ""
		stop := w.watch(t)
		time.Sleep(time.Hour)
		w.jobs.take()
		for n := range 6 {
			name := fmt.Sprintf("f%03d", n)
			for i := range 8 {
				publish(t, w, name)
				within := 6
				if i == 0 {
					within = 301
				}
				got, waited := "", 0
				for ; got == "" && waited < within; waited++ {
					time.Sleep(time.Second)
					got = w.jobs.take()
				}
				if got != name {
					t.Errorf("change %d of %s: woken in %d s: %q", i, name, waited, got)
				}
			}
		}
		publish(t, w, "new")
		time.Sleep(5 * time.Minute)
		if got := w.jobs.take(); got != "new" {
			t.Errorf("new feed: woken: %q", got)
		}
		if _, err := chain.Delete(t.Context(), w, "new"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if got := w.jobs.take(); got != "new" {
			t.Errorf("deleted feed: woken: %q", got)
		}
		stop()
	})
}

// TestS3Faults: no change is lost if a store fails for a while, for all feeds or for one.
func TestS3Faults(t *testing.T) {
	for _, broken := range []string{"", "f001"} {
		inStoreWorld(t, 6, func(t *testing.T, w *storeWorld) {
			stop := w.watch(t)
			time.Sleep(time.Hour)
			w.jobs.take()
			publish(t, w, "f001")
			publish(t, w, "f002")
			w.breakFeeds(broken)
			time.Sleep(20 * time.Minute)
			got := strings.Fields(w.jobs.take())
			if broken == "" && len(got) > 0 || broken != "" && !slices.Equal(got, []string{"f001", "f002"}) {
				t.Errorf("%q is broken: woken: %q", broken, got)
			}
			w.breakFeeds()
			time.Sleep(6 * time.Minute)
			if got := w.jobs.take(); !strings.Contains(got, "f001") || broken == "" && got != "f001 f002" {
				t.Errorf("%q was broken: woken: %q", broken, got)
			}
			stop()
		})
	}
}

// TestS3Orphan: pages that a producer left behind, beyond the newest one, do not hide changes of the newest
// page.
func TestS3Orphan(t *testing.T) {
	inStoreWorld(t, 2, func(t *testing.T, w *storeWorld) {
		for _, name := range []string{"f000", "f001"} { // open, closed
			if _, err := w.Create(t.Context(), layout.FeedPage(name, 3), storage.Meta{}, storage.Bytes(nil)); err != nil {
				t.Fatal(err)
			}
		}
		w.jobs = waitFor("f000")
		stop := w.watch(t)
		time.Sleep(time.Hour)
		w.jobs.take()
		publish(t, w, "f000")
		time.Sleep(5 * time.Minute)
		if got := w.jobs.take(); got != "f000" {
			t.Errorf("woken: %q", got)
		}
		stop()
	})
}

// TestS3Server watches a real server, which is restarted, starting from the states of an earlier watch.
func TestS3Server(t *testing.T) {
	server := s3test.StartOwn(t)
	open := func(ctx context.Context, server, _ string) (storage.Store, error) {
		return stores.Open(ctx, server, stores.Options{})
	}
	store, err := open(t.Context(), server.URL("a"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, name := range []string{"a", "b", "c"} {
		publish(t, store, name)
	}
	jobs := waitFor("a", "b", "c")
	start := func() func() { return jobs.watching(t, watch.S3{Open: open}, server.URL("a")) }
	stop := start()
	for _, name := range []string{"a", "b", "c"} {
		jobs.wakes(t, name)
	}
	stop()
	for _, name := range []string{"b", "a"} {
		publish(t, store, name)
		server.Stop()
		stop = start()
		server.Start()
		jobs.wakes(t, name)
		stop()
		if got := jobs.take(); got != "" {
			t.Errorf("also woken: %q", got)
		}
	}
}
