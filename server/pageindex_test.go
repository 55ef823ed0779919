package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/pageindex"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// publishPages publishes to feed f until it has n pages.
func publishPages(t *testing.T, store storage.Store, n int) {
	t.Helper()
	publishTo(t, store, "f", 1, 3*(n-1)+1)
}

// checkTile requests the pages that a tile lists, and compares them with the tile.
func checkTile(t *testing.T, s *site, path string, first, last int64) {
	t.Helper()
	a := s.get(t, path)
	at, err := url.Parse(s.url + path)
	check(t, err)
	tile, err := pageindex.Parse(bytes.NewReader(a.body), at)
	if err != nil || a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "application/json" || a.Header.Get("Repr-Digest") != reprDigest(a.body) {
		t.Fatalf("%s: %s, %v: %s", path, a.Status, err, a.body)
	}
	if n := int64(len(tile.Pages)); n != last-first+1 {
		t.Fatalf("%s has %d pages, want %d to %d", path, n, first, last)
	}
	for i, p := range tile.Pages {
		page := s.get(t, p.URL)
		links, err := feed.ParseLinks(at, page.Header)
		check(t, err)
		c, err := feed.ParseChain(page.Header)
		check(t, err)
		want := fmt.Sprint(first+int64(i), links.Self, len(page.body), parts(page.body), c.Self, c.Prev)
		if got := fmt.Sprint(p.Number, p.URL, p.Bytes, p.Entities, fmt.Sprintf("%x", p.Self), fmt.Sprintf("%x", p.Prev)); got != want {
			t.Errorf("%s lists %s, want %s", path, got, want)
		}
		if links.Next == "" || !p.Last.Equal(epoch) && feed.FormatTime(p.Last) != page.Header.Get("Last-Modified") {
			t.Errorf("%s: page %d has next page %q, and %v", path, p.Number, links.Next, p.Last)
		}
		if timemap, err := at.Parse(path); err != nil || links.Timemap != timemap.String() {
			t.Errorf("page %d links to tile %s, want %s", p.Number, links.Timemap, timemap)
		}
	}
}

// TestPageIndex: tiles list all pages that have a next page, and only full ones are immutable.
func TestPageIndex(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		s := connect(t, newServer(t, store, server.Config{PublicURL: ""}))
		publishPages(t, store, 1)
		if a := s.get(t, "/feeds/f/index/0"); string(a.body) != `{"tile":0,"full":false,"pages":[]}` {
			t.Errorf("tile of a feed of one page: %s %s", a.Status, a.body)
		}
		publishTo(t, store, "f", 2, 3*260)
		checkTile(t, s, "/feeds/f/index/0", 1, 256)
		checkTile(t, s, "/feeds/f/index/1", 257, 260)
		full, partial := s.get(t, "/feeds/f/index/0"), s.get(t, "/feeds/f/index/1")
		if c := full.Header.Get("Cache-Control"); c != "public, max-age=31536000, immutable" {
			t.Errorf("full tile: Cache-Control %q", c)
		}
		if c := partial.Header.Get("Cache-Control"); c != "public, no-cache" && c != "no-cache" {
			t.Errorf("partial tile: Cache-Control %q", c)
		}
		if a := s.get(t, "/feeds/f/index/1", "If-None-Match: "+partial.Header.Get("Etag")); a.StatusCode != http.StatusNotModified {
			t.Errorf("the same partial tile: %s", a.Status)
		}
		publishTo(t, store, "f", 1000, 3)
		if a := s.get(t, "/feeds/f/index/1", "If-None-Match: "+partial.Header.Get("Etag")); a.StatusCode != http.StatusOK {
			t.Errorf("a partial tile that has grown: %s", a.Status)
		}
		if again := s.get(t, "/feeds/f/index/0"); !bytes.Equal(again.body, full.body) || again.Header.Get("Etag") != full.Header.Get("Etag") {
			t.Error("a full tile has changed")
		}
		var tiles [2]pageindex.Tile
		for i, a := range []answer{full, partial} {
			check(t, json.Unmarshal(a.body, &tiles[i]))
		}
		if f, p := tiles[0], tiles[1]; !f.Full || f.Prev != "" || f.Next != "1" || p.Full || p.Prev != "0" || p.Next != "" {
			t.Errorf("full tile: %t %q %q, partial tile: %t %q %q", f.Full, f.Prev, f.Next, p.Full, p.Prev, p.Next)
		}
	})
}

