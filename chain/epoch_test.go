package chain_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/faulttest"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/verify"
)

// contents returns the Content-IDs of the feed, and an error if verify finds violations in it.
func contents(ctx context.Context, store storage.Store) (ids []string, err error) {
	report, err := verify.Store(ctx, store, name, "")
	if err != nil {
		return nil, err
	}
	if len(report.Violations) > 0 {
		return nil, fmt.Errorf("verify: %+v", report.Violations)
	}
	r := chain.NewReader(store, name)
	newest, err := r.Newest(ctx)
	if err != nil {
		return nil, err
	}
	floor, err := r.Floor(ctx)
	for n := floor; n <= newest.Number && err == nil; n++ {
		for h, failed := range r.Headers(ctx, n) {
			if err = errors.Join(err, failed); failed == nil {
				ids = append(ids, string(h.Get("Content-ID")))
			}
		}
	}
	return ids, err
}

// TestEpochFaults makes each operation of BeginEpoch fail, and then repeats BeginEpoch: at each
// moment the feed is whole, and at the end the epoch begins with a page.
func TestEpochFaults(t *testing.T) {
	faulttest.Run(t, []faulttest.Path{{
		Name:  "begin an epoch",
		Setup: func(t *testing.T, store storage.Store) { fill(t, store, 2) },
		Do: func(ctx context.Context, store storage.Store) error {
			_, err := chain.BeginEpoch(ctx, store, name)
			return err
		},
		Check: func(t *testing.T, store storage.Store, done bool) {
			ids, err := contents(t.Context(), store)
			if err != nil || len(ids) != 5 {
				t.Errorf("the feed has %v, %v", ids, err)
			}
			newest, err := chain.NewReader(store, name).Newest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if i := identity(t, store); done && (i.Epoch.Number == 0 || !newest.Closed || !i.Epoch.Last.Equal(feed.Truncate(newest.Last))) {
				t.Errorf("identity %+v, newest page %+v", i, newest)
			}
		},
	}})
}

// TestEpochWhilePublishing begins epochs while several producers publish: everything that was
// acknowledged is in the feed, which has one identity.
func TestEpochWhilePublishing(t *testing.T) {
	store := memory.New()
	var publishers, others sync.WaitGroup
	var mu sync.Mutex
	want := map[string]bool{}
	for p := range 3 {
		publishers.Go(func() {
			f, err := producer.Open(t.Context(), store, name, producer.Config{MaxPageEntities: 3})
			if err != nil {
				t.Error(err)
				return
			}
			for n := range 40 {
				e := entity()
				e.ContentID = fmt.Sprintf("<%d-%d@test>", p, n)
				if _, err := f.Publish(t.Context(), e); err != nil {
					t.Error(err)
				}
				mu.Lock()
				want[e.ContentID] = true
				mu.Unlock()
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	seen := map[string]bool{}
	others.Go(func() {
		for {
			i, err := chain.BeginEpoch(t.Context(), store, name)
			if err == nil && i.Epoch.Number > 0 {
				seen[i.ID] = true
			} else if err != nil && !errors.Is(err, chain.ErrNoFeed) {
				t.Error(err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	publishers.Wait()
	close(done)
	others.Wait()
	ids, err := contents(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		delete(want, id)
	}
	if len(ids) != 120 || len(want) > 0 {
		t.Errorf("the feed has %d entities, and lacks %v", len(ids), want)
	}
	if len(seen) != 1 || !seen[identity(t, store).ID] {
		t.Errorf("identities %v, now %+v", seen, identity(t, store))
	}
}
