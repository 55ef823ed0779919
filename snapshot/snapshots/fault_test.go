package snapshots_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/faulttest"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

const testName = "test"

func snapshotEntities(n int) iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		for k := range n {
			e := &feed.Entity{ContentType: "text/plain", ContentLocation: fmt.Sprint(k), Body: []byte(strings.Repeat("x", 400))}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// streamedEntities yields the entities of snapshotEntities, some of them with streamed bodies.
func streamedEntities(n int) iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		k := 0
		for e, err := range snapshotEntities(n) {
			if k++; k%7 == 0 {
				e.Stream, e.Size, e.Body = bytes.NewReader(e.Body), int64(len(e.Body)), nil
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func snapshotting(entities func(int) iter.Seq2[*feed.Entity, error]) faulttest.Path {
	return faulttest.Path{
		Name:  "snapshot",
		Setup: func(*testing.T, storage.Store) {},
		Do: func(ctx context.Context, store storage.Store) error {
			_, err := snapshots.Write(ctx, store, testName, entities(20), snapshots.Config{MaxPageBytes: 2000, Concurrency: 2})
			return err
		},
		Check: func(t *testing.T, store storage.Store, done bool) {
			found, _, err := snapshots.List(t.Context(), store, testName)
			if err != nil {
				t.Fatal(err)
			}
			if done && len(found) == 0 {
				t.Fatal("there is no snapshot")
			}
			for _, id := range found {
				checkSnapshot(t, store, id, 20)
			}
			time.Sleep(2 * time.Hour)
			if _, err := snapshots.Collect(t.Context(), store, testName, time.Hour); err != nil {
				t.Fatal(err)
			}
			for entry, err := range store.List(t.Context(), layout.SnapshotsPrefix, "") {
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(found, func(id string) bool { return strings.Contains(entry.Key, id) }) {
					t.Fatalf("%s was not removed", entry.Key)
				}
			}
		},
	}
}

func deleting() faulttest.Path {
	return faulttest.Path{
		Name: "delete snapshot",
		Setup: func(t *testing.T, store storage.Store) {
			if err := snapshotting(snapshotEntities).Do(t.Context(), store); err != nil {
				t.Fatal(err)
			}
		},
		Do: func(ctx context.Context, store storage.Store) error {
			found, _, err := snapshots.List(ctx, store, testName)
			if err != nil || len(found) == 0 {
				return err
			}
			return snapshots.Delete(ctx, store, testName, found[0])
		},
		Check: func(t *testing.T, store storage.Store, done bool) {
			snapshotting(snapshotEntities).Check(t, store, false)
			if found, _, err := snapshots.List(t.Context(), store, testName); err != nil || done && len(found) > 0 {
				t.Fatalf("snapshots: %v, %v", found, err)
			}
		},
	}
}

// collecting returns a path that removes the pages of an unfinished snapshot, and checks that
// nothing else is removed.
func collecting() faulttest.Path {
	return faulttest.Path{
		Name: "collect",
		Setup: func(t *testing.T, store storage.Store) {
			if err := snapshotting(snapshotEntities).Do(t.Context(), store); err != nil {
				t.Fatal(err)
			}
			for n := range 3 {
				key := layout.SnapshotPage(testName, "20000101T000000.000Z-left", n)
				if _, err := store.Create(t.Context(), key, storage.Meta{}, storage.Bytes([]byte("x"))); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Hour)
		},
		Do: func(ctx context.Context, store storage.Store) error {
			_, err := snapshots.Collect(ctx, store, testName, time.Hour)
			return err
		},
		Check: func(t *testing.T, store storage.Store, done bool) {
			left := 0
			for entry, err := range store.List(t.Context(), layout.SnapshotsPrefix, "") {
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(entry.Key, "-left") {
					left++
				}
			}
			if done && left > 0 {
				t.Fatalf("%d pages remain", left)
			}
			snapshotting(snapshotEntities).Check(t, store, true)
		},
	}
}

// checkSnapshot reads a whole snapshot.
func checkSnapshot(t *testing.T, store storage.Store, id string, want int) {
	t.Helper()
	var pages []string
	index, err := snapshot.Read(bytes.NewReader(faulttest.ReadObject(t, store, layout.SnapshotIndex(testName, id))), func(url string) error {
		pages = append(pages, url)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for n, ref := range pages {
		if ref != layout.SnapshotPagePath(testName, id, n) {
			t.Fatalf("page %d is at %s", n, ref)
		}
		key := layout.SnapshotPage(testName, id, n)
		info, err := store.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		_, params, err := mime.ParseMediaType(info.Meta.ContentType)
		if err != nil {
			t.Fatal(err)
		}
		parts := multipart.NewReader(bytes.NewReader(faulttest.ReadObject(t, store, key)), params["boundary"])
		for {
			if _, err := parts.NextRawPart(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			got++
		}
	}
	if got != want || index.Entities != int64(want) {
		t.Fatalf("snapshot has %d entities, %d in its index, want %d", got, index.Entities, want)
	}
}

// TestFaults makes each operation of each path fail, and repeats the path.
func TestFaults(t *testing.T) {
	streamed := snapshotting(streamedEntities)
	streamed.Name = "snapshot of streams"
	faulttest.Run(t, []faulttest.Path{snapshotting(snapshotEntities), streamed, deleting(), collecting()})
}
