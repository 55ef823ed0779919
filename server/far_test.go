package server_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// A farStore is a store behind a network: each request takes its time, and is
// counted. Of the optional interfaces it has [storage.Locator] and [storage.Counter].
type farStore struct {
	storage.Store
	latency time.Duration

	mu    sync.Mutex
	sent  map[string]uint64 // by "Stat", "Get" and the like
	byKey map[string]int    // by "Get KEY"
	// gets is called before a Get, if it is set.
	gets func(key string)
}

func far(store storage.Store, latency time.Duration) *farStore {
	return &farStore{Store: store, latency: latency, sent: make(map[string]uint64), byKey: make(map[string]int)}
}

func (s *farStore) travel(operation, key string) {
	s.mu.Lock()
	s.sent[operation]++
	s.byKey[operation+" "+key]++
	s.mu.Unlock()
	time.Sleep(s.latency)
}

func (s *farStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	s.travel("Stat", key)
	return s.Store.Stat(ctx, key)
}

func (s *farStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if s.gets != nil {
		s.gets(key)
	}
	s.travel("Get", key)
	return s.Store.Get(ctx, key, offset, length)
}

// Remote implements [storage.Locator].
func (s *farStore) Remote() bool { return true }

// Requests implements [storage.Counter].
func (s *farStore) Requests() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.sent)
}

// reset begins to count anew.
func (s *farStore) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sent)
	clear(s.byKey)
}

// total returns how many requests were sent, and of them those for pages' bodies.
func (s *farStore) total() (all, gets uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.sent {
		all += n
	}
	return all, s.sent["Get"]
}

// most returns the key of the operation that was asked for most often, and how often.
func (s *farStore) most(operation string) (key string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, count := range s.byKey {
		if after, ok := strings.CutPrefix(k, operation+" "); ok && count > n {
			key, n = after, count
		}
	}
	return key, n
}

// fill publishes a feed of so many pages, each with a body of about so many bytes,
// that all have a next page, and one page more, which is open.
func fill(t *testing.T, store storage.Store, name string, pages, size int) {
	t.Helper()
	body := func(i int) string { return strings.Repeat(fmt.Sprintf("%07d ", i), size/8) }
	publishPages(t, store, name, 1, 0, pages, body)
	publishPages(t, store, name, 2, pages, 1, body)
}

// publishPages publishes n entities in pages of so many, the first with the
// Content-ID <from>.
func publishPages(t *testing.T, store storage.Store, name string, perPage, from, n int, body func(i int) string) {
	t.Helper()
	f, err := producer.Open(context.Background(), store, name, producer.Config{MaxPageEntities: perPage, SpoolDir: t.TempDir()})
	check(t, err)
	defer f.Close()
	for i := from; i < from+n; i++ {
		e := entity(i)
		e.Body = []byte(body(i))
		_, err := f.Publish(context.Background(), e)
		check(t, err)
	}
}

func short(i int) string { return fmt.Sprintf("entity %d", i) }

func openCache(t *testing.T, dir string, size int64) *pagecache.Cache {
	t.Helper()
	cache, err := pagecache.Open(pagecache.Config{Dir: dir, Size: size})
	check(t, err)
	t.Cleanup(func() { cache.Close() })
	return cache
}
