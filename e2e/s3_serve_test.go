package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/s3"
)

// A slow store acts as if it were behind a network.
type slow struct{ storage.Store }

const slowness = 2 * time.Millisecond

func (s slow) Stat(ctx context.Context, key string) (storage.Info, error) {
	time.Sleep(slowness)
	return s.Store.Stat(ctx, key)
}

func (s slow) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	time.Sleep(slowness)
	return s.Store.Get(ctx, key, offset, length)
}

// Remote implements [storage.Locator].
func (s slow) Remote() bool { return true }

func bucketStore(t *testing.T, rawURL string) storage.Store {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	store, err := s3.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// startServer returns a client of a server that is closed when the test ends.
func startServer(t *testing.T, store storage.Store, config server.Config) http.RoundTripper {
	t.Helper()
	s, err := server.New(store, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return inprocess.Transport(s)
}

// An alternating client sends each request to the next server.
type alternating struct {
	servers []http.RoundTripper
	n       atomic.Int64
}

func (a *alternating) RoundTrip(r *http.Request) (*http.Response, error) {
	return a.servers[int(a.n.Add(1))%len(a.servers)].RoundTrip(r)
}

// TestServersInAnyOrder: several servers over one store behave like one, even for a
// consumer that sends its requests to all of them in turn while the feed grows.
func TestServersInAnyOrder(t *testing.T) {
	t.Parallel()
	const entities = 150
	for name, stores := range map[string]func(t *testing.T) (writing, one, other storage.Store){
		"memory": func(*testing.T) (writing, one, other storage.Store) {
			m := memory.New()
			return m, slow{m}, slow{m}
		},
		"S3": func(t *testing.T) (writing, one, other storage.Store) {
			at := s3test.Start(t).URL("any/order")
			return bucketStore(t, at), bucketStore(t, at), bucketStore(t, at)
		},
	} {
		t.Run(name, func(t *testing.T) {
			writing, one, other := stores(t)
			cache, err := pagecache.Open(pagecache.Config{Dir: t.TempDir(), Size: 16 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer cache.Close()
			servers := &alternating{servers: []http.RoundTripper{
				startServer(t, one, server.Config{PollInterval: 10 * time.Millisecond}),
				startServer(t, other, server.Config{PollInterval: 10 * time.Millisecond, Cache: cache}),
			}}
			f, err := producer.Open(t.Context(), writing, "f", producer.Config{MaxPageEntities: 7})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			id := func(n int) string { return fmt.Sprintf("<%d>", n) }
			publish := func(n int) {
				receipt, err := f.Publish(t.Context(), &feed.Entity{ContentID: id(n), Operation: feed.Put, ContentType: "text/plain", Body: []byte("x")})
				if err != nil {
					t.Error(err)
					return
				}
				// A published entity is visible on every server.
				for range servers.servers {
					body := getBody(t, servers, layout.FeedPagePath("f", receipt.Page))
					if !bytes.Contains(body, []byte(id(n))) {
						t.Errorf("entity %d is not on page %d after it was published", n, receipt.Page)
					}
				}
			}
			publish(0)
			var publishing sync.WaitGroup
			defer publishing.Wait()
			publishing.Go(func() {
				for n := 1; n < entities; n++ {
					publish(n)
				}
			})
			client, err := consumer.New(consumer.Config{HTTPClient: &http.Client{Transport: servers}, Follow: true})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for e, err := range client.Entities(t.Context(), "http://feeds.example"+layout.FeedPath("f"), consumer.Beginning()) {
				if err != nil {
					t.Fatal(err)
				}
				if e.ContentID != id(n) {
					t.Fatalf("entity %d is %s", n, e.ContentID)
				}
				if n++; n == entities {
					break
				}
			}
		})
	}
}

func getBody(t *testing.T, client http.RoundTripper, path string, fields ...string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://feeds.example"+path, nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	response, err := client.RoundTrip(r)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Errorf("GET %s: %s, %v", path, response.Status, err)
	}
	sum := sha256.Sum256(body)
	if want := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"; response.StatusCode == http.StatusOK && response.Header.Get("Repr-Digest") != want {
		t.Errorf("GET %s: Repr-Digest %s, want %s", path, response.Header.Get("Repr-Digest"), want)
	}
	return body
}

// TestSnapshotPagesFromS3 reads a snapshot through a server, whole and in parts.
func TestSnapshotPagesFromS3(t *testing.T) {
	t.Parallel()
	store := bucketStore(t, s3test.Start(t).URL(""))
	const size = 9 << 20 // more than is read at a time
	var all iter.Seq2[*feed.Entity, error] = func(yield func(*feed.Entity, error) bool) {
		for i, n := range []int{10, size} {
			e := &feed.Entity{ContentID: fmt.Sprintf("<%d>", i), Operation: feed.Put, ContentType: "text/plain", Body: bytes.Repeat([]byte{'a' + byte(i)}, n)}
			if !yield(e, nil) {
				return
			}
		}
	}
	index, err := snapshots.Write(t.Context(), store, "s", all, snapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client := startServer(t, store, server.Config{})
	total := 0
	for _, path := range index.Pages {
		whole := getBody(t, client, path)
		total += len(whole)
		for _, part := range [][2]int{{0, 9}, {100, 200}, {len(whole) / 2, len(whole) - 1}} {
			got := getBody(t, client, path, "Range", fmt.Sprintf("bytes=%d-%d", part[0], part[1]))
			if !bytes.Equal(got, whole[part[0]:min(part[1]+1, len(whole))]) {
				t.Errorf("%s: the response for bytes %d to %d is wrong, and has %d bytes", path, part[0], part[1], len(got))
			}
		}
	}
	if total < size {
		t.Errorf("the snapshot has %d bytes", total)
	}
}
