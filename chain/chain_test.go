package chain_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

const name = "test"

// fill publishes the given number of closed pages with two entities each, and an open page with
// one entity.
func fill(t *testing.T, store storage.Store, closed int) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, name, producer.Config{MaxPageEntities: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 2*closed + 1 {
		if _, err := f.Publish(t.Context(), entity()); err != nil {
			t.Fatal(err)
		}
	}
}

func entity() *feed.Entity {
	return &feed.Entity{Operation: feed.Put, ContentType: "text/plain", Body: []byte("body")}
}

func TestReader(t *testing.T) {
	store := memory.New()
	r := chain.NewReader(store, name)
	if _, err := r.Newest(t.Context()); !errors.Is(err, chain.ErrNoFeed) {
		t.Fatalf("newest page of an empty store: %v", err)
	}
	fill(t, store, 5)
	if _, err := chain.RaiseFloor(t.Context(), store, name, 3); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int64]error{1: chain.ErrPruned, 2: chain.ErrPruned, 3: nil, 5: nil, 6: nil, 7: chain.ErrNoPage} {
		if _, err := r.Stat(t.Context(), n); !errors.Is(err, want) {
			t.Errorf("Stat(%d): %v", n, err)
		}
		_, object, err := r.Open(t.Context(), n, 0, -1)
		if !errors.Is(err, want) {
			t.Errorf("Open(%d): %v", n, err)
		}
		if err == nil {
			object.Body.Close()
		}
	}
}

// TestCold finds the newest page of feeds of all lengths, some of them followed by orphans with
// gaps between them.
func TestCold(t *testing.T) {
	for pages := range 40 {
		store := memory.New()
		fill(t, store, pages)
		end := int64(pages + 1)
		for _, k := range []int64{2, 3, chain.Ahead} {
			meta, err := (&chain.Page{Feed: name, Number: end + k, Boundary: "b", Entities: 1, Prev: "of nothing", Closed: true}).Meta()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Create(t.Context(), layout.FeedPage(name, end+k), meta, storage.Bytes([]byte("x"))); err != nil {
				t.Fatal(err)
			}
		}
		if p, err := chain.NewReader(store, name).Newest(t.Context()); err != nil || p.Number != end {
			t.Errorf("feed of %d pages: newest %+v, %v", end, p, err)
		}
	}
}

// TestRequests counts the requests and the round trips that finding the newest page takes; the requests
// of a round trip run concurrently. docs/s3.md gives the cost of the requests.
func TestRequests(t *testing.T) {
	for _, test := range []struct {
		pages, requests int
		trips           time.Duration
	}{{1, 12, 4}, {1000, 70, 8}} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			fill(t, store, test.pages)
			var requests atomic.Int64
			counted := fault.Wrap(store, func(fault.Op) fault.Outcome {
				requests.Add(1)
				time.Sleep(time.Second)
				return fault.Pass
			})
			r := chain.NewReader(counted, name)
			for _, limit := range []struct {
				requests int
				trips    time.Duration
			}{{test.requests, test.trips}, {2, 1}} { // the first time, and again
				requests.Store(0)
				start := time.Now()
				if p, err := r.Newest(t.Context()); err != nil || p.Number != int64(test.pages+1) {
					t.Fatalf("newest %+v, %v", p, err)
				}
				if n, trips := int(requests.Load()), time.Since(start)/time.Second; n > limit.requests || trips > limit.trips {
					t.Errorf("%d pages: %d requests in %d round trips, want %d in %d", test.pages, n, trips, limit.requests, limit.trips)
				}
			}
		})
	}
}

// TestRequestsNoFeed counts the requests that a producer of a new feed waits for.
func TestRequestsNoFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		counted := fault.Wrap(memory.New(), func(fault.Op) fault.Outcome {
			requests.Add(1)
			time.Sleep(time.Second)
			return fault.Pass
		})
		start := time.Now()
		if _, err := chain.NewReader(counted, name).Newest(t.Context()); !errors.Is(err, chain.ErrNoFeed) {
			t.Fatal(err)
		}
		if n, trips := requests.Load(), time.Since(start)/time.Second; n > 4 || trips > 2 {
			t.Errorf("%d requests in %d round trips, want 4 in 2", n, trips)
		}
	})
}

// TestStale finds the newest page with a reader that last saw a much older one.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		fill(t, store, 0)
		r := chain.NewReader(fault.Wrap(store, func(fault.Op) fault.Outcome {
			time.Sleep(time.Second)
			return fault.Pass
		}), name)
		for _, grown := range []struct {
			closed int
			newest int64
			trips  time.Duration
		}{{0, 1, 5}, {0, 1, 1}, {10, 11, 14}, {1000, 1012, 35}} {
			if grown.closed > 0 {
				fill(t, store, grown.closed)
			}
			start := time.Now()
			if p, err := r.Newest(t.Context()); err != nil || p.Number != grown.newest {
				t.Fatalf("newest %+v, %v, want %d", p, err, grown.newest)
			}
			if trips := time.Since(start) / time.Second; trips > grown.trips {
				t.Errorf("%d round trips to page %d, want %d", trips, grown.newest, grown.trips)
			}
		}
	})
}

