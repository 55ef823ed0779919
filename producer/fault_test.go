package producer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/faulttest"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

func ids(from, to int) []string {
	var out []string
	for n := from; n <= to; n++ {
		out = append(out, fmt.Sprintf("<%d@test>", n))
	}
	return out
}

// publishing returns a path that publishes a range of entities, given by their numbers, to a feed
// that has all earlier entities.
func publishing(name string, from, to int) faulttest.Path {
	return faulttest.Path{
		Name: name,
		Setup: func(t *testing.T, store storage.Store) {
			for n := 1; n < from; n++ {
				mustPublish(t, store, ids(n, n))
			}
		},
		Do: func(ctx context.Context, store storage.Store) error { return publishIDs(ctx, store, ids(from, to)) },
		Check: func(t *testing.T, store storage.Store, done bool) {
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

// orphaned creates a feed without page 1, as if a producer had written ahead and been killed before
// page 1 existed.
func orphaned(t *testing.T, store storage.Store) {
	mustPublish(t, store, ids(101, 107))
	forget(t, store)
	if err := store.Delete(t.Context(), layout.FeedPage(testFeed, 1)); err != nil {
		t.Fatal(err)
	}
}

// forget removes from the metadata of pages all information about earlier pages, as if the pages
// had been written by a version that does not record it.
func forget(t *testing.T, store storage.Store) {
	t.Helper()
	for entry, err := range store.List(t.Context(), layout.FeedPages(testFeed), "") {
		if err != nil {
			t.Fatal(err)
		}
		n, err := layout.ParseFeedPage(testFeed, entry.Key)
		if err != nil {
			t.Fatal(err)
		}
		info, err := store.Stat(t.Context(), entry.Key)
		if err != nil {
			t.Fatal(err)
		}
		p, err := chain.Decode(testFeed, n, info)
		if err != nil {
			t.Fatal(err)
		}
		p.Settled = 0
		meta, err := p.Meta()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Append(t.Context(), info.Key, info.Version, meta, storage.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
}

func paths() []faulttest.Path {
	orphans := publishing("first entities where orphans are", 1, 8)
	orphans.Setup = orphaned
	return []faulttest.Path{
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

// withCheckpoint returns a path that publishes a batch of several pages with a checkpoint, unless
// the feed already has the batch.
func withCheckpoint() faulttest.Path {
	p := publishing("batch with a checkpoint", 2, 11)
	p.Do = func(ctx context.Context, store storage.Store) error {
		f, err := producer.Open(ctx, store, testFeed, producer.Config{MaxPageEntities: 3})
		if err != nil {
			return err
		}
		_, err = f.PublishBatch(ctx, producer.Batch{Entities: entities(ids(2, 11)), Checkpoint: []byte("eleven")})
		return errors.Join(err, f.Close())
	}
	check := p.Check
	p.Check = func(t *testing.T, store storage.Store, done bool) {
		check(t, store, done)
		got, err := producer.ReadCheckpoint(t.Context(), store, testFeed)
		if whole := len(visibleIDs(t, store)) == 11; err != nil || whole != (string(got) == "eleven") {
			t.Fatalf("checkpoint %q, %v", got, err)
		}
	}
	return p
}

// streaming returns a path that publishes entities with streamed bodies, each of which gets a page
// of its own.
func streaming() faulttest.Path {
	p := publishing("streamed bodies", 3, 5)
	p.Do = func(ctx context.Context, store storage.Store) error {
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

// pruning returns a path that deletes the pages before the floor.
func pruning(name string, policy producer.PrunePolicy, floor int64) faulttest.Path {
	left := ids(int(3*floor)-2, 22)
	return faulttest.Path{
		Name: name,
		Setup: func(t *testing.T, store storage.Store) {
			mustPublish(t, store, ids(1, 20))
			time.Sleep(2 * time.Hour)
			mustPublish(t, store, ids(21, 22))
		},
		Do: func(ctx context.Context, store storage.Store) error {
			_, err := producer.Prune(ctx, store, testFeed, policy)
			return err
		},
		Check: func(t *testing.T, store storage.Store, done bool) {
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

// TestFaults makes each operation of each path fail, and then repeats the path.
func TestFaults(t *testing.T) { faulttest.Run(t, paths()) }
