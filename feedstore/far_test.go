package feedstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// A farStore is like a store behind a network: each request takes the time latency. Requests are counted.
// Of the optional interfaces, it implements [storage.Locator] and [storage.Counter].
type farStore struct {
	storage.Store
	latency time.Duration

	mu    sync.Mutex
	sent  map[string]uint64 // by "Stat", "Get" and the like
	byKey map[string]int    // by operation and key, such as "Get KEY"
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

// reset sets the counts to 0.
func (s *farStore) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sent)
	clear(s.byKey)
}

// total returns how many requests were sent, and how many of those were for the bodies of pages.
func (s *farStore) total() (all, gets uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.sent {
		all += n
	}
	return all, s.sent["Get"]
}

// most returns the key for which an operation was requested most often, and how many times that was.
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

// fill publishes a feed "f" with the given number of pages, whose bodies have about size bytes each, and
// one more page, which is open.
func fill(t *testing.T, store storage.Store, pages, size int) {
	t.Helper()
	body := func(i int) string { return strings.Repeat(fmt.Sprintf("%07d ", i), size/8) }
	publish(t, store, 1, 0, pages, body)
	publish(t, store, 2, pages, 1, body)
}

// publish publishes n entities to the feed "f". The Content-ID of the first is the number from in angle
// brackets.
func publish(t *testing.T, store storage.Store, perPage, from, n int, body func(i int) string) {
	t.Helper()
	publishTo(t, store, "f", perPage, from, n, body)
}

// publishTo does the same as publish, for another feed.
func publishTo(t *testing.T, store storage.Store, name string, perPage, from, n int, body func(i int) string) {
	t.Helper()
	f, err := producer.Open(context.Background(), store, name, producer.Config{MaxPageEntities: perPage, SpoolDir: t.TempDir()})
	check(t, err)
	defer f.Close()
	for i := from; i < from+n; i++ {
		_, err := f.Publish(context.Background(), &feed.Entity{
			ContentID: fmt.Sprintf("<%d>", i), Operation: feed.Put, ContentType: "text/plain",
			ContentLocation: fmt.Sprintf("key-%d", i), Body: []byte(body(i)),
		})
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

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A reader reads the feed "f" as a server does for its clients.
type reader struct{ *feedstore.Reader }

// newReader returns a reader that is closed when the test ends.
func newReader(t *testing.T, store storage.Store, c feedstore.Config) reader {
	t.Helper()
	c.Network = true
	r := feedstore.New(store, c)
	t.Cleanup(func() { r.Close(context.Background()) })
	return reader{r}
}

// read returns page n, or the newest page if n is 0, with the closing delimiter.
func (r reader) read(ctx context.Context, n int64) ([]byte, error) {
	body, err := r.open(ctx, n)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

func (r reader) open(ctx context.Context, n int64) (io.ReadCloser, error) {
	f, err := r.Feed("f")
	if err == nil && n > 0 && f.Linked(n) {
		if _, err = f.Floor(ctx); err == nil {
			_, body, err := f.Open(ctx, n, 0, -1)
			return body, err
		}
	}
	if err != nil {
		return nil, err
	}
	f, newest, _, err := r.Look(ctx, "f")
	if err != nil {
		return nil, err
	}
	if n > 0 && n < newest.Number {
		_, body, err := f.Open(ctx, n, 0, -1)
		return body, err
	}
	p, body, _, err := f.OpenNewest(ctx, newest, 0, -1)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{p.Whole(body), body}, nil
}

// newest reads the newest page.
func (r reader) newest(t *testing.T) string {
	t.Helper()
	body, err := r.read(t.Context(), 0)
	check(t, err)
	return string(body)
}

// pages reads pages one after another. Page n has the entity <n-1>.
func (r reader) pages(t *testing.T, from, to int64) {
	t.Helper()
	for n := from; n <= to; n++ {
		body, err := r.read(t.Context(), n)
		if err != nil || !bytes.Contains(body, fmt.Appendf(nil, "<%d>", n-1)) || !bytes.HasSuffix(body, []byte("--\r\n")) {
			t.Fatalf("page %d: %d bytes, %v", n, len(body), err)
		}
	}
}