// TestCorrupt changes a page's metadata in the store.
func TestCorrupt(t *testing.T) {
	for what, data := range map[string]string{
		"no JSON":       "x",
		"other format":  `{"format":99,"feed":"test","page":2,"boundary":"b","entities":1}`,
		"other feed":    `{"format":1,"feed":"other","page":2,"boundary":"b","entities":1}`,
		"other page":    `{"format":1,"feed":"test","page":3,"boundary":"b","entities":1}`,
		"no entities":   `{"format":1,"feed":"test","page":2,"boundary":"b","entities":0}`,
		"time backward": `{"format":1,"feed":"test","page":2,"boundary":"b","entities":1,"firstMs":2,"lastMs":1}`,
	} {
		store := memory.New()
		fill(t, store, 3)
		key := layout.FeedPage(name, 2)
		info, err := store.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Append(t.Context(), key, info.Version, storage.Meta{Data: []byte(data)}, storage.Bytes()); err != nil {
			t.Fatal(err)
		}
		if _, err := chain.NewReader(store, name).Newest(t.Context()); !errors.Is(err, chain.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	store := memory.New()
	fill(t, store, 30)
	r := chain.NewReader(store, name)
	if _, err := r.Newest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), layout.FeedPage(name, 9)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Stat(t.Context(), 9); !errors.Is(err, chain.ErrCorrupt) {
		t.Errorf("missing page: %v", err)
	}
}

// TestFloorOnlyRises raises the floor concurrently.
func TestFloorOnlyRises(t *testing.T) {
	store := memory.New()
	done := make(chan error)
	for n := range int64(50) {
		go func() {
			floor, err := chain.RaiseFloor(context.Background(), store, name, n+1)
			if err == nil && floor < n+1 {
				err = fmt.Errorf("floor %d after it was raised to %d", floor, n+1)
			}
			done <- err
		}()
	}
	for range 50 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if floor, err := chain.NewReader(store, name).Floor(t.Context()); err != nil || floor != 50 {
		t.Errorf("floor %d, %v", floor, err)
	}
}

// TestWhole reads pages as complete multipart documents.
func TestWhole(t *testing.T) {
	store := memory.New()
	fill(t, store, 1)
	r := chain.NewReader(store, name)
	for n := range int64(2) {
		p, object, err := r.Open(t.Context(), n+1, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(p.Whole(object.Body))
		if end := "--" + p.Boundary + "--\r\n"; err != nil || string(body[len(body)-len(end):]) != end || string(body[len(body)-len(end)-2:len(body)-len(end)]) != "\r\n" {
			t.Errorf("page %d ends in %q, %v", n+1, body[len(body)-40:], err)
		}
	}
}

func TestNames(t *testing.T) {
	store := memory.New()
	want := []string{"a", "a-b", "a.b", "a0", "b"}
	for _, feed := range want {
		for n := range int64(3) {
			for _, key := range []string{layout.FeedPage(feed, n+1), layout.SnapshotPage(feed, "id", int(n))} {
				if _, err := store.Create(t.Context(), key, storage.Meta{}, storage.Bytes()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var feeds []string
	for got, err := range chain.Feeds(t.Context(), store, "") {
		if err != nil {
			t.Fatal(err)
		}
		feeds = append(feeds, got)
	}
	slices.Sort(feeds)
	if !slices.Equal(feeds, want) {
		t.Errorf("feeds %v", feeds)
	}
}

// TestSkip tells a reader that knows an early page about a later one.
func TestSkip(t *testing.T) {
	base := memory.New()
	fill(t, base, 2)
	var stats atomic.Int64
	store := fault.Wrap(base, func(op fault.Op) fault.Outcome {
		stats.Add(1)
		return fault.Pass
	})
	newReader := func() *chain.Reader {
		r := chain.NewReader(store, name)
		if _, err := r.Newest(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r
	}
	early := []*chain.Reader{newReader(), newReader(), newReader(), newReader()}
	fill(t, base, 50)
	newest, err := newReader().Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	digest := newest.Prev // of the last closed page
	for i, test := range []struct {
		page   int64
		digest string
		most   int64 // operations
	}{
		{newest.Number - 1, digest, 6}, {newest.Number - 1, newest.SHA256, 100}, {newest.Number, digest, 100}, {newest.Number + 7, digest, 100},
	} {
		stats.Store(0)
		early[i].Skip(t.Context(), test.page, test.digest)
		if p, err := early[i].Newest(t.Context()); err != nil || p.Number != newest.Number || stats.Load() > test.most {
			t.Errorf("skip to page %d with digest %.8s: newest page %v after %d operations, %v", test.page, test.digest, p, stats.Load(), err)
		}
	}
}
