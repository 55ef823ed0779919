package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A farStore is a store behind a network, where each request takes latency. It implements no
// optional interface but [storage.Locator].
type farStore struct {
	storage.Store
	latency time.Duration
}

func far(store storage.Store, latency time.Duration) *farStore { return &farStore{store, latency} }

func (s *farStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	time.Sleep(s.latency)
	return s.Store.Stat(ctx, key)
}

func (s *farStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	time.Sleep(s.latency)
	return s.Store.Get(ctx, key, offset, length)
}

// Remote implements [storage.Locator].
func (s *farStore) Remote() bool { return true }

// fill publishes a feed with the given number of linked pages, each with one entity of about
// size bytes, and an open page.
func fill(t *testing.T, store storage.Store, name string, pages, size int) {
	t.Helper()
	publish := func(perPage, from, n int) {
		f, err := producer.Open(context.Background(), store, name, producer.Config{MaxPageEntities: perPage, SpoolDir: t.TempDir()})
		check(t, err)
		defer f.Close()
		for i := from; i < from+n; i++ {
			e := entity(i)
			e.Body = []byte(strings.Repeat(fmt.Sprintf("%07d ", i), size/8))
			_, err := f.Publish(context.Background(), e)
			check(t, err)
		}
	}
	publish(1, 0, pages)
	publish(2, pages, 1)
}

func openCache(t *testing.T, dir string, size int64) *pagecache.Cache {
	t.Helper()
	cache, err := pagecache.Open(pagecache.Config{Dir: dir, Size: size})
	check(t, err)
	t.Cleanup(func() { cache.Close() })
	return cache
}

// readPages reads pages one after another. Page n has the entity <n-1>.
func (s *site) readPages(t *testing.T, name string, from, to int64) {
	t.Helper()
	for n := from; n <= to; n++ {
		got := s.get(t, layout.FeedPagePath(name, n))
		if got.StatusCode != http.StatusOK || got.Header.Get("Repr-Digest") != reprDigest(got.body) || !bytes.Contains(got.body, fmt.Appendf(nil, "<%d>", n-1)) {
			t.Fatalf("page %d: %s with %d bytes and %v", n, got.Status, len(got.body), got.Header)
		}
	}
}

// TestReadingMetrics: the metrics include the counts of the reader and its cache.
func TestReadingMetrics(t *testing.T) {
	store := far(memory.New(), 0)
	fill(t, store, "f", 4, 1000)
	c := inside(t, newServer(t, store, server.Config{Cache: openCache(t, t.TempDir(), 8<<20)}))
	c.readPages(t, "f", 1, 4)
	metrics := string(c.get(t, "/metrics").body)
	for _, name := range []string{"page_cache_hits_total", "page_cache_misses_total", "page_cache_pages", "page_memory_bytes"} {
		if !strings.Contains(metrics, "\nfeedctl_"+name+" ") {
			t.Errorf("the metrics lack %s", name)
		}
	}
}
