package producer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// A path is something a producer does with a store. It may be done again after an
// error.
type path struct {
	name  string
	setup func(t *testing.T, store storage.Store)
	do    func(ctx context.Context, store storage.Store) error
	check func(t *testing.T, store storage.Store, done bool)
}

func ids(from, to int) []string {
	var out []string
	for n := from; n <= to; n++ {
		out = append(out, fmt.Sprintf("<%d@test>", n))
	}
	return out
}

// publishing returns the path of a publish of entities with these numbers, after
// those before them.
func publishing(name string, from, to int) path {
	return path{
		name: name,
		setup: func(t *testing.T, store storage.Store) {
			for n := 1; n < from; n++ {
				mustPublish(t, store, ids(n, n))
			}
		},
		do: func(ctx context.Context, store storage.Store) error { return publishIDs(ctx, store, ids(from, to)) },
		check: func(t *testing.T, store storage.Store, done bool) {
			got := visibleIDs(t, store)
			want := ids(1, to)
			if done && len(got) != len(want) || len(got) < from-1 || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
				t.Fatalf("the feed has %v", got)
			}
		},
	}
}

func publishIDs(ctx context.Context, store storage.Store, ids []string) error {
	f, err := producer.Open(ctx, store, testFeed, producer.Config{MaxPageEntities: 3})
	if err != nil {
		return err
	}
	_, err = f.Publish(ctx, entities(ids)...)
	return errors.Join(err, f.Close())
}

func mustPublish(t *testing.T, store storage.Store, ids []string) {
	t.Helper()
	if err := publishIDs(t.Context(), store, ids); err != nil {
		t.Fatal(err)
	}
}

func visibleIDs(t *testing.T, store storage.Store) []string {
	t.Helper()
	floor, err := chain.NewReader(store, testFeed).Floor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range walkChain(t, store, floor) {
		got = append(got, p.ids...)
	}
	return got
}

// orphaned leaves pages 2 and 3 of a producer that created ahead and died before
// its page 1 was there.
func orphaned(t *testing.T, store storage.Store) {
	lost := fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.Verb == fault.Create && op.Key == layout.FeedPage(testFeed, 1) {
			return fault.Lost
		}
		return fault.Pass
	})
	if err := publishIDs(t.Context(), lost, ids(101, 107)); !errors.Is(err, producer.ErrUnknown) {
		t.Fatalf("publish to a store that loses page 1: %v", err)
	}
	if _, err := store.Stat(t.Context(), layout.FeedPage(testFeed, 3)); err != nil {
		t.Fatalf("no orphan: %v", err)
	}
}

func paths() []path {
	orphans := publishing("first entities where orphans are", 1, 8)
	orphans.setup = orphaned
	return []path{
		publishing("first entity", 1, 1),
		publishing("entity on the open page", 2, 2),
		publishing("entity that fills the page", 3, 3),
		publishing("entity after a closed page", 4, 4),
		publishing("pages ahead of an open page", 3, 14),
		publishing("pages ahead of a closed page", 4, 12),
		publishing("more pages than may be ahead", 2, 80),
		orphans,
		withCheckpoint(), streaming(),
		pruning("prune by count", producer.PrunePolicy{KeepPages: 3}, 6),
		pruning("prune by age", producer.PrunePolicy{KeepAge: time.Hour}, 7),
		pruning("prune before a page", producer.PrunePolicy{Before: 6}, 6),
	}
}

// withCheckpoint publishes a batch of several pages with a checkpoint, or finds it
// published.
func withCheckpoint() path {
	p := publishing("batch with a checkpoint", 2, 11)
	p.do = func(ctx context.Context, store storage.Store) error {
		f, err := producer.Open(ctx, store, testFeed, producer.Config{MaxPageEntities: 3})
		if err != nil {
			return err
		}
		_, err = f.PublishBatch(ctx, producer.Batch{Entities: entities(ids(2, 11)), Checkpoint: []byte("eleven")})
		return errors.Join(err, f.Close())
	}
	check := p.check
	p.check = func(t *testing.T, store storage.Store, done bool) {
		check(t, store, done)
		got, err := producer.ReadCheckpoint(t.Context(), store, testFeed)
		if whole := len(visibleIDs(t, store)) == 11; err != nil || whole != (string(got) == "eleven") {
			t.Fatalf("checkpoint %q, %v", got, err)
		}
	}
	return p
}

