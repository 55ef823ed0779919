package chain_test

import (
	"errors"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestErasures: an erasure that was overtaken can neither be committed nor remove the fence of the
// other erasure.
func TestErasures(t *testing.T) {
	ctx, store := t.Context(), memory.New()
	fill(t, store, 0)
	begin := func() *chain.Erasure {
		e, err := chain.BeginErasure(ctx, store, name)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := begin()
	if _, err := first.Fence(ctx); err != nil {
		t.Fatal(err)
	}
	second := begin()
	newest, err := second.Fence(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Release(ctx); err != nil {
		t.Error(err)
	}
	if _, err := first.Commit(ctx, newest); !errors.Is(err, chain.ErrFenceLost) {
		t.Errorf("commit of the first erasure: %v", err)
	}
	if _, err := first.Fence(ctx); !errors.Is(err, chain.ErrOvertaken) {
		t.Errorf("fence of the first erasure: %v", err)
	}
	reader := chain.NewReader(store, name)
	if _, err := reader.WritableFloor(ctx); !errors.Is(err, chain.ErrErasing) {
		t.Errorf("floor for producers: %v", err)
	}
	copied, err := second.Copy(newest, nil)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := copied.Meta()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Create(ctx, layout.FeedPage(name, copied.Number), meta, storage.Bytes()); err != nil {
		t.Fatal(err)
	}
	if p, err := reader.Newest(ctx); err != nil || p.Number != newest.Number {
		t.Errorf("newest page before the commit: %+v, %v", p, err)
	}
	floor, err := second.Commit(ctx, copied)
	if err != nil || floor != copied.Number {
		t.Errorf("floor %d, %v", floor, err)
	}
	for what, reader := range map[string]*chain.Reader{"earlier reader": reader, "new reader": chain.NewReader(store, name)} {
		if p, err := reader.Newest(ctx); err != nil || p.Number != copied.Number || !p.IsFirst() {
			t.Errorf("%s: newest page after the commit: %+v, %v", what, p, err)
		}
		if _, err := reader.WritableFloor(ctx); err != nil {
			t.Errorf("%s: floor for producers: %v", what, err)
		}
	}
}
