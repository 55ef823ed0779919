package producer_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// tenPages creates a feed with a page for each hour: page 1 is ten hours old, page 10 is one hour
// old, and page 11 is new and open.
func tenPages(t *testing.T) storage.Store {
	store := memory.New()
	for n := range 10 {
		mustPublish(t, store, ids(3*n+1, 3*n+3))
		time.Sleep(time.Hour)
	}
	mustPublish(t, store, ids(31, 31))
	return store
}

func TestPrune(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where the fake clock starts
	for _, test := range []struct {
		name    string
		policy  producer.PrunePolicy
		floor   int64
		limited bool
	}{
		{"age", producer.PrunePolicy{KeepAge: 4*time.Hour + time.Minute}, 7, false},
		{"age that all pages exceed", producer.PrunePolicy{KeepAge: time.Minute}, 11, false},
		{"age that no page reaches", producer.PrunePolicy{KeepAge: 24 * time.Hour}, 1, false},
		{"count", producer.PrunePolicy{KeepPages: 3}, 9, false},
		{"count of more pages than exist", producer.PrunePolicy{KeepPages: 20}, 1, false},
		{"before a page", producer.PrunePolicy{Before: 6}, 6, false},
		{"before a future page", producer.PrunePolicy{Before: 99}, 11, false},
		{"entry at a page's time", producer.PrunePolicy{Entry: start.Add(5 * time.Hour)}, 5, false},
		{"entry a second after a page's time", producer.PrunePolicy{Entry: start.Add(5*time.Hour + time.Second)}, 6, false},
		{"entry in a page's second", producer.PrunePolicy{Entry: start.Add(5*time.Hour + 999*time.Millisecond)}, 5, false},
		{"entry before the feed", producer.PrunePolicy{Entry: start}, 1, false},
		{"future entry", producer.PrunePolicy{Entry: start.Add(99 * time.Hour)}, 11, false},
		{"before and entry", producer.PrunePolicy{Before: 7, Entry: start.Add(6 * time.Hour)}, 6, false},
		{"age and count", producer.PrunePolicy{KeepAge: 2*time.Hour + time.Minute, KeepPages: 6}, 6, false},
		{"count and before", producer.PrunePolicy{KeepPages: 2, Before: 4}, 4, false},
		{"younger than MinAge", producer.PrunePolicy{KeepPages: 1, MinAge: 3*time.Hour + time.Minute}, 8, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := tenPages(t)
				dry := test.policy
				dry.DryRun = true
				want, err := producer.Prune(t.Context(), store, testFeed, dry)
				if err != nil {
					t.Fatal(err)
				}
				if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 31)) {
					t.Fatalf("after a dry run the feed has %v", got)
				}
				got, err := producer.Prune(t.Context(), store, testFeed, test.policy)
				if err != nil {
					t.Fatal(err)
				}
				if got != want || got.Floor != test.floor || got.Limited != test.limited || got.Newest != 11 || got.Pages != test.floor-1 {
					t.Errorf("report %+v, of the dry run: %+v, want floor %d", got, want, test.floor)
				}
				if got, want := visibleIDs(t, store), ids(int(3*test.floor)-2, 31); !slices.Equal(got, want) {
					t.Errorf("the feed has %v", got)
				}
				reader := chain.NewReader(store, testFeed)
				if _, err := reader.Stat(t.Context(), test.floor-1); test.floor > 1 && !errors.Is(err, chain.ErrPruned) {
					t.Errorf("page before the floor: %v", err)
				}
				mustPublish(t, store, ids(32, 40))
				if got := visibleIDs(t, store); !slices.Equal(got, ids(int(3*test.floor)-2, 40)) {
					t.Errorf("the feed has %v", got)
				}
			})
		})
	}
}

// TestPruneLeftovers: an earlier call was killed between raising the floor and deleting the pages,
// and a suspended producer then created one of the pages again.
func TestPruneLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := tenPages(t)
		if _, err := chain.RaiseFloor(t.Context(), store, testFeed, 8); err != nil {
			t.Fatal(err)
		}
		if err := store.Delete(t.Context(), layout.FeedPage(testFeed, 1)); err != nil {
			t.Fatal(err)
		}
		got, err := producer.Prune(t.Context(), store, testFeed, producer.PrunePolicy{KeepPages: 4})
		if err != nil || got.Floor != 8 || got.Pages != 6 {
			t.Errorf("%+v, %v", got, err)
		}
		for entry, err := range store.List(t.Context(), layout.FeedPages(testFeed), "") {
			if err != nil || entry.Key < layout.FeedPage(testFeed, 8) {
				t.Errorf("%s is left, %v", entry.Key, err)
			}
		}
	})
}

// TestPruneUnknownKeys: unknown keys among the pages are left alone, and do not prevent pruning.
func TestPruneUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := tenPages(t)
		strangers := []string{"-1", "000000000000", "000000000001.bak", "0000000000021", "readme"}
		for _, name := range strangers {
			if _, err := store.Create(t.Context(), layout.FeedPages(testFeed)+name, storage.Meta{}, storage.Bytes([]byte("not a page"))); err != nil {
				t.Fatal(err)
			}
		}
		for _, dry := range []bool{true, false} {
			got, err := producer.Prune(t.Context(), store, testFeed, producer.PrunePolicy{KeepPages: 4, DryRun: dry})
			if err != nil || got.Floor != 8 || got.Pages != 7 {
				t.Errorf("dry run %t: %+v, %v", dry, got, err)
			}
		}
		var left []string
		for entry, err := range store.List(t.Context(), layout.FeedPages(testFeed), "") {
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, entry.Key)
		}
		want := []string{layout.FeedPage(testFeed, 8), layout.FeedPage(testFeed, 9), layout.FeedPage(testFeed, 10), layout.FeedPage(testFeed, 11)}
		for _, name := range strangers {
			want = append(want, layout.FeedPages(testFeed)+name)
		}
		slices.Sort(want)
		if !slices.Equal(left, want) {
			t.Errorf("left are %q, want %q", left, want)
		}
	})
}

func TestPruneRefuses(t *testing.T) {
	store := memory.New()
	mustPublish(t, store, ids(1, 1))
	for name, policy := range map[string]producer.PrunePolicy{
		"no rule":       {},
		"negative rule": {KeepPages: 1, KeepAge: -1},
		"too young":     {KeepPages: 1, MinAge: time.Minute},
	} {
		if _, err := producer.Prune(t.Context(), store, testFeed, policy); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := producer.Prune(t.Context(), store, "none", producer.PrunePolicy{KeepPages: 1}); !errors.Is(err, chain.ErrNoFeed) {
		t.Errorf("no feed: %v", err)
	}
	if got, err := producer.Prune(t.Context(), store, testFeed, producer.PrunePolicy{KeepPages: 1}); err != nil || got.Floor != 1 || got.Pages != 0 {
		t.Errorf("feed of one page: %+v, %v", got, err)
	}
}
