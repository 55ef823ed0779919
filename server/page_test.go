package server_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

func reprDigest(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// header returns the header fields that the server sets.
func header(h http.Header) map[string]string {
	fields := make(map[string]string)
	for name, values := range h {
		switch name {
		case "Date", "Connection", "Transfer-Encoding":
		default:
			fields[name] = strings.Join(values, " | ")
		}
	}
	return fields
}

// wantPage returns the header of a page of feed f.
func wantPage(p *chain.Page, id feed.Identity, base string, newest, floor int64, body []byte, contentLocation bool) map[string]string {
	url := func(n int64) string { return fmt.Sprintf("%s/feeds/f/pages/%d", base, n) }
	links := []string{fmt.Sprintf(`<%s>; rel="self"`, url(p.Number))}
	if p.Number > floor {
		links = append(links, fmt.Sprintf(`<%s>; rel="prev"`, url(p.Number-1)))
	}
	want := map[string]string{
		"Accept-Ranges":          "bytes",
		"Cache-Control":          "private, no-cache",
		"Content-Length":         fmt.Sprint(len(body)),
		"Content-Type":           page.ContentType(p.Boundary),
		"Etag":                   `"` + p.SHA256[:32] + `"`,
		"Last-Modified":          epochHTTP,
		"Repr-Digest":            reprDigest(body),
		"Vary":                   "Accept-Encoding",
		"X-Content-Type-Options": "nosniff",
	}
	c := feed.Chain{Prev: p.Prev, Identity: id}
	if p.Closed {
		c.Self = p.Digest()
	}
	if p.Number < newest {
		c.Identity.Epoch = feed.Epoch{}
	}
	want[feed.ChainHeader] = c.Header()
	if p.Number < newest {
		links = append(links, fmt.Sprintf(`<%s>; rel="next"`, url(p.Number+1)))
		want["Cache-Control"] = "private, max-age=31536000, immutable"
		want["Etag"] = `"` + p.SHA256[:32] + `-l"`
	}
	if p.Number == newest {
		links = append(links, fmt.Sprintf(`<%s>; rel="first"`, url(floor)))
	}
	links = append(links, fmt.Sprintf(`<%s/feeds/f>; rel="last"`, base))
	if p.Number == newest {
		links = append(links, fmt.Sprintf(`<%s/feeds/f/at>; rel="timegate"`, base))
		links = append(links, fmt.Sprintf(`<%s/digests/f>; rel="describedby"`, base))
	}
	links = append(links, fmt.Sprintf(`<%s/feeds/f/index/0>; rel="timemap"; type="application/json"`, base))
	if contentLocation {
		want["Content-Location"] = url(p.Number)
	}
	want["Link"] = strings.Join(links, " | ")
	return want
}

func TestPages(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		ctx := context.Background()
		publishTo(t, store, "f", 1, 7) // pages of 3, 3 and 1
		c := connect(t, newServer(t, store, server.Config{}))
		reader := chain.NewReader(store, "f")
		id, err := chain.ReadIdentity(ctx, store, "f")
		check(t, err)
		for _, tt := range []struct {
			path   string
			number int64
			parts  int
		}{{"/feeds/f", 3, 1}, {"/feeds/f/pages/3", 3, 1}, {"/feeds/f/pages/2", 2, 3}, {"/feeds/f/pages/1", 1, 3}, {"/feeds/f/pages/1", 1, 3}} {
			p, err := reader.Stat(ctx, tt.number)
			check(t, err)
			head := c.do(t, http.MethodHead, tt.path, "")
			got := c.get(t, tt.path)
			if got.StatusCode != http.StatusOK || parts(got.body) != tt.parts {
				t.Fatalf("GET %s: %s with %d parts", tt.path, got.Status, parts(got.body))
			}
			want := wantPage(p, id, c.url, 3, 1, got.body, tt.path == "/feeds/f")
			if diff := cmp.Diff(want, header(got.Header)); diff != "" {
				t.Errorf("GET %s (-want +got):\n%s", tt.path, diff)
			}
			if diff := cmp.Diff(want, header(head.Header)); diff != "" || head.StatusCode != 200 || len(head.body) > 0 {
				t.Errorf("HEAD %s: %s (-want +got):\n%s", tt.path, head.Status, diff)
			}
			checkPage(t, got, tt.parts)
		}

		// The newest page grows: its ETag and digest change, and are correct.
		before := c.get(t, "/feeds/f")
		publishTo(t, store, "f", 8, 1)
		after := c.get(t, "/feeds/f")
		p, err := reader.Stat(ctx, 3)
		check(t, err)
		if diff := cmp.Diff(wantPage(p, id, c.url, 3, 1, after.body, true), header(after.Header)); diff != "" {
			t.Errorf("after an append (-want +got):\n%s", diff)
		}
		if before.Header.Get("Etag") == after.Header.Get("Etag") {
			t.Error("ETag is the same after an append")
		}

		// The page is closed; then it gets a next link, which is a change, too.
		publishTo(t, store, "f", 9, 1)
		closed := c.get(t, "/feeds/f/pages/3")
		publishTo(t, store, "f", 10, 1)
		linked := c.get(t, "/feeds/f/pages/3")
		if string(closed.body) != string(linked.body) || closed.Header.Get("Etag") == linked.Header.Get("Etag") {
			t.Errorf("closed and linked page: ETags %s and %s", closed.Header.Get("Etag"), linked.Header.Get("Etag"))
		}
		if newest := c.get(t, "/feeds/f"); newest.Header.Get("Repr-Digest") != reprDigest(newest.body) {
			t.Errorf("newest page after another one: Repr-Digest %s", newest.Header.Get("Repr-Digest"))
		}
		notNew := c.get(t, "/feeds/f/pages/3", "If-None-Match: "+closed.Header.Get("Etag"))
		if notNew.StatusCode != http.StatusOK || !strings.Contains(strings.Join(notNew.Header["Link"], ""), `rel="next"`) {
			t.Errorf("with the ETag from before the next link: %s", notNew.Status)
		}
	})
}

