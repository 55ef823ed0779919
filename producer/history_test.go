package producer_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// replace replaces the contents of store with those of from.
func replace(t *testing.T, store, from storage.Store) {
	t.Helper()
	for entry, err := range store.List(t.Context(), "", "") {
		if err := errors.Join(err, store.Delete(t.Context(), entry.Key)); err != nil {
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

// TestRestoredUnderneath restores the store of a running producer to an older state. The producer logs
// this. Entities that are gone can be published again, although the producer has seen their
// Content-IDs.
func TestRestoredUnderneath(t *testing.T) {
	for _, c := range []struct {
		kept, published, again int
		epoch                  bool
	}{{4, 9, 6, false}, {4, 9, 6, true}, {3, 4, 4, false}, {3, 4, 4, true}} { // the older state has fewer pages, or a shorter last page
		store, copied := memory.New(), memory.New()
		var log bytes.Buffer
		f := open(t, store, producer.Config{MaxPageEntities: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		publish := func(from, to int) {
			t.Helper()
			for _, id := range ids(from, to) {
				if _, err := f.Publish(t.Context(), entities([]string{id})...); err != nil {
					t.Fatal(err)
				}
			}
		}
		publish(1, c.kept)
		replace(t, copied, store)
		publish(c.kept+1, c.published)
		replace(t, store, copied)
		if c.epoch {
			if _, err := chain.BeginEpoch(t.Context(), store, testFeed); err != nil {
				t.Fatal(err)
			}
		}
		publish(c.again, c.published)
		if got, want := visibleIDs(t, store), append(ids(1, c.kept), ids(c.again, c.published)...); !slices.Equal(got, want) {
			t.Errorf("%+v: the feed has %v, want %v", c, got, want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "what was published before may be gone"); n != 1 || strings.Contains(log.String(), "ERROR") == c.epoch {
			t.Errorf("%+v: the log is\n%s", c, log.String())
		}
	}
}

// TestIdentityCosts counts the writes for a feed: its identity takes one, before the first page.
func TestIdentityCosts(t *testing.T) {
	var writes []string
	store := fault.Wrap(memory.New(), func(op fault.Op) fault.Outcome {
		if op.Verb == fault.Create || op.Verb == fault.Append || op.Verb == fault.Replace {
			writes = append(writes, op.Key)
		}
		return fault.Pass
	})
	publish := func() {
		f := open(t, store, producer.Config{})
		if _, err := f.Publish(t.Context(), entities(ids(len(writes), len(writes)))...); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	page := layout.FeedPage(testFeed, 1)
	publish()
	publish()
	if want := []string{layout.FeedFloor(testFeed), page, page}; !slices.Equal(writes, want) {
		t.Errorf("wrote %v, want %v", writes, want)
	}
}

// TestOldFeed: a feed of an older version gets an identity when it is pruned, not before.
func TestOldFeed(t *testing.T) {
	synctest.Test(t, testOldFeed)
}

func testOldFeed(t *testing.T) {
	store := memory.New()
	publishPages := func(n int) {
		f := open(t, store, producer.Config{MaxPageEntities: 1})
		for range n {
			e := &feed.Entity{Operation: feed.Put, ContentType: "text/plain"}
			if _, err := f.Publish(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	identity := func() feed.Identity {
		i, err := chain.ReadIdentity(t.Context(), store, testFeed)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	publishPages(5)
	if err := store.Delete(t.Context(), layout.FeedFloor(testFeed)); err != nil {
		t.Fatal(err)
	}
	publishPages(2)
	if i := identity(); i != (feed.Identity{}) {
		t.Errorf("identity after publishing: %+v", i)
	}
	time.Sleep(2 * time.Hour)
	if _, err := producer.Prune(t.Context(), store, testFeed, producer.PrunePolicy{KeepPages: 2}); err != nil {
		t.Fatal(err)
	}
	if i := identity(); i.ID == "" {
		t.Error("no identity after pruning")
	}
}
