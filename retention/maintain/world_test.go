package maintain_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/retention/maintain"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/verify"
)

const (
	testFeed = "things"
	perPage  = 3 // entities
)

// daily keeps two days, with a snapshot each day.
var daily = retention.Policy{KeepAge: 48 * time.Hour, SnapshotEvery: 24 * time.Hour, KeepSnapshots: 2}

// A history holds all entities that were ever published to the feed, with the positions that they had
// then.
type history struct {
	first     int // number of the first entity
	entities  []*feed.Entity
	positions []feed.Position
}

// publish publishes a few changes of five keys, on pages of their own.
func (h *history) publish(t *testing.T, store storage.Store) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, testFeed, producer.Config{MaxPageEntities: perPage})
	if err != nil {
		t.Fatal(err)
	}
	var entities []*feed.Entity
	for range perPage {
		n := h.first + len(h.entities) + len(entities)
		e := &feed.Entity{
			ContentID: fmt.Sprintf("<%d@test>", n), Operation: feed.Put, ContentType: "text/plain",
			ContentLocation: fmt.Sprintf("k%d", n*n%7), Body: fmt.Append(nil, n),
		}
		if n%4 == 3 {
			e.Operation, e.Body = feed.Delete, nil
		}
		entities = append(entities, e)
	}
	_, err = f.Publish(t.Context(), entities...)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	after := feed.Position{}
	if n := len(h.positions); n > 0 {
		after = h.positions[n-1]
	}
	r := newReader(t, store)
	defer r.source.Close()
	for _, e := range r.read(t, consumer.After(after), math.MaxInt).entities {
		h.entities, h.positions = append(h.entities, &e.Entity), append(h.positions, e.Position())
	}
}

// state returns the last body of each key after the first n entities.
func (h *history) state(n int) map[string]string {
	state := map[string]string{}
	for _, e := range h.entities[:n] {
		change(state, e)
	}
	return state
}

func change(state map[string]string, e *feed.Entity) {
	if e.Operation == feed.Delete {
		delete(state, e.Key())
	} else {
		state[e.Key()] = string(e.Body)
	}
}

// A received is what a consumer received, and the error at the end.
type received struct {
	entities []*consumer.Entity
	err      error
}

// A reader reads the feed as often as a test wants.
type reader struct {
	*consumer.Client
	source *fromstore.Source
}

func newReader(t *testing.T, store storage.Store) *reader {
	t.Helper()
	source := fromstore.New(store, fromstore.Config{})
	client, err := consumer.New(consumer.Config{Source: source})
	if err != nil {
		t.Fatal(err)
	}
	return &reader{client, source}
}

// read receives at most the given number of entities.
func (r *reader) read(t *testing.T, start consumer.Start, most int) (got received) {
	t.Helper()
	for e, err := range r.Entities(t.Context(), r.source.Feed(testFeed), start) {
		if err != nil {
			got.err = err
			break
		}
		one := *e
		one.Body = slices.Clone(e.Body)
		got.entities = append(got.entities, &one)
		if len(got.entities) == most {
			break
		}
	}
	return got
}

// check resumes a consumer at each position that a consumer can have. It must receive everything after the
// position, or be told of a gap; and a consumer that starts with a snapshot must end with the state of the
// feed. The first consumer that is not told of a gap receives everything; the others stop on the next page,
// since later consumers receive the rest.
func (h *history) check(t *testing.T, store storage.Store) {
	t.Helper()
	report, err := verify.Store(t.Context(), store, testFeed, "")
	if err = errors.Join(err, report.Err()); err != nil {
		t.Fatal(err)
	}
	r := newReader(t, store)
	defer r.source.Close()
	most := math.MaxInt
	for n, at := range h.positions {
		got := r.read(t, consumer.After(at), most)
		if consumer.IsGap(got.err) {
			continue
		}
		h.checkReceived(t, fmt.Sprintf("after entity %d", n), got, n+1, most)
		most = perPage + 1
	}
	all := snapshotsOf(t, store)
	if len(all) > 0 {
		if report, err := verify.StoreSnapshot(t.Context(), store, testFeed, ""); errors.Join(err, report.Err()) != nil {
			t.Fatal(err, report.Err())
		}
	}
	for n, index := range all {
		h.checkSnapshot(t, r, index, n == 0)
	}
}

// checkReceived compares what a consumer received with at most the given number of entities of the
// history from entity n on.
func (h *history) checkReceived(t *testing.T, name string, got received, n, most int) {
	t.Helper()
	want := min(len(h.entities)-n, most)
	if got.err != nil || len(got.entities) != want {
		t.Fatalf("%s: received %d entities and error %v, want %d", name, len(got.entities), got.err, want)
	}
	for i, e := range got.entities {
		if e.ContentID != h.entities[n+i].ContentID {
			t.Fatalf("%s: received %s, want %s", name, e.ContentID, h.entities[n+i].ContentID)
		}
	}
}

