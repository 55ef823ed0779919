package snapshots_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A distant store takes a second for each Create, and counts all operations.
type distant struct {
	storage.Store
	creates, others atomic.Int64
}

func (d *distant) Remote() bool { return true }

func (d *distant) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	d.creates.Add(1)
	time.Sleep(time.Second)
	return d.Store.Create(ctx, key, meta, body)
}

func (d *distant) Stat(ctx context.Context, key string) (storage.Info, error) {
	d.others.Add(1)
	return d.Store.Stat(ctx, key)
}

func (d *distant) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	d.others.Add(1)
	return d.Store.Get(ctx, key, offset, length)
}

// TestRoundTrips counts the round trips and the time of writing a snapshot to a distant store.
func TestRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &distant{Store: memory.New()}
		const pages = 256
		start := time.Now()
		if _, err := snapshots.Write(t.Context(), store, testName, snapshotEntities(pages), snapshots.Config{MaxPageBytes: 1}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > (pages/16+1)*time.Second {
			t.Errorf("took %v", took)
		}
		if c, o := store.creates.Load(), store.others.Load(); c != pages+1 || o != 0 {
			t.Errorf("%d calls of Create and %d others", c, o)
		}
	})
}

// TestConcurrency counts the pages that are written, and held in memory, at the same time. If the
// store is not remote, there are fewer.
func TestConcurrency(t *testing.T) {
	for name, c := range map[string]struct {
		store func(*distant) storage.Store
		want  int64
	}{
		"remote": {func(d *distant) storage.Store { return d }, 24},
		"local":  {func(d *distant) storage.Store { return struct{ storage.Store }{d} }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &distant{Store: memory.New()}
				done := make(chan error, 1)
				go func() {
					_, err := snapshots.Write(t.Context(), c.store(store), testName, snapshotEntities(100), snapshots.Config{MaxPageBytes: 1})
					done <- err
				}()
				synctest.Wait()
				if got := store.creates.Load(); got != c.want {
					t.Errorf("%d pages are being written, want %d", got, c.want)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCollectSkipsUnknownKeys: Collect neither removes nor counts an unknown object among the pages
// of snapshots.
func TestCollectSkipsUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		readme := layout.SnapshotsPrefix + testName + "/pages/readme"
		for _, key := range []string{readme, layout.SnapshotPage(testName, "interrupted", 0)} {
			if _, err := store.Create(t.Context(), key, storage.Meta{}, storage.Bytes([]byte("x"))); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		for _, want := range []int{1, 0} {
			if n, err := snapshots.Collect(t.Context(), store, testName, time.Hour); err != nil || n != want {
				t.Errorf("collected %d pages, %v; want %d", n, err, want)
			}
		}
		if _, err := store.Stat(t.Context(), readme); err != nil {
			t.Error(err)
		}
	})
}

// TestFeedPage: FeedPage returns the position in a feed, or an error if the snapshot has none.
func TestFeedPage(t *testing.T) {
	store, at := memory.New(), time.Date(2024, 2, 29, 12, 0, 0, 7e8, time.UTC)
	position := &snapshot.FeedPosition{URL: layout.FeedPath("f"), Page: layout.FeedPagePath("f", 7), LastModified: at}
	for name, p := range map[string]*snapshot.FeedPosition{"with": position, "without": nil} {
		if _, err := snapshots.Write(t.Context(), store, name, snapshotEntities(1), snapshots.Config{Feed: p}); err != nil {
			t.Fatal(err)
		}
	}
	id, err := snapshots.Newest(t.Context(), store, "with")
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{"with", "with/" + id} {
		if n, created, err := snapshots.FeedPage(t.Context(), store, "f", spec); err != nil || n != 7 || !created.Equal(feed.Truncate(at)) {
			t.Errorf("%s: page %d, created %v, %v", spec, n, created, err)
		}
	}
	if _, _, err := snapshots.FeedPage(t.Context(), store, "f", "without"); err == nil {
		t.Error("a snapshot without a position has a page")
	}
	if _, _, err := snapshots.FeedPage(t.Context(), store, "g", "with"); err == nil {
		t.Error("a snapshot of feed f has a page of feed g")
	}
	for _, spec := range []string{"none", "with/none"} {
		if _, _, err := snapshots.FeedPage(t.Context(), store, "f", spec); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

// TestNames lists the names of snapshots, not those of feeds.
func TestNames(t *testing.T) {
	store := memory.New()
	for _, key := range []string{layout.SnapshotPage("a", "id", 0), layout.SnapshotIndex("a", "id"), layout.SnapshotPage("b", "id", 0), layout.FeedPage("c", 1)} {
		if _, err := store.Create(t.Context(), key, storage.Meta{}, storage.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for name, err := range snapshots.Names(t.Context(), store, "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("names are %q", names)
	}
}
