package chain_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// add publishes entities, in pages of two.
func add(t *testing.T, store storage.Store, n int) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, name, producer.Config{MaxPageEntities: 2, SpoolDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range n {
		e := &feed.Entity{Operation: feed.Put, ContentType: "text/plain", Body: []byte("body")}
		if _, err := f.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// restore replaces the contents of a store with those of another.
func restore(t *testing.T, store, from storage.Store) {
	t.Helper()
	for entry, err := range store.List(t.Context(), "", "") {
		if err == nil {
			err = store.Delete(t.Context(), entry.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for entry, err := range from.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		object, err := from.Get(t.Context(), entry.Key, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(object.Body)
		if err == nil {
			_, err = store.Create(t.Context(), entry.Key, object.Meta, storage.Bytes(body))
		}
		if err := errors.Join(err, object.Body.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoreGoesBack restores a store to each of its earlier states and publishes more. A reader that
// saw the later state finds the newest page, and reports that the store went back if what it saw is gone.
func TestStoreGoesBack(t *testing.T) {
	for _, pruned := range []bool{false, true} {
		for _, kept := range []int{0, 1, 2, 3, 4} {
			for _, lost := range []int{0, 1, 2, 3, 6} {
				for _, added := range []int{0, 1, 2, 3, 4, 9} {
					name := fmt.Sprintf("kept %d, lost %d, added %d, pruned %t", kept, lost, added, pruned)
					store, copied := memory.New(), memory.New()
					add(t, store, kept)
					restore(t, copied, store)
					add(t, store, lost)
					r := chain.NewReader(store, "test")
					before, err := r.Newest(t.Context())
					if err != nil && kept+lost > 0 {
						t.Fatal(err)
					}
					if pruned && before != nil {
						if _, err := chain.RaiseFloor(t.Context(), store, "test", before.Number); err != nil {
							t.Fatal(err)
						}
						if _, err := r.Floor(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					restore(t, store, copied)
					add(t, store, added)
					for range 2 {
						sameNewest(t, name, store, r)
					}
					// The new entities may look like a continuation of the lost ones: their
					// metadata, which is all that a reader remembers, is the same.
					want := 0
					if now, err := chain.NewReader(store, "test").Stat(t.Context(), max(number(before), 1)); before != nil && (err != nil ||
						now.Boundary != before.Boundary || now.Entities < before.Entities || now.Entities == before.Entities && now.SHA256 != before.SHA256) {
						want = 1
					}
					if pruned && number(before) > 1 {
						want = 1 // the floor is lower than it was
					}
					if got := r.Timeline(); got != want {
						t.Errorf("%s: the store went back %d times, want %d", name, got, want)
					}
				}
			}
		}
	}
}

func number(p *chain.Page) int64 {
	if p == nil {
		return 0
	}
	return p.Number
}

// sameNewest compares the newest page of a reader with that of a new reader.
func sameNewest(t *testing.T, name string, store storage.Store, r *chain.Reader) {
	t.Helper()
	want, wantErr := chain.NewReader(store, "test").Newest(t.Context())
	got, err := r.Newest(t.Context())
	if !errors.Is(err, wantErr) && !errors.Is(err, chain.ErrNoFeed) {
		t.Fatalf("%s: error %v, want %v", name, err, wantErr)
	}
	if number(got) != number(want) || got != nil && got.SHA256 != want.SHA256 {
		t.Errorf("%s: newest page %+v, want %+v", name, got, want)
	}
}

// TestFormerPage requests a page that existed before the store went back.
func TestFormerPage(t *testing.T) {
	store, copied := memory.New(), memory.New()
	add(t, store, 3)
	restore(t, copied, store)
	add(t, store, 10)
	r := chain.NewReader(store, name)
	if _, err := r.Newest(t.Context()); err != nil {
		t.Fatal(err)
	}
	restore(t, store, copied)
	if _, err := r.Stat(t.Context(), 5); !errors.Is(err, chain.ErrNoPage) {
		t.Errorf("former page: %v", err)
	}
	if r.Timeline() != 1 {
		t.Errorf("the store went back %d times, want 1", r.Timeline())
	}
}