// streaming publishes entities with streamed bodies, each of which gets a page.
func streaming() path {
	p := publishing("streamed bodies", 3, 5)
	p.do = func(ctx context.Context, store storage.Store) error {
		f, err := producer.Open(ctx, store, testFeed, producer.Config{MaxPageEntities: 3})
		if err != nil {
			return err
		}
		streams := entities(ids(3, 5))
		for _, e := range streams {
			e.Stream, e.Size, e.Body = bytes.NewReader(e.Body), -1, nil
		}
		_, err = f.Publish(ctx, streams...)
		return errors.Join(err, f.Close())
	}
	return p
}

// pruning leaves the pages from the given one on.
func pruning(name string, policy producer.PrunePolicy, floor int64) path {
	left := ids(int(3*floor)-2, 22)
	return path{
		name: name,
		setup: func(t *testing.T, store storage.Store) {
			mustPublish(t, store, ids(1, 20))
			time.Sleep(2 * time.Hour)
			mustPublish(t, store, ids(21, 22))
		},
		do: func(ctx context.Context, store storage.Store) error {
			_, err := producer.Prune(ctx, store, testFeed, policy)
			return err
		},
		check: func(t *testing.T, store storage.Store, done bool) {
			got, want := visibleIDs(t, store), ids(1, 22)
			if done {
				want = left
			}
			if !slices.Equal(got, want) && (done || !slices.Equal(got, left)) {
				t.Fatalf("the feed has %v", got)
			}
			for entry, err := range store.List(t.Context(), layout.FeedPages(testFeed), "") {
				if err != nil {
					t.Fatal(err)
				}
				if done && entry.Key < layout.FeedPage(testFeed, floor) {
					t.Fatalf("%s is left", entry.Key)
				}
			}
		},
	}
}

func readObject(t *testing.T, store storage.Store, key string) []byte {
	t.Helper()
	object, err := store.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	data, err := io.ReadAll(object.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestFaults lets each operation of each path fail, once or from then on, having
// landed or been lost, and then does the path again on a store that works.
func TestFaults(t *testing.T) {
	for _, p := range paths() {
		t.Run(strings.ReplaceAll(p.name, " ", "_"), func(t *testing.T) {
			var operations atomic.Int64
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				p.setup(t, store)
				if err := p.do(t.Context(), fault.Wrap(store, func(fault.Op) fault.Outcome { operations.Add(1); return fault.Pass })); err != nil {
					t.Fatal(err)
				}
				p.check(t, store, true)
			})
			if operations.Load() == 0 {
				t.Fatal("the path does nothing")
			}
			for n := range operations.Load() {
				for _, outcome := range []fault.Outcome{fault.Lost, fault.Landed} {
					for _, lasting := range []bool{false, true} {
						name := fmt.Sprintf("%d/%v/lasting=%v", n, outcome, lasting)
						t.Run(name, func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { p.faulty(t, n, outcome, lasting) })
						})
					}
				}
			}
		})
	}
}

func (p path) faulty(t *testing.T, n int64, outcome fault.Outcome, lasting bool) {
	store := memory.New()
	p.setup(t, store)
	var count atomic.Int64
	err := p.do(t.Context(), fault.Wrap(store, func(fault.Op) fault.Outcome {
		if k := count.Add(1); k == n+1 || lasting && k > n {
			return outcome
		}
		return fault.Pass
	}))
	p.check(t, store, err == nil)
	if err := p.do(t.Context(), store); err != nil {
		t.Fatalf("after the fault (%v): %v", err, err)
	}
	p.check(t, store, true)
}
