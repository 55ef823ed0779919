package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

// eachStore runs a test with each driver, over the network and within the process.
func eachStore(t *testing.T, test func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site)) {
	t.Helper()
	for _, store := range []struct {
		name string
		make func(*testing.T) storage.Store
	}{
		{"memory", func(*testing.T) storage.Store { return memory.New() }},
		{"far", func(*testing.T) storage.Store { return far(memory.New(), 0) }},
		{"far with cache", func(t *testing.T) storage.Store {
			return cachedStore{far(memory.New(), 0), openCache(t, t.TempDir(), 64<<20)}
		}},
		{"file", func(t *testing.T) storage.Store {
			store, err := file.New(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			return store
		}},
	} {
		for name, connect := range map[string]func(*testing.T, http.Handler) *site{"network": overNetwork, "inside": inside} {
			t.Run(store.name+"/"+name, func(t *testing.T) {
				opened := store.make(t)
				t.Cleanup(func() { check(t, opened.Close()) })
				test(t, opened, connect)
			})
		}
	}
}

// A site is a server as a client sees it.
type site struct {
	url    string
	client *http.Client
}

func overNetwork(t *testing.T, h http.Handler) *site {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &site{s.URL, &http.Client{Transport: transport}}
}

func inside(_ *testing.T, h http.Handler) *site {
	return &site{"http://store.example", &http.Client{Transport: inprocess.Transport(h)}}
}

// A cachedStore is a store with the cache that newServer configures for it.
type cachedStore struct {
	*farStore
	cache *pagecache.Cache
}

// newServer returns a server with Config.Operations, which is closed when the test ends.
func newServer(t *testing.T, store storage.Store, c server.Config) *server.Server {
	t.Helper()
	c.Operations = true
	c.Producer.SpoolDir = t.TempDir()
	if cached, ok := store.(cachedStore); ok {
		c.Cache = cached.cache
	}
	s, err := server.New(store, c)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close(context.Background())) })
	return s
}

// An answer is a response whose body has been read.
type answer struct {
	*http.Response
	body []byte
}

func (a answer) problem(t *testing.T) (name string, members map[string]any) {
	t.Helper()
	if a.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%s with Content-Type %q, want a problem: %s", a.Status, a.Header.Get("Content-Type"), a.body)
	}
	check(t, json.Unmarshal(a.body, &members))
	if members["status"] != float64(a.StatusCode) || members["title"] == "" || members["detail"] == "" {
		t.Errorf("problem %s of a %s", a.body, a.Status)
	}
	kind, _ := members["type"].(string)
	name, ok := strings.CutPrefix(kind, "urn:feedctl:problem:")
	if !ok {
		t.Errorf("problem has type %q", kind)
	}
	return name, members
}

// do sends a request with header fields of the form "Name: value".
func (s *site) do(t *testing.T, method, path, body string, fields ...string) answer {
	t.Helper()
	return s.doContext(context.Background(), t, method, path, body, fields...)
}

func (s *site) doContext(ctx context.Context, t *testing.T, method, path, body string, fields ...string) answer {
	t.Helper()
	url := path
	if strings.HasPrefix(path, "/") {
		url = s.url + path
	}
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	check(t, err)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	response, err := s.client.Do(r)
	check(t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	check(t, err)
	return answer{response, data}
}

func (s *site) get(t *testing.T, path string, fields ...string) answer {
	t.Helper()
	return s.do(t, http.MethodGet, path, "", fields...)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// epoch is when the entities of these tests are published.
var epoch = time.Date(2023, 11, 27, 3, 10, 0, 250e6, time.UTC)

const epochHTTP = "Mon, 27 Nov 2023 03:10:00 GMT"

// publishTo publishes n entities in pages of at most three, the first with the
// Content-ID <from>.
func publishTo(t *testing.T, store storage.Store, name string, from, n int) {
	t.Helper()
	f, err := producer.Open(context.Background(), store, name, producer.Config{
		MaxPageEntities: 3, MaxClockSkew: time.Minute, Now: func() time.Time { return epoch }, SpoolDir: t.TempDir(),
	})
	check(t, err)
	defer f.Close()
	for i := range n {
		_, err := f.Publish(context.Background(), entity(from+i))
		check(t, err)
	}
}

func entity(i int) *feed.Entity {
	body := fmt.Sprintf(`{"id":%d,"text":%q}`, i, strings.Repeat("feed ", 20))
	return &feed.Entity{
		ContentID: fmt.Sprintf("<%d>", i), Operation: feed.Put, ContentType: "application/json",
		ContentLocation: fmt.Sprintf("key-%d", i), Body: []byte(body),
	}
}

// parts counts the parts of a page.
func parts(body []byte) int { return bytes.Count(body, []byte("Content-ID: ")) }
