package maintain_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/retention/maintain"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// killed returns a store of a process that is killed at a random operation, which may take effect. Each
// operation takes a random time.
func killed(store storage.Store) storage.Store {
	left, last := atomic.Int64{}, []fault.Outcome{fault.Lost, fault.Landed}[rand.IntN(2)]
	left.Store(rand.Int64N(400))
	return fault.Wrap(store, func(fault.Op) fault.Outcome {
		time.Sleep(rand.N(4 * time.Second))
		switch n := left.Add(-1); {
		case n > 0:
			return fault.Pass
		case n == 0:
			return last
		}
		return fault.Lost
	})
}

// TestTogether runs four processes that maintain the feed at the same time and are killed at random,
// while entities are being published: three times, or once with -short.
func TestTogether(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			store, h := memory.New(), &history{}
			made := map[string]bool{}
			h.publish(t, store)
			setPolicy(t, store, retention.Policy{KeepAge: time.Hour, SnapshotEvery: 3 * time.Hour, KeepSnapshots: 1})
			for range 25 {
				var runs sync.WaitGroup
				for range 4 {
					runs.Go(func() { _, _ = maintain.Feed(t.Context(), killed(store), testFeed, quick(t)) }) // most fail
				}
				time.Sleep(2 * time.Hour)
				h.publish(t, store)
				runs.Wait()
				h.check(t, store)
				for _, id := range snapshotsOf(t, store) {
					made[id] = true
				}
			}
			time.Sleep(2 * maintain.ReadingTime)
			report, err := maintain.Feed(t.Context(), store, testFeed, quick(t))
			h.check(t, store)
			if err != nil || report.Floor < 20 || report.Kept != len(snapshotsOf(t, store)) || report.Kept > 2 || len(made) < 3 {
				t.Errorf("in the end: %+v, %v; %d snapshots were made", report, err, len(made))
			}
			pages := 0
			for _, err := range store.List(t.Context(), "snapshots/"+testFeed+"/pages/", "") {
				if err != nil {
					t.Fatal(err)
				}
				pages++
			}
			if pages != report.Kept {
				t.Errorf("%d pages of %d snapshots are left", pages, report.Kept)
			}
		})
	}
}
