package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/longfeed"
	"github.com/feedctl/feedctl/layout"
	feedpage "github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// pagesIn returns the first and the last page of a list, the number of rows, and the page that is marked.
func pagesIn(html string) (first, last string, rows int, marked string) {
	for _, row := range strings.Split(html, "<tr")[2:] {
		_, number, _ := strings.Cut(row, "n=")
		number, _, _ = strings.Cut(number, `"`)
		if rows++; rows == 1 {
			first = number
		}
		if last = number; strings.HasPrefix(row, ` class="target"`) {
			marked = number
		}
	}
	return first, last, rows, marked
}

// TestPages lists the pages of a long feed, by number and by time.
func TestPages(t *testing.T) {
	t.Parallel()
	const pages = 1000
	store := longfeed.New(memory.New(), "long", pages, func(n int64) time.Time { return start.Add(time.Duration(n) * time.Minute) })
	if _, err := chain.RaiseFloor(t.Context(), store, "long", 101); err != nil {
		t.Fatal(err)
	}
	c := newConsole(t, store, nil)
	for query, want := range map[string]string{
		"":                                  "1000 951 50 ",
		"&from=950":                         "950 901 50 ",
		"&from=1":                           "150 101 50 ",
		"&from=99999":                       "1000 951 50 ",
		"&to=500":                           "502 453 50 500",
		"&to=1":                             "103 101 3 101",
		"&to=5000":                          "1000 951 50 1000",
		"&to=+2026-02-03T12:25:06Z":         "502 453 50 500", // start plus 500 minutes
		"&to=2026-02-03+12:25":              "502 453 50 500",
		"&to=2026-02-03T13:25%2B01:00":      "502 453 50 500",
		"&to=2026-02-03T12:25:07":           "503 454 50 501",
		"&to=Tue,+03+Feb+2026+12:25:06+GMT": "502 453 50 500",
		"&to=2020-01-01":                    "103 101 3 101",
		"&to=2030-01-01":                    "1000 951 50 1000",
	} {
		path := "/pages?feed=long" + query
		first, last, rows, marked := pagesIn(shows(t, c, path, 200))
		if got := fmt.Sprint(first, " ", last, " ", rows, " ", marked); got != want {
			t.Errorf("%s has %q, want %q", path, got, want)
		}
	}
	html, lists := shows(t, c, "/pages?feed=long", 200), 1
	for next := linkOf(html, "Older pages"); next != ""; next = linkOf(html, "Older pages") {
		html = shows(t, c, "/"+next, 200)
		lists++
	}
	if first, last, rows, _ := pagesIn(html); lists != 18 || first != "150" || last != "101" || rows != 50 {
		t.Errorf("list %d is %s to %s, %d rows", lists, first, last, rows)
	}
	_, newest, _, err := c.config.Feeds.Look(t.Context(), "long")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "/pages", shows(t, c, "/pages?feed=long", 200), newest.Digest(), newest.Digest()[:12]+"…", ">closed<", "101 to 1,000")
}

// TestPage shows a page with many entities.
func TestPage(t *testing.T) {
	t.Parallel()
	store := memory.New()
	var many []feed.Entity
	for i := range 120 {
		many = append(many, ago(fmt.Sprint(i), time.Hour))
	}
	writeFeed(t, store, "zones", many, []feed.Entity{ago("x", time.Minute)})
	c := newConsole(t, store, func(c *Config) { c.FeedsURL = "https://feeds.example" })
	const first = "/page?feed=zones&n=1"
	html := shows(t, c, first, 200)
	expect(t, first, html, "2026-02-03 03:05:06</time>", "Entities 0 to 49", ">&lt;0&gt;<", ">&lt;49&gt;<", "key-49", ">closed<", ">PUT<", "2 B", `href="page?feed=zones&amp;n=2">Page after<`, "curl https://feeds.example/feeds/zones/pages/1")
	next := "/" + linkOf(html, "Next entities")
	html = shows(t, c, next, 200)
	expect(t, next, html, "Entities 50 to 99", ">&lt;50&gt;<", `href="entity?feed=zones&amp;i=50&amp;n=1"`, ">First entities<")
	html = shows(t, c, "/"+linkOf(html, "Next entities"), 200)
	if strings.Contains(html, "Next entities") || !strings.Contains(html, "Entities 100 to 119") {
		t.Errorf("the last entities are\n%s", html)
	}
	const second = "/page?feed=zones&n=2"
	expect(t, second, shows(t, c, second, 200), "open</span>", ">&lt;x&gt;<", `rel="prev">Page before<`)
}

