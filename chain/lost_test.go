package chain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestLost deletes one object of a feed and finds the newest page with a new reader.
func TestLost(t *testing.T) {
	const closed = 20
	for lost := range int64(closed + 1) {
		lost++
		store := memory.New()
		fill(t, store, closed)
		if err := store.Delete(t.Context(), layout.FeedPage(name, lost)); err != nil {
			t.Fatal(err)
		}
		newest, err := chain.NewReader(store, name).Newest(t.Context())
		_, isLost := errors.AsType[*chain.LostError](err)
		switch {
		case err == nil && newest.Number == closed+1: // noticed on the way there
			if _, err := chain.NewReader(store, name).Stat(t.Context(), lost); !errors.Is(err, chain.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprint(lost)) {
				t.Errorf("page %d lost: %v", lost, err)
			}
		case err == nil && lost == closed+1 && newest.Number == closed: // undetectable
		case !isLost || !errors.Is(err, chain.ErrLostPages) || !errors.Is(err, chain.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("page %d is missing", lost)):
			t.Errorf("page %d lost: %+v, %v", lost, newest, err)
		}
	}
}

// TestLostFloor deletes the floor of a feed whose oldest pages were pruned.
func TestLostFloor(t *testing.T) {
	for _, floor := range []int64{2, 19} {
		store := memory.New()
		fill(t, store, 20)
		for n := range floor - 1 {
			if err := store.Delete(t.Context(), layout.FeedPage(name, n+1)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := chain.NewReader(store, name).Newest(t.Context()); !errors.Is(err, chain.ErrLostPages) || !strings.Contains(err.Error(), layout.FeedFloor(name)) {
			t.Errorf("floor %d lost: %v", floor, err)
		}
	}
}

// TestRolledBack replaces a page that is not the last with an older state of that page.
func TestRolledBack(t *testing.T) {
	store := memory.New()
	fill(t, store, 2) // page 3 has one entity
	key := layout.FeedPage(name, 3)
	info, err := store.Stat(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	older, err := store.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, older.Size)
	if _, err := older.Body.Read(body); err != nil {
		t.Fatal(err)
	}
	fill(t, store, 2)
	now, err := store.Stat(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Replace(t.Context(), key, now.Version, info.Meta, storage.Bytes(body)); err != nil {
		t.Fatal(err)
	}
	if p, err := chain.NewReader(store, name).Newest(t.Context()); !errors.Is(err, chain.ErrLostPages) || !strings.Contains(err.Error(), "page 3 is not the one that pages 4 to 5 followed") {
		t.Errorf("newest page %+v, %v", p, err)
	}
}

// TestGrowing extends the feed between any two requests of a reader, which then sees pages of
// different times and must not report a loss.
func TestGrowing(t *testing.T) {
	for pages := range 4 {
		for at := range 40 {
			store := memory.New()
			fill(t, store, pages)
			f, err := producer.Open(t.Context(), store, name, producer.Config{MaxPageEntities: 1})
			if err != nil {
				t.Fatal(err)
			}
			grow := func() {
				for range 2 {
					if _, err := f.Publish(t.Context(), entity()); err != nil {
						t.Error(err)
					}
				}
			}
			requests := make(chan struct{}, 1)
			requests <- struct{}{}
			n := 0
			r := chain.NewReader(fault.Wrap(store, func(fault.Op) fault.Outcome {
				<-requests
				if n++; n == at+1 || n == at+2 {
					grow()
				}
				requests <- struct{}{}
				return fault.Pass
			}), name)
			if _, err := r.Newest(t.Context()); err != nil {
				t.Fatalf("feed of %d pages grows at request %d: %v", pages, at+1, err)
			}
			_ = f.Close()
		}
	}
}