// snapshotsOf returns the IDs of the snapshots of the feed, the newest first.
func snapshotsOf(t *testing.T, store storage.Store) []string {
	t.Helper()
	ids, _, err := snapshots.List(t.Context(), store, testFeed)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(ids)
	return ids
}

// checkSnapshot reads a snapshot and continues in the feed, both at the exact position and as a
// reader that knows only the specification does. For the newest snapshot, both must be possible.
func (h *history) checkSnapshot(t *testing.T, r *reader, id string, newest bool) {
	t.Helper()
	url := r.source.Snapshot(testFeed) + "/" + id
	index, err := r.Index(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	for name, after := range map[string]feed.Position{
		"exactly":     {LastModified: index.Feed.LastModified, ContentID: index.Feed.ContentID, Page: index.Feed.Page},
		"by its time": {LastModified: index.CreatedAt},
	} {
		state := map[string]string{}
		for e, err := range r.Snapshot(t.Context(), url, feed.SnapshotPosition{}) {
			if err != nil {
				t.Fatal(err)
			}
			change(state, &e.Entity)
		}
		rest := r.read(t, consumer.After(after), math.MaxInt)
		if consumer.IsGap(rest.err) && !newest {
			continue
		}
		if rest.err != nil {
			t.Fatalf("after snapshot %s, %s: %v", id, name, rest.err)
		}
		for _, e := range rest.entities {
			change(state, &e.Entity)
		}
		if want := h.state(len(h.entities)); !maps.Equal(state, want) {
			t.Fatalf("after snapshot %s, %s: %v, want %v", id, name, state, want)
		}
	}
}

// checkNewest checks a snapshot that was the newest when a reader began.
func (h *history) checkNewest(t *testing.T, store storage.Store, id string) {
	t.Helper()
	r := newReader(t, store)
	defer r.source.Close()
	h.checkSnapshot(t, r, id, true)
}

// config returns a Config that makes snapshots with the help of a temporary directory.
func config(t *testing.T) maintain.Config {
	return maintain.Config{Fold: func(ctx context.Context, store storage.Store, name, key string) error {
		_, err := fold.Feed(ctx, store, name, fold.Config{KeyPointer: key, TempDir: t.TempDir()})
		return err
	}}
}

// quick returns a Config that makes snapshots in memory.
func quick(t *testing.T) maintain.Config {
	return maintain.Config{Fold: func(ctx context.Context, store storage.Store, name, _ string) error {
		source := fromstore.New(store, fromstore.Config{})
		defer source.Close()
		client, err := consumer.New(consumer.Config{Source: source, Retry: consumer.RetryConfig{Attempts: 1}})
		if err != nil {
			t.Fatal(err)
		}
		start, state, last := consumer.Beginning(), map[string]*feed.Entity{}, feed.Position{}
		take := func(entities iter.Seq2[*consumer.Entity, error]) error {
			for e, err := range entities {
				if err != nil {
					return err
				}
				one := e.Entity
				one.Body = slices.Clone(e.Body)
				state[e.Key()], last = &one, e.Position()
			}
			return nil
		}
		if index, err := client.Index(ctx, source.Snapshot(name)); err == nil {
			if err := take(client.Snapshot(ctx, source.Snapshot(name), feed.SnapshotPosition{})); err != nil {
				return err
			}
			start = consumer.After(feed.Position{LastModified: index.Feed.LastModified, ContentID: index.Feed.ContentID, Page: index.Feed.Page})
		} else if !errors.Is(err, consumer.ErrNotFound) {
			return err
		}
		if err := take(client.Entities(ctx, source.Feed(name), start)); err != nil {
			return err
		}
		_, number, err := layout.ParseFeedPageURL(last.Page)
		if err != nil {
			return err
		}
		_, err = snapshots.Write(ctx, store, name, func(yield func(*feed.Entity, error) bool) {
			for _, key := range slices.Sorted(maps.Keys(state)) {
				if e := state[key]; e.Operation != feed.Delete && !yield(e, nil) {
					return
				}
			}
		}, snapshots.Config{Feed: &snapshot.FeedPosition{
			URL: layout.FeedPath(name), Page: layout.FeedPagePath(name, number), LastModified: last.LastModified, ContentID: last.ContentID,
		}})
		return err
	}}
}

func setPolicy(t *testing.T, store storage.Store, p retention.Policy) {
	t.Helper()
	if _, err := retention.Change(t.Context(), store, testFeed, func(old *retention.Policy) error { *old = p; return nil }); err != nil {
		t.Fatal(err)
	}
}
