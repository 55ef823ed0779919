package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A rottenStore changes the byte at an offset of the body of one object.
type rottenStore struct {
	storage.Store
	key string
	at  int64
}

func (s rottenStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	object, err := s.Store.Get(ctx, key, offset, length)
	if err != nil || key != s.key {
		return object, err
	}
	data, err := io.ReadAll(object.Body)
	if err != nil {
		return nil, err
	}
	if at := s.at - offset; at >= 0 && at < int64(len(data)) {
		data = bytes.Clone(data)
		data[at] ^= 1
	}
	object.Body = io.NopCloser(bytes.NewReader(data))
	return object, nil
}

// A farRotten is a rottenStore behind a network, whose pages are held in memory.
type farRotten struct{ rottenStore }

func (farRotten) Remote() bool { return true }

// publishLarge publishes n pages of 1 MiB, too large to be verified before they are sent.
func publishLarge(t *testing.T, store storage.Store, name string, n int) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, name, producer.Config{MaxPageEntities: 1, SpoolDir: t.TempDir()})
	check(t, err)
	for range n {
		_, err := f.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentType: "text/plain", Body: bytes.Repeat([]byte("feed"), 1<<18)})
		check(t, err)
	}
	check(t, f.Close())
}

// TestRot reads objects in which one byte has changed: no response is complete, and the error names the
// object.
func TestRot(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 0, 8) // two closed pages, an open one
	publishLarge(t, store, "large", 2)
	index := writeSnapshot(t, store, "s", 2)
	for path, key := range map[string]string{
		"/feeds/f":             layout.FeedPage("f", 3),
		"/feeds/f/pages/1":     layout.FeedPage("f", 1),
		"/feeds/large/pages/1": layout.FeedPage("large", 1),
		"/snapshots/s":         layout.SnapshotIndex("s", index.ID),
		layout.SnapshotPagePath("s", index.ID, 1): layout.SnapshotPage("s", index.ID, 1),
	} {
		info, err := store.Stat(t.Context(), key)
		check(t, err)
		for _, at := range []int64{0, info.Size / 2, info.Size - 1} {
			rotten := rottenStore{store, key, at}
			for name, store := range map[string]storage.Store{"near": rotten, "far": farRotten{rotten}} {
				for _, way := range []string{"identity", "gzip", "zstd", "first byte", "rest"} {
					t.Run(fmt.Sprintf("%s/%s/%d/%s", key, name, at, way), func(t *testing.T) {
						var logged bytes.Buffer
						s := newServer(t, store, server.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
						request, err := http.NewRequest(http.MethodGet, "http://h"+path, nil)
						check(t, err)
						switch way {
						case "first byte":
							request.Header.Set("Range", "bytes=0-0")
						case "rest":
							request.Header.Set("Range", fmt.Sprintf("bytes=%d-", info.Size/2))
						default:
							request.Header.Set("Accept-Encoding", way)
						}
						if response, err := inprocess.Transport(s).RoundTrip(request); err != nil {
							t.Error(err)
						} else if body, err := io.ReadAll(response.Body); err == nil && response.StatusCode < 500 {
							t.Errorf("%s with %d bytes is complete", response.Status, len(body))
						}
						if !strings.Contains(logged.String(), key) || !strings.Contains(logged.String(), "SHA-256") {
							t.Errorf("logged: %s", logged.String())
						}
						if metrics := inside(t, s).get(t, "/metrics"); !strings.Contains(string(metrics.body), "\nfeedctl_corrupt_objects_total 1\n") {
							t.Error("the damage was not counted")
						}
					})
				}
			}
		}
	}
}

// A countedStore counts the bytes that are read from bodies.
type countedStore struct {
	storage.Store
	bytes *int
}

func (s countedStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	object, err := s.Store.Get(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(object.Body)
	*s.bytes += len(data)
	object.Body = io.NopCloser(bytes.NewReader(data))
	return object, err
}

// TestRangesAreVerified: before a part of a page is sent, the whole page is verified, once. When a page has
// grown, only what was appended is read for verification.
func TestRangesAreVerified(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 0, 4) // a page with a next page, and one that grows
	index := writeSnapshot(t, store, "s", 2)
	read := 0
	c := inside(t, newServer(t, countedStore{store, &read}, server.Config{ReadAhead: -1}))
	for _, path := range []string{"/feeds/f/pages/1", "/feeds/f", layout.SnapshotPagePath("s", index.ID, 0)} {
		size := len(inside(t, newServer(t, store, server.Config{})).get(t, path).body)
		for _, most := range []int{size + 1, 1} {
			read = 0
			if got := c.get(t, path, "Range: bytes=3-3"); got.StatusCode != http.StatusPartialContent || read > most {
				t.Errorf("%s: %s, %d bytes read, want at most %d", path, got.Status, read, most)
			}
		}
	}
	before := len(c.get(t, "/feeds/f").body)
	publishTo(t, store, "f", 4, 1)
	read = 0
	if got := c.get(t, "/feeds/f", "Range: bytes=3-3"); got.StatusCode != http.StatusPartialContent || read >= before {
		t.Errorf("after an append: %s, %d bytes read of %d", got.Status, read, before)
	}
}
