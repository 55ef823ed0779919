package consumer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/pageindex"
)

const tileURL = "http://feed.test/index/" // followed by the number of the tile

// tileSize is how many pages a tile of an indexedFeed has.
const tileSize = 20

// An indexedFeed is a testFeed with a page index. Each request takes the time delay.
type indexedFeed struct {
	*testFeed
	delay time.Duration
	lie   func(*pageindex.Tile) // changes a tile
	tile  http.HandlerFunc      // if not nil, answers requests for tiles

	mu             sync.Mutex
	now, most      int // requests for pages at the same time
	tiles, fetched int // requests so far
}

// newIndexedFeed makes a feed of n pages with one entity each.
func newIndexedFeed(n int) *indexedFeed {
	x := &indexedFeed{testFeed: &testFeed{chained: true}, delay: 50 * time.Millisecond}
	for i := range n {
		x.addPage(fmt.Sprintf("%s%d", pageID(i+1), i))
	}
	x.links = func(number int, l *feed.Links) {
		l.Timemap = tileURL + strconv.Itoa((number-1)/tileSize)
	}
	return x
}

// pageID returns the Content-ID of the entity on page n, without digits.
func pageID(n int) string {
	return strings.Map(func(r rune) rune { return r - '0' + 'a' }, strconv.Itoa(n))
}

// pageIDs returns the Content-IDs on the pages from first to last.
func pageIDs(first, last int) string {
	var all []string
	for n := first; n <= last; n++ {
		all = append(all, pageID(n))
	}
	return strings.Join(all, " ")
}

// afterFirst returns a Start after the entity on page 1, for which no crawl is needed.
func afterFirst() Start {
	return After(feed.Position{LastModified: second(0), ContentID: pageID(1), Page: pageURL + "1"})
}

func (x *indexedFeed) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	tile, index := strings.CutPrefix(r.URL.Path, "/index/")
	if !index {
		x.mu.Lock()
		x.now++
		x.most = max(x.most, x.now)
		x.mu.Unlock()
		defer func() {
			x.mu.Lock()
			x.now--
			x.mu.Unlock()
		}()
	}
	select {
	case <-time.After(x.delay): // fake
	case <-r.Context().Done():
		return
	}
	x.mu.Lock()
	if index {
		x.tiles++
	} else {
		x.fetched++
	}
	x.mu.Unlock()
	if index {
		x.serveTile(rw, r, tile)
		return
	}
	x.testFeed.ServeHTTP(rw, r)
}

func (x *indexedFeed) serveTile(rw http.ResponseWriter, r *http.Request, text string) {
	if x.tile != nil {
		x.tile(rw, r)
		return
	}
	n, _ := strconv.Atoi(text)
	x.testFeed.mu.Lock()
	tile := pageindex.Tile{Number: int64(n), Pages: []pageindex.Page{}}
	for number := n*tileSize + 1; number <= (n+1)*tileSize && number < len(x.pages); number++ {
		body := x.body(x.pages[number-1])
		tile.Pages = append(tile.Pages, pageindex.Page{Number: int64(number), URL: "../feed/" + strconv.Itoa(number), Bytes: int64(len(body))})
	}
	x.testFeed.mu.Unlock()
	if tile.Full = len(tile.Pages) == tileSize; tile.Full {
		tile.Next = strconv.Itoa(n + 1)
	}
	if x.lie != nil {
		x.lie(&tile)
	}
	_ = json.NewEncoder(rw).Encode(tile)
}

// TestCatchUp: with an index, pages are read from a slow server at least eight times as fast as
// without; each page is requested once, in order.
func TestCatchUp(t *testing.T) {
	const pages = 1000
	took := func(x *indexedFeed) (d time.Duration) {
		inWorld(t, x, func(t *testing.T, w *world) {
			begun := time.Now()
			want(t, w.newClient(Config{}), afterFirst(), pageIDs(2, pages))
			d = time.Since(begun)
		})
		return d
	}
	plain, indexed := newIndexedFeed(pages), newIndexedFeed(pages)
	plain.links = nil
	plain.chained, indexed.chained = false, false // slow to compute
	walked, caught := took(plain), took(indexed)
	t.Logf("%d pages: %v one after another, %v with an index", pages, walked, caught)
	if walked < 8*caught {
		t.Errorf("%v with an index, %v without", caught, walked)
	}
	if indexed.most > pagesAhead+1 || indexed.fetched != pages || plain.most > 2 {
		t.Errorf("%d requests for %d pages, up to %d at the same time; without an index up to %d", indexed.fetched, pages, indexed.most, plain.most)
	}
	if most := pages/tileSize + 2; indexed.tiles > most {
		t.Errorf("%d requests for tiles, want at most %d", indexed.tiles, most)
	}
}

// TestFollowerNeedsNoIndex: a client that is at the end of a growing feed requests no index.
func TestFollowerNeedsNoIndex(t *testing.T) {
	x := newIndexedFeed(1)
	x.longPoll = true
	inWorld(t, x, func(t *testing.T, w *world) {
		n := 1
		for range w.newClient(Config{Follow: true}).Entities(t.Context(), feedURL, Beginning()) {
			if n++; n == 50 {
				break
			}
			x.addPage(fmt.Sprintf("%s%d", pageID(n), n))
		}
	})
	if x.tiles > 0 {
		t.Errorf("%d requests for tiles", x.tiles)
	}
}

