package fromstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/sink/sqlite"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestNewestFirst reads feeds newest first, from a store and from a server: a complete feed, a feed
// that was deleted and published again, and a pruned feed, which is not complete.
func TestNewestFirst(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, store storage.Store)
		gap    bool
	}{
		"whole": {func(*testing.T, storage.Store) {}, false},
		"published again": {func(t *testing.T, store storage.Store) {
			_, err := producer.Delete(t.Context(), store, "f", false)
			check(t, err)
			publishKeys(t, store, 10, 7)
		}, false},
		"pruned": {func(t *testing.T, store storage.Store) {
			time.Sleep(2 * time.Hour)
			_, err := producer.Prune(t.Context(), store, "f", producer.PrunePolicy{KeepPages: 2})
			check(t, err)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				publishKeys(t, store, 0, 8)
				c.change(t, store)
				stored, source := newClient(t, store, consumer.Config{})
				handler, err := server.New(store, server.Config{})
				check(t, err)
				defer handler.Close(context.Background())
				served, err := consumer.New(consumer.Config{HTTPClient: &http.Client{Transport: inprocess.Transport(handler)}})
				check(t, err)
				for i, job := range []consumer.Job{
					{Client: stored, URL: source.Feed("f")},
					{Client: served, URL: "http://feed.test/feeds/f"},
				} {
					k, err := sqlite.Open(t.Context(), filepath.Join(dir, fmt.Sprint(i)), "t")
					check(t, err)
					job.Sink, job.NewestFirst = k, true
					_, err = job.Run(t.Context())
					var tail *consumer.TailError
					if errors.As(err, &tail) != c.gap || err != nil && !c.gap {
						t.Errorf("%s: error is %v", job.URL, err)
					}
					check(t, k.Close())
				}
				source.Close()
			})
		})
	}
}

// publishKeys publishes n entities with keys, in pages of three.
func publishKeys(t testing.TB, store storage.Store, from, n int) {
	t.Helper()
	f, err := producer.Open(context.Background(), store, "f", producer.Config{MaxPageEntities: 3, SpoolDir: t.TempDir()})
	check(t, err)
	for i := from; i < from+n; i++ {
		_, err := f.Publish(context.Background(), &feed.Entity{
			ContentID: fmt.Sprintf("<%d>", i), Operation: feed.Put, ContentType: "text/plain", ContentLocation: fmt.Sprint(i % 5), Body: fmt.Append(nil, "text ", i),
		})
		check(t, err)
	}
	check(t, f.Close())
}
