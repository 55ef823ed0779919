package producer_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/observe"
)

// TestKnown: with Batch.Known, pages before the known page are not read, but that page and later ones
// are. This is so only if the checkpoint shows that the feed is the one that the publisher knows.
func TestKnown(t *testing.T) {
	config := producer.Config{MaxPageEntities: 3}
	for _, test := range []struct {
		name       string
		known      int64
		previous   string
		id         int // number of the entity to publish; 1 to 30 are in the feed, three on each page
		duplicates int
		bodies     int64
	}{
		{name: "not known", previous: "c", id: 31, bodies: 10},
		{name: "known", known: 10, previous: "c", id: 31, bodies: 1},
		{name: "on the page", known: 10, previous: "c", id: 30, duplicates: 1, bodies: 1},
		{name: "on a later page", known: 8, previous: "c", id: 30, duplicates: 1, bodies: 3},
		{name: "beyond the newest page", known: 99, previous: "c", id: 30, duplicates: 1, bodies: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := memory.New()
			first := producer.Batch{Entities: entities(ids(1, 30)), Checkpoint: []byte("c")}
			if _, err := open(t, base, config).PublishBatch(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			var bodies atomic.Int64
			f := open(t, countBodies(base, &bodies), config)
			b := producer.Batch{Entities: entities(ids(test.id, test.id)), Previous: []byte(test.previous), Checkpoint: []byte("d"), Known: test.known}
			receipt, err := f.PublishBatch(t.Context(), b)
			if err != nil || receipt.Duplicates != test.duplicates || bodies.Load() != test.bodies {
				t.Errorf("%+v after reading %d pages, want %d duplicates after %d: %v", receipt, bodies.Load(), test.duplicates, test.bodies, err)
			}
		})
	}
}

// TestKnownOfAnotherFeed: a feed that was deleted and filled again is not the one that the publisher
// knows.
func TestKnownOfAnotherFeed(t *testing.T) {
	store := memory.New()
	config := producer.Config{MaxPageEntities: 3}
	if _, err := open(t, store, config).Publish(t.Context(), entities(ids(1, 30))...); err != nil {
		t.Fatal(err)
	}
	f := open(t, store, config)
	b := producer.Batch{Entities: entities(ids(3, 3)), Previous: []byte("c"), Checkpoint: []byte("d"), Known: 10}
	if _, err := f.PublishBatch(t.Context(), b); !errors.Is(err, producer.ErrCheckpoint) {
		t.Errorf("with the checkpoint of another feed: %v", err)
	}
	b.Previous = nil
	if receipt, err := f.PublishBatch(t.Context(), b); err != nil || receipt.Duplicates != 1 {
		t.Errorf("without a checkpoint: %+v, %v", receipt, err)
	}
	if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 30)) {
		t.Errorf("the feed has %v", got)
	}
}

// TestSeen: if a producer was told which page is the newest, it publishes after that page, and after
// pages that others have written since.
func TestSeen(t *testing.T) {
	store := memory.New()
	config := producer.Config{MaxPageEntities: 3}
	other := open(t, store, config)
	for _, more := range []int{0, 1, 60} {
		if _, err := other.Publish(t.Context(), entities(ids(1, 3))...); err != nil {
			t.Fatal(err)
		}
		newest, err := chain.NewReader(store, testFeed).Newest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		have := len(visibleIDs(t, store))
		if more > 0 {
			if _, err := other.Publish(t.Context(), entities(ids(have+1, have+more))...); err != nil {
				t.Fatal(err)
			}
		}
		f := open(t, store, config)
		f.Seen(newest)
		if _, err := f.Publish(t.Context(), entities(ids(have+more+1, have+more+1))...); err != nil {
			t.Fatal(err)
		}
		if got, want := visibleIDs(t, store), ids(1, have+more+1); !slices.Equal(got, want) {
			t.Errorf("the feed has %v, want %v", got, want)
		}
	}
}

func countBodies(store storage.Store, n *atomic.Int64) storage.Store {
	return observe.Wrap(store, func(_ context.Context, o observe.Operation) {
		if o.Name == "get" {
			n.Add(1)
		}
	})
}
