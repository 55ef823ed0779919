package chain_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/selfcheck"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/verify"
)

func identity(t *testing.T, store storage.Store) feed.Identity {
	t.Helper()
	i, err := chain.ReadIdentity(t.Context(), store, name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestIdentify: all callers that identify a feed at the same time get the same identity.
func TestIdentify(t *testing.T) {
	store := memory.New()
	if i := identity(t, store); i != (feed.Identity{}) {
		t.Fatalf("identity of a feed that does not exist: %+v", i)
	}
	var all sync.WaitGroup
	got := make([]feed.Identity, 8)
	for n := range got {
		all.Go(func() {
			var err error
			if got[n], err = chain.Identify(t.Context(), store, name); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, i := range got {
		if i != got[0] || !feed.ValidID(i.ID) || i != identity(t, store) {
			t.Errorf("got %+v, want %+v", i, got[0])
		}
	}
	if _, err := chain.NewReader(store, name).Newest(t.Context()); !errors.Is(err, chain.ErrNoFeed) {
		t.Errorf("newest page of a feed that only has an identity: %v", err)
	}
}

// TestBeginEpoch: an epoch has the next number and an ID of its own, says where the feed ended, and
// survives pruning. Deleting the feed gives it another identity.
func TestBeginEpoch(t *testing.T) {
	store := memory.New()
	if _, err := chain.BeginEpoch(t.Context(), store, name); !errors.Is(err, chain.ErrNoFeed) {
		t.Fatalf("epoch of a feed that does not exist: %v", err)
	}
	fill(t, store, 3)
	newest, err := chain.NewReader(store, name).Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := identity(t, store)
	var before feed.Identity
	for number := range int64(2) {
		i, err := chain.BeginEpoch(t.Context(), store, name)
		want := feed.Identity{ID: i.ID, Epoch: feed.Epoch{Number: number + 1, ID: i.Epoch.ID, Last: feed.Truncate(newest.Last)}}
		if err != nil || i != want || i != identity(t, store) || !feed.ValidID(i.Epoch.ID) || i.Epoch.ID == before.Epoch.ID {
			t.Errorf("got %+v, %v, want %+v", i, err, want)
		}
		if i.ID != first.ID {
			t.Errorf("ID %s of the feed became %s", first.ID, i.ID)
		}
		before = i
	}
	if _, err := chain.RaiseFloor(t.Context(), store, name, 2); err != nil {
		t.Fatal(err)
	}
	if i := identity(t, store); i != before {
		t.Errorf("after pruning: %+v, want %+v", i, before)
	}
	if p, err := chain.NewReader(store, name).Newest(t.Context()); err != nil || p.Number != newest.Number || !p.Closed || p.Entities != newest.Entities {
		t.Errorf("newest page is %+v, %v: it must be closed", p, err)
	}
	fill(t, store, 1)
	if report, err := verify.Store(t.Context(), store, name, ""); err != nil || len(report.Violations) > 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	if _, err := chain.Delete(t.Context(), store, name); err != nil {
		t.Fatal(err)
	}
	next := identity(t, store)
	if next.ID == before.ID || !feed.ValidID(next.ID) || next.Epoch != (feed.Epoch{}) {
		t.Errorf("identity after the deletion: %+v", next)
	}
	i, err := chain.BeginEpoch(t.Context(), store, name)
	if err != nil || i.ID == next.ID || i.Epoch != (feed.Epoch{}) {
		t.Errorf("epoch of a feed without pages: %+v, %v: it needs another ID", i, err)
	}
}

// TestDamagedIdentity: an identity that is not complete is not used.
func TestDamagedIdentity(t *testing.T) {
	for _, members := range []string{
		`"identity":"00"`,
		`"epoch":{"number":1,"id":"000102030405060708090a0b0c0d0e0f","page":1,"lastMs":1}`,
		`"identity":"000102030405060708090a0b0c0d0e0f","epoch":{"number":1,"id":"","page":1,"lastMs":1}`,
		`"identity":"000102030405060708090a0b0c0d0e0f","epoch":{"number":0,"id":"000102030405060708090a0b0c0d0e0f","page":1,"lastMs":1}`,
	} {
		store := memory.New()
		data := selfcheck.Add(fmt.Appendf(nil, `{"format":1,"feed":%q,"floor":1,%s}`, name, members))
		if _, err := store.Create(t.Context(), layout.FeedFloor(name), storage.Meta{Data: data}, storage.Bytes()); err != nil {
			t.Fatal(err)
		}
		if _, err := chain.ReadIdentity(t.Context(), store, name); !errors.Is(err, chain.ErrCorrupt) {
			t.Errorf("%s: %v", members, err)
		}
	}
}