// TestPageIndexErrors: a request for anything but a tile is answered with a problem.
func TestPageIndexErrors(t *testing.T) {
	store := memory.New()
	publishPages(t, store, 3)
	s := inside(t, newServer(t, store, server.Config{}))
	for path, want := range map[string]string{
		"/feeds/f/index/1": "no-page", "/feeds/f/index/-1": "no-page", "/feeds/f/index/x": "no-page", "/feeds/f/index/00": "no-page",
		"/feeds/f/index/9223372036854775807": "no-page", "/feeds/f/index/99999999999999999999": "no-page",
		"/feeds/none/index/0": "no-feed", "/feeds/f/index/": "no-resource", "/feeds/f/index": "no-resource",
	} {
		if a := s.get(t, path); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, a.Status)
		} else if name, _ := a.problem(t); name != want {
			t.Errorf("%s: problem %s, want %s", path, name, want)
		}
	}
	if a := s.do(t, http.MethodPost, "/feeds/f/index/0", ""); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", a.Status)
	}
	locked := inside(t, newServer(t, store, server.Config{ReadAuth: []server.Credential{{Bearer: strings.Repeat("x", 32)}}}))
	if a := locked.get(t, "/feeds/f/index/0"); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("without credentials: %s", a.Status)
	}
}

// TestPageIndexOfPrunedPages: a tile lists no page below the floor; if it lacks pages, it is not immutable.
func TestPageIndexOfPrunedPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		time.Sleep(time.Until(epoch)) // fake
		publishPages(t, store, 600)
		s := inside(t, newServer(t, store, server.Config{}))
		checkTile(t, s, "/feeds/f/index/1", 257, 512)
		for _, c := range []struct{ floor, first int64 }{{257, 257}, {300, 300}, {512, 512}, {513, 0}} {
			_, err := chain.RaiseFloor(t.Context(), store, "f", c.floor)
			check(t, err)
			time.Sleep(time.Second) // fake
			a := s.get(t, "/feeds/f/index/1")
			if c.first == 0 {
				if name, _ := a.problem(t); a.StatusCode != http.StatusGone || name != "page-pruned" {
					t.Errorf("floor %d: %s, problem %s", c.floor, a.Status, name)
				}
				continue
			}
			checkTile(t, s, "/feeds/f/index/1", c.first, 512)
			if immutable := strings.Contains(a.Header.Get("Cache-Control"), "immutable"); immutable != (c.floor == 257) {
				t.Errorf("floor %d: Cache-Control %q", c.floor, a.Header.Get("Cache-Control"))
			}
			if hasPrev := strings.Contains(string(a.body), `"prev":"0"`); hasPrev && c.floor > 257 { // a full tile stays as it is
				t.Errorf("floor %d: links to the previous tile", c.floor)
			}
		}
	})
}

// A statCounter counts requests for metadata of pages.
type statCounter struct {
	storage.Store
	pages     atomic.Int64
	fail      atomic.Bool
	delay     time.Duration
	now, most atomic.Int64 // concurrent requests
}

func (s *statCounter) Unwrap() storage.Store { return s.Store }

func (s *statCounter) Stat(ctx context.Context, key string) (storage.Info, error) {
	if s.fail.Load() {
		return storage.Info{}, storage.ErrUnavailable
	}
	if strings.Contains(key, "/pages/") {
		s.pages.Add(1)
		now := s.now.Add(1)
		defer s.now.Add(-1)
		for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
		}
		time.Sleep(s.delay) // fake
	}
	return s.Store.Stat(ctx, key)
}

// TestTilesAreKept: the metadata for a full tile is read once.
func TestTilesAreKept(t *testing.T) {
	store := &statCounter{Store: memory.New()}
	publishPages(t, store.Store, 20*256+2)
	s := inside(t, newServer(t, store, server.Config{}))
	for round := range 2 {
		for n := range 20 {
			if a := s.get(t, fmt.Sprintf("/feeds/f/index/%d", n)); a.StatusCode != http.StatusOK {
				t.Fatal(a.Status)
			}
		}
		if n := store.pages.Swap(0); round == 0 && n < 20*256 || round == 1 && n > 20 {
			t.Errorf("round %d: metadata of %d pages was read", round, n)
		}
	}
	store.fail.Store(true)
	cold := inside(t, newServer(t, store, server.Config{}))
	if a := cold.get(t, "/feeds/f/index/3"); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("tile from a store that fails: %s", a.Status)
	}
}

// TestFewTilesAtATime: many requests for tiles do not keep the store from answering other requests.
func TestFewTilesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(epoch)) // fake
		store := &statCounter{Store: memory.New(), delay: time.Millisecond}
		publishPages(t, store.Store, 20*256+2)
		s := inside(t, newServer(t, store, server.Config{}))
		s.get(t, "/feeds/f")
		store.most.Store(0) // the search for the newest page does not count
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() { s.get(t, fmt.Sprintf("/feeds/f/index/%d", n)) })
		}
		all.Wait()
		if n := store.most.Load(); n < 2 || n > 8 {
			t.Errorf("%d requests to the store at the same time", n)
		}
	})
}