// TestLyingIndex: whatever the index says, all entities are delivered in order.
func TestLyingIndex(t *testing.T) {
	const pages = 100
	fail := func(status int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) }
	}
	text := func(body string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(body)) }
	}
	rename := func(url func(n int64) string) func(*pageindex.Tile) {
		return func(tile *pageindex.Tile) {
			for i := range tile.Pages {
				if n := tile.Pages[i].Number; n > 10 {
					tile.Pages[i].URL = url(n)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		lie  func(*pageindex.Tile)
		tile http.HandlerFunc
	}{
		"missing":      {tile: fail(http.StatusNotFound)},
		"broken":       {tile: fail(http.StatusInternalServerError)},
		"unauthorized": {tile: fail(http.StatusUnauthorized)},
		"moved away": {tile: func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "http://evil.test/index/0", http.StatusFound)
		}},
		"not JSON":        {tile: text("<html>")},
		"another TimeMap": {tile: text(`{"mementos":{}}`)},
		"endless": {tile: func(rw http.ResponseWriter, _ *http.Request) {
			for range 100_000 {
				if _, err := rw.Write([]byte(`[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[`)); err != nil {
					return
				}
			}
		}},
		"silent":                 {tile: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"empty":                  {lie: func(tile *pageindex.Tile) { tile.Pages = []pageindex.Page{} }},
		"endless and empty":      {lie: func(tile *pageindex.Tile) { tile.Pages, tile.Next = []pageindex.Page{}, "0" }},
		"the same tile for ever": {lie: func(tile *pageindex.Tile) { tile.Next = strconv.FormatInt(tile.Number, 10) }},
		"other pages":            {lie: rename(func(n int64) string { return fmt.Sprint("../feed/", 1+n*7%pages) })},
		"pages back":             {lie: rename(func(n int64) string { return fmt.Sprint("../feed/", pages-n) })},
		"one page for ever":      {lie: rename(func(int64) string { return "../feed/3" })},
		"the newest page":        {lie: rename(func(int64) string { return fmt.Sprint("../feed/", pages) })},
		"missing pages":          {lie: rename(func(n int64) string { return fmt.Sprint("../feed/", n+1) })},
		"pages beyond":           {lie: rename(func(n int64) string { return fmt.Sprint("../feed/", n+pages) })},
		"the entry point":        {lie: rename(func(int64) string { return "../feed" })},
		"tiles":                  {lie: rename(func(int64) string { return "0" })},
		"another origin":         {lie: rename(func(n int64) string { return fmt.Sprint("http://evil.test/feed/", n) })},
		"another spelling":       {lie: rename(func(n int64) string { return fmt.Sprintf("../feed/%d?x", n) })},
		"wrong sizes": {lie: func(tile *pageindex.Tile) {
			for i := range tile.Pages {
				tile.Pages[i].Bytes = int64(i%3-1) << 40
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			x := newIndexedFeed(pages)
			x.lie, x.tile = c.lie, c.tile
			inWorld(t, x, func(t *testing.T, w *world) {
				want(t, w.newClient(Config{}), afterFirst(), pageIDs(2, pages))
				if evil := count(w.requests(), "GET evil"); evil > 0 {
					t.Errorf("%d requests to another origin", evil)
				}
			})
			t.Logf("%d requests for pages and %d for tiles", x.fetched, x.tiles)
			if x.tiles == 0 || x.tiles > 10 || x.fetched > pages+3*pagesAhead {
				t.Errorf("%d requests for pages and %d for tiles", x.fetched, x.tiles)
			}
		})
	}
}

// TestLargePagesAhead: pages that do not fit into memory are read one after another, each once.
func TestLargePagesAhead(t *testing.T) {
	const pages = 60
	x := newIndexedFeed(pages)
	x.change(func() {
		for _, p := range x.pages[20:40] {
			p.entities[0].ContentType += "; x=" + strings.Repeat("x", 2000)
		}
	})
	var read atomic.Int64 // the last page whose entity was delivered
	read.Store(1)
	x.intercept = func(_ http.ResponseWriter, _ *http.Request, number int) bool {
		if before := read.Load(); number > 22 && number <= 40 && int64(number) > before+2 {
			t.Errorf("large page %d was requested after page %d", number, before)
		}
		return false
	}
	inWorld(t, x, func(t *testing.T, w *world) {
		for _, err := range w.newClient(Config{ReadAhead: 2000}).Entities(t.Context(), feedURL, afterFirst()) {
			if err != nil {
				t.Fatal(err)
			}
			read.Add(1)
		}
	})
	if n := read.Load(); n != pages || x.fetched != pages || x.most < 4 {
		t.Errorf("read up to page %d in %d requests, up to %d at the same time", n, x.fetched, x.most)
	}
}

// TestServerAllowsFewRequests: a client that requests more pages ahead than the server allows then
// requests fewer, and is not refused again for each page.
func TestServerAllowsFewRequests(t *testing.T) {
	const pages, allowed = 200, 4
	x := newIndexedFeed(pages)
	x.chained = false
	x.intercept = func(rw http.ResponseWriter, _ *http.Request, _ int) bool {
		x.mu.Lock()
		refuse := x.now > allowed
		x.mu.Unlock()
		time.Sleep(x.delay) // fake
		if refuse {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
		return refuse
	}
	inWorld(t, x, func(t *testing.T, w *world) {
		want(t, w.newClient(Config{}), afterFirst(), pageIDs(2, pages))
	})
	t.Logf("%d requests, up to %d at the same time", x.fetched, x.most)
	if x.fetched > pages*5/4 {
		t.Errorf("%d requests for %d pages", x.fetched, pages)
	}
}
