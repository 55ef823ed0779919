package maintain_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/faulttest"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/retention/maintain"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestDays carries out a policy every six hours for ten days, while a page is published every twelve hours.
func TestDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, h := memory.New(), &history{}
		h.publish(t, store)
		setPolicy(t, store, daily)
		made, deleted, pruned := 0, 0, int64(0)
		for quarter := range 40 {
			if quarter%2 == 1 {
				h.publish(t, store)
			}
			dry := config(t)
			dry.DryRun = true
			want, err := maintain.Feed(t.Context(), store, testFeed, dry)
			if err != nil {
				t.Fatal(err)
			}
			got, err := maintain.Feed(t.Context(), store, testFeed, config(t))
			if err != nil {
				t.Fatal(err)
			}
			if got.Snapshot != want.Snapshot || got.Floor != want.Floor || len(got.Deleted) != len(want.Deleted) || got.Kept != want.Kept {
				t.Errorf("report %+v, of the dry run: %+v", got, want)
			}
			if got.Snapshot {
				made++
			}
			deleted += len(got.Deleted)
			pruned += got.Pages
			h.check(t, store)
			time.Sleep(6 * time.Hour)
		}
		// A snapshot is made each day; two are kept, or more while one may be read. What is left is
		// two days of pages, the page with the position of a snapshot in use, and the page before
		// that.
		if left := len(snapshotsOf(t, store)); made != 10 || deleted != made-left || left != 2 {
			t.Errorf("%d snapshots were made and %d deleted, %d are left", made, deleted, left)
		}
		if left := 21 - pruned; left < 5 || left > 6 {
			t.Errorf("%d pages are left", left)
		}
	})
}

// TestQuiet: no further snapshot is made of a feed without new entities, and the last one is kept.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, h := memory.New(), &history{}
		h.publish(t, store)
		setPolicy(t, store, retention.Policy{KeepAge: time.Hour, SnapshotEvery: time.Minute, KeepSnapshots: 1})
		for n := range 3 {
			got, err := maintain.Feed(t.Context(), store, testFeed, config(t))
			if err != nil || got.Snapshot != (n == 0) || got.Kept != 1 || got.Pages > 0 {
				t.Errorf("run %d: %+v, %v", n, got, err)
			}
			h.check(t, store)
			time.Sleep(100 * time.Hour)
		}
	})
}

// TestStrangers: snapshots with the name of the feed that were not made from it are kept.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, h := memory.New(), &history{}
		h.publish(t, store)
		index, err := snapshots.Write(t.Context(), store, testFeed, func(func(*feed.Entity, error) bool) {}, snapshots.Config{})
		if err != nil {
			t.Fatal(err)
		}
		setPolicy(t, store, retention.Policy{KeepAge: time.Hour, SnapshotEvery: time.Minute, KeepSnapshots: 1})
		for range 4 {
			time.Sleep(48 * time.Hour)
			h.publish(t, store)
			if _, err := maintain.Feed(t.Context(), store, testFeed, config(t)); err != nil {
				t.Fatal(err)
			}
		}
		if ids := snapshotsOf(t, store); len(ids) != 3 || ids[2] != index.ID { // the one before the newest may be read
			t.Errorf("snapshots %v are left, want 3, the last of them %s", ids, index.ID)
		}
	})
}

// TestKeepsForSnapshot: old pages stay as long as readers of the only snapshot need them.
func TestKeepsForSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, h := memory.New(), &history{}
		setPolicy(t, store, retention.Policy{KeepAge: time.Hour, SnapshotEvery: 1000 * time.Hour, KeepSnapshots: 1})
		for n := range 7 {
			h.publish(t, store)
			time.Sleep(30 * time.Hour)
			if n < 3 {
				continue
			}
			got, err := maintain.Feed(t.Context(), store, testFeed, config(t))
			if err != nil || got.Floor != 3 || got.Snapshot != (n == 3) { // the snapshot was made at page 4
				t.Errorf("after %d pages: %+v, %v", n+1, got, err)
			}
			h.check(t, store)
		}
	})
}