// checkPage reads a page with package page.
func checkPage(t *testing.T, got answer, want int) {
	t.Helper()
	boundary, err := page.Boundary(got.Header.Get("Content-Type"))
	check(t, err)
	n := 0
	for part, err := range page.NewReader(strings.NewReader(string(got.body)), boundary, page.ReaderOptions{Strict: true}).Parts() {
		check(t, err)
		var e feed.Entity
		check(t, feed.Parse(&e, part, true))
		n++
	}
	if n != want {
		t.Errorf("page has %d entities, want %d", n, want)
	}
}

func TestPrunedPages(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		ctx := context.Background()
		publishTo(t, store, "f", 1, 10)
		_, err := chain.RaiseFloor(ctx, store, "f", 3)
		check(t, err)
		c := connect(t, newServer(t, store, server.Config{}))
		gone := c.get(t, "/feeds/f/pages/2") // below the floor, though still in the store
		if name, _ := gone.problem(t); gone.StatusCode != http.StatusGone || name != "page-pruned" || gone.Header.Get("Link") != "" {
			t.Errorf("pruned page: %s, Link %q", gone.Status, gone.Header.Get("Link"))
		}
		check(t, store.Delete(ctx, layout.FeedPage("f", 1)))
		writeSnapshot(t, store, "f", 1)
		gone = c.get(t, "/feeds/f/pages/1")
		if want := "<" + c.url + `/snapshots/f>; rel="snapshot"`; gone.StatusCode != http.StatusGone || gone.Header.Get("Link") != want {
			t.Errorf("pruned page: %s, Link %q, want %q", gone.Status, gone.Header.Get("Link"), want)
		}
		_, err = retention.Change(ctx, store, "f", func(p *retention.Policy) error {
			*p = retention.Policy{KeepAge: 48 * time.Hour, SnapshotEvery: time.Hour, KeepSnapshots: 1}
			return nil
		})
		check(t, err)
		_, said := c.get(t, "/feeds/f/pages/2").problem(t)
		if at, err := time.Parse(time.RFC3339, fmt.Sprint(said["oldestTime"])); err != nil || at.IsZero() || said["snapshot"] != c.url+"/snapshots/f" ||
			said["keepAgeSeconds"] != 172_800.0 || said["oldestPage"] != c.url+"/feeds/f/pages/3" {
			t.Errorf("problem of a pruned page: %v", said)
		}
		oldest := c.get(t, "/feeds/f/pages/3")
		if links := strings.Join(oldest.Header["Link"], ""); oldest.StatusCode != 200 || strings.Contains(links, "prev") {
			t.Errorf("oldest page: %s, Link %q", oldest.Status, links)
		}
	})
}

func TestLinksWithoutHost(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 1, 1)
	web := httptest.NewServer(newServer(t, store, server.Config{}))
	defer web.Close()
	c, err := net.Dial("tcp", web.Listener.Addr().String())
	check(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET /feeds/f HTTP/1.0\r\n\r\n")
	check(t, err)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	check(t, err)
	defer response.Body.Close()
	if want := "<" + web.URL + `/feeds/f/pages/1>; rel="self"`; response.Header.Get("Link") != want {
		t.Errorf("Link %s, want %s", response.Header.Get("Link"), want)
	}
}

// TestPruneWhileServing: a server that has served a page learns within a second that the page was pruned.
func TestPruneWhileServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := struct{ storage.Store }{memory.New()}
		config := server.Config{Writable: true}
		config.Producer.MaxPageEntities = 1
		c := inside(t, newServer(t, store, config))
		for n := range 3 {
			c.post(t, "f", fmt.Sprintf("<%d>", n))
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if got := c.do(t, method, "/feeds/f/pages/1", ""); got.StatusCode != 200 {
				t.Errorf("%s before: %s", method, got.Status)
			}
		}
		_, err := chain.RaiseFloor(t.Context(), store, "f", 2) // the page itself is still in the store
		check(t, err)
		time.Sleep(time.Second)
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if got := c.do(t, method, "/feeds/f/pages/1", ""); got.StatusCode != 410 {
				t.Errorf("%s after: %s", method, got.Status)
			}
		}
		if links := fmt.Sprint(c.get(t, "/feeds/f/pages/2").Header["Link"]); strings.Contains(links, "prev") {
			t.Errorf("page after the pruned one has %s", links)
		}
	})
}