// TestLargePage lists the entities of a page of many GiB without reading their bodies.
func TestLargePage(t *testing.T) {
	t.Parallel()
	const entities, size = 130, 1 << 30
	store := newLargePage(t, entities, size)
	c := newConsole(t, store, nil)
	var ids []string
	path := "/page?feed=films&n=1"
	for lists := 0; path != "/"; lists++ {
		store.read.Store(0)
		html := shows(t, c, path, 200)
		expect(t, path, html, "its digest is not checked here", "1.0 GiB")
		for _, part := range strings.Split(html, `"key">key-`)[1:] {
			id, _, _ := strings.Cut(part, "<")
			ids = append(ids, id)
		}
		if n := store.read.Load(); n > entitiesAPage*chunkSize {
			t.Errorf("%s reads %d bytes", path, n)
		}
		path = "/" + strings.ReplaceAll(linkOf(html, "Next entities"), "&amp;", "&")
	}
	var want []string
	for i := range entities {
		want = append(want, fmt.Sprint(i))
	}
	if !slices.Equal(ids, want) {
		t.Errorf("the entities are %q", ids)
	}
	if html := shows(t, c, "/feed?name=films", 200); !strings.Contains(html, "There are no entities to show here") {
		t.Errorf("the page of the feed shows entities, although finding them takes reading all of its last page:\n%s", html)
	}
	// In the middle of a body there is no entity.
	expect(t, "/page", shows(t, c, "/page?feed=films&n=1&from=3&at=5000", 500), "<h1>")
}

// A largePage is a store with a page whose bodies are generated when they are read.
type largePage struct {
	storage.Store
	info  storage.Info
	parts []repeated
	read  atomic.Int64 // bytes
}

func newLargePage(t *testing.T, entities int, size int64) *largePage {
	t.Helper()
	s := &largePage{Store: memory.New()}
	p := &chain.Page{Feed: "films", Number: 1, Entities: entities, First: start, Last: start, LastContentID: "<0>", Boundary: "boundary", SHA256: "unknown"}
	for i := range entities {
		e := put(fmt.Sprintf("<%d>", i), fmt.Sprintf("key-%d", i), "")
		e.LastModified = start
		head, err := feedpage.AppendPartHeader(nil, p.Boundary, e.AppendHeader(nil), size)
		if err != nil {
			t.Fatal(err)
		}
		s.parts = append(s.parts, repeated{string(head), "\r\n", size})
	}
	meta, err := p.Meta()
	if err != nil {
		t.Fatal(err)
	}
	s.info = storage.Info{Key: layout.FeedPage("films", 1), Version: "1", Modified: start, Meta: meta}
	for _, part := range s.parts {
		s.info.Size += part.Size()
	}
	return s
}

func (s *largePage) Stat(ctx context.Context, key string) (storage.Info, error) {
	if key == s.info.Key {
		return s.info, nil
	}
	return s.Store.Stat(ctx, key)
}

func (s *largePage) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if key != s.info.Key {
		return s.Store.Get(ctx, key, offset, length)
	}
	s.read.Add(length)
	for _, part := range s.parts {
		if offset < part.Size() {
			body, err := storage.OpenFrom(part, offset)
			return &storage.Object{Info: s.info, Body: body}, err
		}
		offset -= part.Size()
	}
	return nil, fmt.Errorf("offset is %d bytes beyond the end", offset)
}

// TestSnapshots lists all snapshots by name, and the snapshots with a given name.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	store := memory.New()
	writeFeed(t, store, "zones", []feed.Entity{ago("1", time.Hour)})
	c := newConsole(t, store, nil)
	expect(t, "/snapshots", shows(t, c, "/snapshots", 200), "There are no snapshots here.", "feedctl snapshot list --store memory:")
	one := func(yield func(*feed.Entity, error) bool) {
		yield(&feed.Entity{ContentType: "text/plain", ContentLocation: "a", Body: []byte("a")}, nil)
	}
	var id string
	for n := range snapshotsAPage + 2 {
		for _, name := range []string{"zones", fmt.Sprintf("s%02d", n)} {
			config := snapshots.Config{CreatedAt: start.Add(time.Duration(n) * time.Hour)}
			if name == "zones" {
				config.Feed = &snapshot.FeedPosition{URL: "/feeds/zones", Page: "/feeds/zones/pages/1", LastModified: start.Add(-time.Hour)}
			}
			index, err := snapshots.Write(t.Context(), store, name, one, config)
			if err != nil {
				t.Fatal(err)
			}
			id = index.ID
		}
	}
	html := shows(t, c, "/snapshots", 200)
	expect(t, "/snapshots", html, ">s00<", ">s24<", `<td class="n">1</td><td class="n">1</td><td>–</td>`)
	html = shows(t, c, "/"+linkOf(html, "Next page"), 200)
	expect(t, "/snapshots", html, ">s26<", ">zones<", `<a href="page?feed=zones&amp;n=1">zones, page 1</a>`, id)
	const path = "/snapshots?name=zones"
	html = shows(t, c, path, 200)
	if n := strings.Count(html, `<td class="mono">`); n != snapshotsAPage {
		t.Errorf("%s has %d snapshots", path, n)
	}
	html = shows(t, c, "/"+strings.ReplaceAll(linkOf(html, "Next page"), "&amp;", "&"), 200)
	if n := strings.Count(html, `<td class="mono">`); n != 2 {
		t.Errorf("the second page of %s has %d snapshots", path, n)
	}
	expect(t, "/feed", shows(t, c, "/feed?name=zones", 200), `<a href="snapshots?name=zones">5+</a>`)
}
