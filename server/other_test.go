package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

func TestDirectory(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		c := connect(t, newServer(t, store, server.Config{}))
		if got := c.get(t, "/"); string(got.body) != "{\"feeds\":[],\"snapshots\":[]}\n" {
			t.Errorf("empty: %s", got.body)
		}
		publishTo(t, store, "b", 1, 1)
		publishTo(t, store, "a", 1, 4)
		writeSnapshot(t, store, "s", 1)
		got := c.get(t, "/")
		var d server.Directory
		check(t, json.Unmarshal(got.body, &d))
		want := server.Directory{
			Feeds:     []server.DirectoryEntry{{Name: "a", URL: c.url + "/feeds/a"}, {Name: "b", URL: c.url + "/feeds/b"}},
			Snapshots: []server.DirectoryEntry{{Name: "s", URL: c.url + "/snapshots/s"}},
		}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("directory (-want +got):\n%s", diff)
		}
		if got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Vary") != "Accept" {
			t.Errorf("header %v", got.Header)
		}
		html := c.get(t, "/", "Accept: text/html,*/*;q=0.8")
		if !strings.Contains(string(html.body), `<a href="`+c.url+`/feeds/a">a</a>`) || html.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("HTML: %s", html.body)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer",
		} {
			if got := html.Header.Get(name); got != want {
				t.Errorf("HTML: %s %q", name, got)
			}
		}
	})
}

func TestHealth(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		c := connect(t, newServer(t, store, server.Config{}))
		for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
			got := c.get(t, path)
			if got.StatusCode != 200 || string(got.body) != want || got.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("GET %s: %s %q", path, got.Status, got.body)
			}
		}
	})
}

func TestOperationsAreOptIn(t *testing.T) {
	s, err := server.New(memory.New(), server.Config{})
	check(t, err)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if got := inside(t, s).get(t, path); got.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %s", path, got.Status)
		}
	}
	check(t, s.Close(t.Context()))
}

func TestMetrics(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		publishTo(t, store, "f", 1, 7)
		c := connect(t, newServer(t, store, server.Config{Writable: true}))
		other := connect(t, newServer(t, store, server.Config{})) // has separate metrics
		page := c.get(t, "/feeds/f/pages/1")
		c.get(t, "/feeds/f/pages/1", "If-None-Match: *")
		c.get(t, "/feeds/none")
		c.get(t, "/wp-login.php")
		c.do(t, "DELETE", "/feeds/f", "")
		c.post(t, "g", "<1>")
		c.post(t, "g", "<1>")
		text := string(c.get(t, "/metrics").body)
		for !strings.Contains(text, "\nfeedctl_feeds_left_out 0\n") { // feeds are polled in the background
			text = string(c.get(t, "/metrics").body)
		}
		for _, want := range []string{
			`feedctl_http_requests_total{code="200",method="GET",route="/feeds/{feed}/pages/{n}"} 1`,
			`feedctl_http_requests_total{code="304",method="GET",route="/feeds/{feed}/pages/{n}"} 1`,
			`feedctl_http_requests_total{code="404",method="GET",route="/feeds/{feed}"} 1`,
			`feedctl_http_requests_total{code="404",method="GET",route="other"} 1`,
			`feedctl_http_requests_total{code="405",method="other",route="/feeds/{feed}"} 1`,
			fmt.Sprintf(`feedctl_http_response_bytes_total{route="/feeds/{feed}/pages/{n}"} %d`, len(page.body)),
			`feedctl_http_request_duration_seconds_count{route="/feeds/{feed}/pages/{n}"} 2`,
			`feedctl_http_waiters 0`,
			`feedctl_published_entities_total{feed="g"} 1`,
			`feedctl_duplicate_entities_total{feed="g"} 1`,
			`feedctl_feed_newest_page{feed="f"} 3`,
			`feedctl_feed_newest_page{feed="g"} 1`,
			`feedctl_feed_last_modified_timestamp_seconds{feed="f"} 1.70105460025e+09`,
			`go_goroutines `,
		} {
			if !strings.Contains(text, "\n"+want) {
				t.Errorf("metrics lack %s", want)
			}
		}
		if strings.Contains(string(other.get(t, "/metrics").body), "published_entities_total{") {
			t.Error("servers share metrics")
		}
	})
}

// breaking is a store whose bodies end early or return an error.
type breaking struct {
	storage.Store
	after atomic.Int64 // bytes; 0: all is well
	err   error
}

func (s *breaking) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	object, err := s.Store.Get(ctx, key, offset, length)
	if after := s.after.Load(); err == nil && after > 0 {
		object.Body = broken{io.LimitReader(object.Body, after), object.Body, s.err}
	}
	return object, err
}

type broken struct {
	io.Reader
	io.Closer
	err error
}

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

// TestStoreBreaksInsideBody: a response that the store cuts short must not look like a whole page.
func TestStoreBreaksInsideBody(t *testing.T) {
	for name, cause := range map[string]error{"ends early": io.EOF, "breaks": errors.New("disk on fire")} {
		t.Run(name, func(t *testing.T) {
			store := &breaking{Store: memory.New(), err: cause}
			publishTo(t, store, "f", 1, 4)
			s := newServer(t, store, server.Config{MaxEncoded: -1}) // reads each response from the store
			for _, c := range []*site{overNetwork(t, s), inside(t, s)} {
				for _, fields := range [][]string{nil, {"Accept-Encoding", "gzip"}, {"Accept-Encoding", "zstd"}} {
					for _, path := range []string{"/feeds/f", "/feeds/f/pages/1"} {
						r, err := http.NewRequest(http.MethodGet, c.url+path, nil)
						check(t, err)
						if fields != nil {
							r.Header.Set(fields[0], fields[1])
						}
						store.after.Store(0)
						whole, err := c.client.Do(r)
						check(t, err)
						size := len(readAll(t, whole))
						store.after.Store(100)
						response, err := c.client.Do(r)
						if err != nil {
							continue // cut before the header was sent
						}
						body, err := io.ReadAll(response.Body)
						response.Body.Close()
						if err == nil {
							t.Errorf("GET %s %q: %d of %d bytes and no error", path, fields, len(body), size)
						}
					}
				}
			}
		})
	}
}
