package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A countingStore is a farStore that counts requests that read.
type countingStore struct {
	*farStore
	stats, gets atomic.Int64
}

func (s *countingStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	s.stats.Add(1)
	return s.farStore.Stat(ctx, key)
}

func (s *countingStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	s.gets.Add(1)
	return s.farStore.Get(ctx, key, offset, length)
}

// A follower requests what has been added to a feed, as a consumer does.
type follower struct {
	site *site
	etag string
	page []byte // so far, without the closing delimiter
	last int    // where its last entity begins
}

// follow requests what is new, and reports whether there was anything.
func (f *follower) follow(t *testing.T) bool {
	t.Helper()
	fields := []string{"Prefer: wait=1"}
	if f.etag != "" {
		fields = append(fields, "If-None-Match: "+f.etag, fmt.Sprintf("Range: bytes=%d-", f.last))
	}
	got := f.site.get(t, "/feeds/f", fields...)
	switch got.StatusCode {
	case http.StatusNotModified:
		return false
	case http.StatusOK:
		f.page = nil
	case http.StatusPartialContent:
		f.page = f.page[:f.last]
	default:
		t.Fatalf("%s: %s", got.Status, got.body)
	}
	f.etag = got.Header.Get("Etag")
	whole := append(f.page, got.body...)
	if got.Header.Get("Repr-Digest") != reprDigest(whole) {
		t.Fatalf("Repr-Digest is %q, but that of the bytes read is %q", got.Header.Get("Repr-Digest"), reprDigest(whole))
	}
	delimiter := []byte("--" + boundary(t, got))
	f.page = whole[:bytes.LastIndex(whole, delimiter)]
	f.last = bytes.LastIndex(f.page, delimiter)
	return true
}

func boundary(t *testing.T, a answer) string {
	t.Helper()
	_, params, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	check(t, err)
	return params["boundary"]
}

// TestFollowerBehind: a client that follows a feed and is known to be behind gets what it lacks with one
// request to the store.
func TestFollowerBehind(t *testing.T) {
	store := &countingStore{farStore: far(memory.New(), 0)}
	inBubble(t, store, server.Config{ReadAhead: 8 << 20}, func(t *testing.T, _ *server.Server, here, _ *site) {
		f := &follower{site: here}
		for i := 2; i < 6; i++ {
			if !f.follow(t) {
				t.Fatal("nothing new")
			}
			here.post(t, "f", fmt.Sprintf("<%d>", i))
		}
		store.stats.Store(0)
		store.gets.Store(0)
		if !f.follow(t) || parts(f.page) != 5 {
			t.Errorf("%d entities, want 5", parts(f.page))
		}
		if stats, gets := store.stats.Load(), store.gets.Load(); stats != 0 || gets != 1 {
			t.Errorf("the store was asked for metadata %d times and for a body %d times, want 0 and 1", stats, gets)
		}
		if f.follow(t) {
			t.Error("something is new, although nothing was published")
		}
	})
}

// TestWaiterIsWokenByCommit: a client that waits learns of a commit of the same process without
// a request for metadata.
func TestWaiterIsWokenByCommit(t *testing.T) {
	store := &countingStore{farStore: far(memory.New(), 0)}
	inBubble(t, store, server.Config{}, func(t *testing.T, _ *server.Server, here, _ *site) {
		w := here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=60", "Range: bytes=0-")
		store.stats.Store(0)
		here.post(t, "f", "<2>")
		w.check(t, http.StatusPartialContent, 0, "wait=60")
		synctest.Wait()
		if n := store.stats.Load(); n != 0 {
			t.Errorf("the store was asked for metadata %d times", n)
		}
	})
}

// TestFollowerOfStoreThatGoesBack: what is known about a feed is not used after its store has been
// restored.
func TestFollowerOfStoreThatGoesBack(t *testing.T) {
	for _, lost := range []int{1, 2, 3} {
		store, copied := memory.New(), memory.New()
		log := &lockedLog{}
		c := server.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}
		inBubble(t, struct{ storage.Store }{store}, c, func(t *testing.T, _ *server.Server, s, fresh *site) {
			f := &follower{site: s}
			f.follow(t)
			for i := 2; i < 6; i++ {
				if i == 6-lost {
					restore(t, copied, store)
				}
				s.post(t, "f", fmt.Sprintf("<%d>", i))
				if i == 4 {
					f.follow(t) // and misses <5>
				}
			}
			restore(t, store, copied)
			request := []string{"If-None-Match: " + f.etag, fmt.Sprintf("Range: bytes=%d-", f.last), "Prefer: wait=5"}
			got, want := s.get(t, "/feeds/f", request...), fresh.get(t, "/feeds/f", request...)
			if got.StatusCode != want.StatusCode || !bytes.Equal(got.body, want.body) {
				t.Errorf("%d lost: %s %q, but %s %q from a server that has just started", lost, got.Status, got.body, want.Status, want.body)
			}
			if log.count(wentBack) != 1 {
				t.Errorf("%d lost: the server did not log that history has changed", lost)
			}
		})
	}
}
