package fold_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

const origin = "http://data.example"

// A world is a store with a feed and a consumer that reads it over HTTP.
type world struct {
	t      *testing.T
	store  storage.Store
	feed   *producer.Feed
	client *consumer.Client
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: memory.New()}
	var err error
	if w.feed, err = producer.Open(t.Context(), w.store, "things", producer.Config{MaxPageEntities: 10}); err != nil {
		t.Fatal(err)
	}
	handler, err := server.New(w.store, server.Config{PublicURL: origin})
	if err != nil {
		t.Fatal(err)
	}
	w.client, err = consumer.New(consumer.Config{HTTPClient: &http.Client{Transport: inprocess.Transport(handler)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.feed.Close(), handler.Close(context.Background()), w.store.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func put(key, body string) *feed.Entity {
	return &feed.Entity{Operation: feed.Put, ContentType: "text/plain", ContentLocation: feed.EncodeKey(key), Body: []byte(body)}
}

func remove(key string) *feed.Entity {
	return &feed.Entity{Operation: feed.Delete, ContentType: "text/plain", ContentLocation: feed.EncodeKey(key)}
}

func (w *world) publish(entities ...*feed.Entity) {
	w.t.Helper()
	if _, err := w.feed.Publish(w.t.Context(), entities...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) fold(c fold.Config) *snapshot.Index {
	w.t.Helper()
	c.TempDir = w.t.TempDir()
	index, err := fold.Feed(w.t.Context(), w.store, "things", c)
	if err != nil {
		w.t.Fatal(err)
	}
	if left, err := os.ReadDir(c.TempDir); err != nil || len(left) > 0 {
		w.t.Errorf("temporary files remain: %v, %v", left, err)
	}
	return index
}

// state reads the entities of the feed from the given start, and returns their Content-IDs and the
// resulting state.
func (w *world) state(from consumer.Start) (state map[string]string, ids []string) {
	w.t.Helper()
	state = map[string]string{}
	for e, err := range w.client.Entities(w.t.Context(), origin+layout.FeedPath("things"), from) {
		if err != nil {
			w.t.Fatal(err)
		}
		body := e.Body
		if e.Stream != nil {
			if body, err = io.ReadAll(e.Stream); err != nil {
				w.t.Fatal(err)
			}
		}
		if e.Operation == feed.Delete {
			delete(state, e.Key())
		} else {
			state[e.Key()] = string(body)
		}
		ids = append(ids, e.ContentID)
	}
	return state, ids
}

// snapshotState returns the state in the snapshot.
func (w *world) snapshotState() map[string]string {
	w.t.Helper()
	state := map[string]string{}
	for e, err := range w.client.Snapshot(w.t.Context(), origin+layout.SnapshotPath("things"), feed.SnapshotPosition{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		body := bytes.Clone(e.Body)
		if e.Stream != nil {
			if body, err = io.ReadAll(e.Stream); err != nil {
				w.t.Fatal(err)
			}
		}
		state[e.Key()] = string(body)
	}
	return state
}

func TestFoldIsTheLastState(t *testing.T) {
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		key := fmt.Sprintf("thing/%d ü", rng.IntN(50))
		if rng.IntN(4) == 0 {
			w.publish(remove(key))
		} else {
			w.publish(put(key, fmt.Sprint("body ", i)))
		}
	}
	w.publish(put("large", string(bytes.Repeat([]byte("large "), 100_000))), put("empty", ""))
	index := w.fold(fold.Config{})
	want, ids := w.state(consumer.Beginning())
	if diff := cmp.Diff(want, w.snapshotState()); diff != "" {
		t.Errorf("snapshot is not the state of the feed (-want +got):\n%s", diff)
	}
	if index.Entities != int64(len(want)) {
		t.Errorf("index says %d entities, want %d", index.Entities, len(want))
	}
	if index.Feed == nil || index.Feed.ContentID != ids[len(ids)-1] || index.Feed.URL != "/feeds/things" {
		t.Errorf("position is %+v, want after %s", index.Feed, ids[len(ids)-1])
	}
}

// TestFoldKeepsHeaders: headers and media types are kept, in order.
func TestFoldKeepsHeaders(t *testing.T) {
	w := newWorld(t)
	e := put("a", "<p>")
	e.ContentType = "text/html; charset=utf-8"
	e.Header = []feed.Field{{Name: "X-B", Value: "1"}, {Name: "X-A", Value: `"q"`}, {Name: "X-B", Value: "2"}}
	e.ContentID = "<one@test>"
	w.publish(e)
	w.fold(fold.Config{})
	n := 0
	for got, err := range w.client.Snapshot(t.Context(), origin+layout.SnapshotPath("things"), feed.SnapshotPosition{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		want := []feed.Field{{Name: "X-B", Value: "1"}, {Name: "X-B", Value: "2"}, {Name: "X-A", Value: `"q"`}}
		if diff := cmp.Diff(want, got.Header); diff != "" || got.ContentType != e.ContentType || got.ContentID != e.ContentID {
			t.Errorf("got %+v\n%s", got.Entity, diff)
		}
	}
	if n != 1 {
		t.Errorf("%d entities", n)
	}
}

// TestPublishDuringFold: a consumer that reads the snapshot and continues in the feed misses no
// entity that was published during the fold, and receives none twice.
func TestPublishDuringFold(t *testing.T) {
	w := newWorld(t)
	for i := range 200 {
		w.publish(put(fmt.Sprint("before ", i), "before"))
	}
	n := 0
	index := w.fold(fold.Config{Progress: func(consumer.Progress) {
		if n < 30 {
			w.publish(put(fmt.Sprint("during ", n), "during"), put("before 7", fmt.Sprint("changed ", n)))
			n++
		}
	}})
	w.publish(put("after", "after"))

	folded := w.snapshotState()
	_, all := w.state(consumer.Beginning())
	_, rest := w.state(consumer.After(feed.Position{
		LastModified: index.Feed.LastModified, ContentID: index.Feed.ContentID, Page: origin + index.Feed.Page,
	}))
	at := slices.Index(all, index.Feed.ContentID)
	if at < 0 || !slices.Equal(all[at+1:], rest) {
		t.Fatalf("%d entities follow the position, want those after entity %d of %d", len(rest), at, len(all))
	}
	if n == 0 || len(rest) == 0 {
		t.Fatalf("nothing was published during the fold: %d, %d", n, len(rest))
	}
	// The snapshot has exactly the state at its position.
	want := map[string]string{}
	i := 0
	for e, err := range w.client.Entities(t.Context(), origin+layout.FeedPath("things"), consumer.Beginning()) {
		if err != nil {
			t.Fatal(err)
		}
		if i <= at {
			want[e.Key()] = string(e.Body)
		}
		i++
	}
	if diff := cmp.Diff(want, folded); diff != "" {
		t.Errorf("snapshot is not the state at its position (-want +got):\n%s", diff)
	}
	// A consumer that reads the snapshot and the rest of the feed in one run ends with the state of
	// the feed.
	final, _ := w.state(consumer.Beginning())
	resumed, _ := w.state(consumer.FromSnapshot(origin + layout.SnapshotPath("things")))
	if diff := cmp.Diff(final, resumed); diff != "" {
		t.Errorf("snapshot and then feed (-want +got):\n%s", diff)
	}
}

// TestFoldAfterPrune: a feed that is folded, pruned and folded again keeps the state of the pruned
// pages.
func TestFoldAfterPrune(t *testing.T) {
	w := newWorld(t)
	for i := range 50 {
		w.publish(put(fmt.Sprint("old ", i), "old"))
	}
	if _, err := chain.RaiseFloor(t.Context(), w.store, "things", 2); err != nil {
		t.Fatal(err)
	}
	if _, err := fold.Feed(t.Context(), w.store, "things", fold.Config{TempDir: t.TempDir()}); !errors.Is(err, fold.ErrPruned) {
		t.Fatalf("fold of a pruned feed without a snapshot: %v", err)
	}

	w = newWorld(t)
	for i := range 50 {
		w.publish(put(fmt.Sprint("old ", i), "old"))
	}
	w.fold(fold.Config{})
	want, _ := w.state(consumer.Beginning())
	if _, err := chain.RaiseFloor(t.Context(), w.store, "things", 4); err != nil {
		t.Fatal(err)
	}
	w.publish(put("new", "new"), remove("old 3"))
	want["new"] = "new"
	delete(want, "old 3")
	w.fold(fold.Config{})
	if diff := cmp.Diff(want, w.snapshotState()); diff != "" {
		t.Errorf("second snapshot (-want +got):\n%s", diff)
	}
}

// TestFoldOfNothing writes a snapshot of a feed in which every key was deleted, and reads the
// snapshot and the entities that follow.
func TestFoldOfNothing(t *testing.T) {
	w := newWorld(t)
	w.publish(put("a", "a"), remove("a"))
	if index := w.fold(fold.Config{}); len(index.Pages) != 0 || index.Feed == nil {
		t.Errorf("index %+v, want one without pages and with a position in the feed", index)
	}
	w.publish(put("b", "b"))
	state, ids := w.state(consumer.FromSnapshot(origin + layout.SnapshotPath("things")))
	if diff := cmp.Diff(map[string]string{"b": "b"}, state); diff != "" || len(ids) != 1 {
		t.Errorf("%d entities read from the snapshot on (-want +got):\n%s", len(ids), diff)
	}
}

func TestFoldRefuses(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	if _, err := fold.Feed(ctx, w.store, "things", fold.Config{}); !errors.Is(err, consumer.ErrNotFound) {
		t.Errorf("feed that does not exist: %v", err)
	}
	if _, err := fold.Feed(ctx, w.store, "../things", fold.Config{}); !errors.Is(err, layout.ErrName) {
		t.Errorf("bad name: %v", err)
	}
	w.publish(put("a", "a"))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := fold.Feed(cancelled, w.store, "things", fold.Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