// TestOtherHistory: the newest snapshot was made before the store was restored to an older state and
// published to. Nothing is pruned before there is a snapshot of the feed's new state.
func TestOtherHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := retention.Policy{KeepAge: time.Hour, SnapshotEvery: 1000 * time.Hour, KeepSnapshots: 1}
		before, lost := memory.New(), &history{}
		setPolicy(t, before, policy)
		for range 4 {
			lost.publish(t, before)
		}
		if _, err := maintain.Feed(t.Context(), before, testFeed, config(t)); err != nil {
			t.Fatal(err)
		}
		store, h := memory.New(), &history{first: 1000}
		setPolicy(t, store, policy)
		for entry, err := range before.List(t.Context(), layout.SnapshotsPrefix, "") {
			if err != nil {
				t.Fatal(err)
			}
			info, err := before.Stat(t.Context(), entry.Key)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Create(t.Context(), entry.Key, info.Meta, storage.Bytes(faulttest.ReadObject(t, before, entry.Key))); err != nil {
				t.Fatal(err)
			}
		}
		for n, made := range []bool{true, false, false} { // after 3, 4 and 6 pages
			for range []int{3, 1, 2}[n] {
				h.publish(t, store)
			}
			time.Sleep(30 * time.Hour)
			got, err := maintain.Feed(t.Context(), store, testFeed, config(t))
			if err != nil || got.Snapshot != made {
				t.Errorf("run %d: %+v, %v", n, got, err)
			}
			h.checkNewest(t, store, snapshotsOf(t, store)[0])
		}
	})
}

// TestReaderOfSnapshot begins to read the newest snapshot just before the next one is made, and ends a day
// later: the pages after the snapshot must still exist.
func TestReaderOfSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, h := memory.New(), &history{}
		setPolicy(t, store, retention.Policy{KeepAge: time.Hour, SnapshotEvery: 2 * time.Hour, KeepSnapshots: 1})
		run := func() {
			t.Helper()
			h.publish(t, store)
			if _, err := maintain.Feed(t.Context(), store, testFeed, config(t)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
		}
		for range 12 {
			run()
		}
		id := snapshotsOf(t, store)[0]
		for range 12 {
			run()
		}
		h.checkNewest(t, store, id)
		for range 2 {
			run()
		}
		if _, err := snapshots.Read(t.Context(), store, testFeed, id); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("a snapshot that was replaced more than a day ago: %v, want ErrNotFound", err)
		}
	})
}

// TestNothing: a feed without a policy, or without pages, causes an error.
func TestNothing(t *testing.T) {
	store := memory.New()
	if _, err := maintain.Feed(t.Context(), store, testFeed, config(t)); !errors.Is(err, retention.ErrNone) {
		t.Error(err)
	}
	setPolicy(t, store, daily)
	if _, err := maintain.Feed(t.Context(), store, testFeed, config(t)); !errors.Is(err, chain.ErrNoFeed) {
		t.Error(err)
	}
}

// TestFaults makes each operation fail in a run that makes a snapshot, prunes, and deletes a
// snapshot.
func TestFaults(t *testing.T) {
	h := &history{}
	faulttest.Run(t, []faulttest.Path{{
		Name: "maintain",
		Setup: func(t *testing.T, store storage.Store) {
			*h = history{}
			policy := retention.Policy{KeepAge: time.Hour, SnapshotEvery: time.Minute, KeepSnapshots: 1}
			setPolicy(t, store, policy)
			for range 3 {
				h.publish(t, store)
				if _, err := maintain.Feed(t.Context(), store, testFeed, quick(t)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(25 * time.Hour)
			}
			h.publish(t, store)
			time.Sleep(2 * time.Hour)
		},
		Do: func(ctx context.Context, store storage.Store) error {
			_, err := maintain.Feed(ctx, store, testFeed, quick(t))
			return err
		},
		Check: func(t *testing.T, store storage.Store, done bool) {
			h.check(t, store)
			floor, err := chain.NewReader(store, testFeed).Floor(t.Context())
			if left := len(snapshotsOf(t, store)); err != nil || done && (floor != 2 || left != 2) {
				t.Errorf("pages from %d on are left, and %d snapshots, %v", floor, left, err)
			}
		},
	}})
}