// A meddling store calls a function before the body of a page is opened.
type meddling struct {
	storage.Store
	before func()
}

func (m *meddling) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if before := m.before; before != nil && strings.Contains(key, "/pages/") {
		m.before = nil
		before()
	}
	return m.Store.Get(ctx, key, offset, length)
}

// TestPageChangesWhileAnswering: a response has one state of the page, even if the page changes after
// its metadata was read and before its body is opened.
func TestPageChangesWhileAnswering(t *testing.T) {
	for _, fields := range [][]string{nil, {"Range: bytes=-30"}, {"Range: bytes=0-30"}, {`If-None-Match: "x"`}, {"Accept-Encoding: zstd"}} {
		inner := memory.New()
		store := &meddling{Store: inner}
		publishTo(t, inner, "f", 1, 1)
		c := inside(t, newServer(t, store, server.Config{}))
		store.before = func() { publishTo(t, inner, "f", 2, 1) }
		got := c.get(t, "/feeds/f", fields...)
		after := c.get(t, "/feeds/f", fields...)
		if diff := cmp.Diff(header(after.Header), header(got.Header)); diff != "" || string(got.body) != string(after.body) || parts(c.get(t, "/feeds/f").body) != 2 {
			t.Errorf("%q (-after +meanwhile):\n%s", fields, diff)
		}
	}
}

func TestLinksOfPublicURL(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		publishTo(t, store, "f", 1, 4)
		for public, want := range map[string]string{
			"":                          "",
			"https://example.org":       "https://example.org",
			"https://example.org/data/": "https://example.org/data",
		} {
			c := connect(t, newServer(t, store, server.Config{PublicURL: public}))
			if want == "" {
				want = c.url
			}
			got := c.get(t, "/feeds/f", "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https", "Forwarded: host=evil.example")
			wantLinks := []string{
				"<" + want + `/feeds/f/pages/2>; rel="self"`, "<" + want + `/feeds/f/pages/1>; rel="prev"`,
				"<" + want + `/feeds/f/pages/1>; rel="first"`, "<" + want + `/feeds/f>; rel="last"`, "<" + want + `/feeds/f/at>; rel="timegate"`,
				"<" + want + `/digests/f>; rel="describedby"`,
				"<" + want + `/feeds/f/index/0>; rel="timemap"; type="application/json"`,
			}
			if diff := cmp.Diff(wantLinks, got.Header["Link"]); diff != "" {
				t.Errorf("PublicURL %q (-want +got):\n%s", public, diff)
			}
		}
	})
}

func TestNotFound(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		publishTo(t, store, "f", 1, 4)
		writeSnapshot(t, store, "s", 2)
		c := connect(t, newServer(t, store, server.Config{}))
		id := newestID(t, store, "s")
		for path, want := range map[string]string{
			"/nothing":                              "no-resource",
			"/feeds":                                "no-resource",
			"/feeds/f/":                             "no-resource",
			"/feeds/f/pages":                        "no-resource",
			"/feeds/empty":                          "no-feed",
			"/feeds/empty/pages/1":                  "no-feed",
			"/feeds/..":                             "no-feed",
			"/feeds/%2e%2e":                         "no-feed",
			"/feeds/a%2Fb":                          "no-feed",
			"/feeds/%00":                            "no-feed",
			"/feeds/" + strings.Repeat("x", 200):    "no-feed",
			"/feeds/f/pages/0":                      "no-page",
			"/feeds/f/pages/3":                      "no-page",
			"/feeds/f/pages/01":                     "no-page",
			"/feeds/f/pages/+1":                     "no-page",
			"/feeds/f/pages/-1":                     "no-page",
			"/feeds/f/pages/1.0":                    "no-page",
			"/feeds/f/pages/99999999999999999999":   "no-page",
			"/feeds/f/pages/9223372036854775807":    "no-page",
			"/snapshots/none":                       "no-snapshot",
			"/snapshots/..":                         "no-snapshot",
			"/snapshots/s/none":                     "no-snapshot",
			"/snapshots/s/none/pages/0":             "no-snapshot",
			"/snapshots/s/" + id + "/pages/7":       "no-page",
			"/snapshots/s/" + id + "/pages/-1":      "no-page",
			"/snapshots/s/" + id + "/pages/1e6":     "no-page",
			"/snapshots/s/" + id + "/pages/999999":  "no-page",
			"/snapshots/s/" + id + "/pages/1000000": "no-page",
		} {
			got := c.get(t, path)
			if name, _ := got.problem(t); got.StatusCode != http.StatusNotFound || name != want {
				t.Errorf("GET %s: %s %s, want 404 %s", path, got.Status, name, want)
			}
			if head := c.do(t, http.MethodHead, path, ""); head.StatusCode != http.StatusNotFound || len(head.body) > 0 {
				t.Errorf("HEAD %s: %s", path, head.Status)
			}
		}
	})
}
