package consumer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// epoch is the time from which the entities of the tests count seconds.
var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

func second(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

const (
	feedURL = "http://feed.test/feed"
	pageURL = "http://feed.test/feed/" // + number
)

// A testFeed serves a feed according to the specification, with the variations that its fields describe.
type testFeed struct {
	mu    sync.Mutex
	pages []*testPage // from number 1 on
	floor int         // the number of the oldest page; 0 means 1
	grown chan struct{}

	chained  bool // pages have the header fields of a chain
	ranges   bool // serve ranges
	longPoll bool // obey "Prefer: wait"
	noETag   bool
	empty    int // status of a feed without pages, if not 404

	// intercept may handle a request itself, and then returns true.
	intercept func(rw http.ResponseWriter, r *http.Request, number int) bool
	// links changes the links of a page.
	links func(number int, l *feed.Links)
}

type testPage struct {
	number   int
	entities []feed.Entity

	chained struct { // the digest, and what it was computed from
		digest, prev string
		entities     int
	}
}

// entity returns an entity published n seconds after epoch, with id as its Content-ID and body.
func entity(id string, n int) feed.Entity {
	return feed.Entity{ContentID: id, Operation: feed.Put, LastModified: second(n), ContentType: "text/plain",
		ContentLocation: "key-" + id, Body: []byte("body of " + id)}
}

// newFeed makes a feed from a text such as "a0 b1 | c1": pages separated by "|", and for each entity its id and its
// second. An empty text makes a feed without pages.
func newFeed(text string) *testFeed {
	f := &testFeed{}
	for part := range strings.SplitSeq(text, "|") {
		if words := strings.Fields(part); len(words) > 0 {
			f.addPage(words...)
		}
	}
	return f
}

func parseEntity(word string) feed.Entity {
	id := strings.TrimRight(word, "0123456789")
	n, err := strconv.Atoi(word[len(id):])
	if err != nil {
		panic(word)
	}
	return entity(id, n)
}

// addPage starts a new page.
func (f *testFeed) addPage(words ...string) {
	f.change(func() { f.pages = append(f.pages, &testPage{number: len(f.pages) + 1, entities: parseEntities(words)}) })
}

// prune removes the pages whose number is less than floor.
func (f *testFeed) prune(floor int) { f.change(func() { f.floor = floor }) }

// append adds entities to the newest page.
func (f *testFeed) append(words ...string) {
	f.change(func() {
		p := f.pages[len(f.pages)-1]
		p.entities = append(p.entities, parseEntities(words)...)
	})
}

func (f *testFeed) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	if f.grown != nil {
		close(f.grown)
		f.grown = nil
	}
}

func parseEntities(words []string) (entities []feed.Entity) {
	for _, word := range words {
		entities = append(entities, parseEntity(word))
	}
	return entities
}

func (f *testFeed) body(p *testPage) []byte {
	var b bytes.Buffer
	w := page.NewWriter(&b, boundaryOf(p))
	for i := range p.entities {
		if err := w.WritePart(p.entities[i].AppendHeader(nil), p.entities[i].Body); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func boundaryOf(p *testPage) string { return fmt.Sprintf("boundary-%d", p.number) }

func (f *testFeed) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	number := len(f.pages)
	f.mu.Unlock()
	if text, ok := strings.CutPrefix(r.URL.Path, "/feed/"); ok {
		number, _ = strconv.Atoi(text)
	}
	if f.intercept != nil && f.intercept(rw, r, number) {
		return
	}
	f.serve(rw, r, number)
}

// serve serves a page. While the entity tag of the page is the one in the request, serve holds the request for as long
// as it asks to wait.
func (f *testFeed) serve(rw http.ResponseWriter, r *http.Request, number int) {
	var wait <-chan time.Time
	if seconds, ok := strings.CutPrefix(r.Header.Get("Prefer"), "wait="); ok && f.longPoll {
		n, _ := strconv.Atoi(seconds)
		timer := time.NewTimer(time.Duration(n) * time.Second)
		defer timer.Stop()
		wait = timer.C
		rw.Header().Set("Preference-Applied", "wait="+seconds)
	}
	for {
		f.mu.Lock()
		if f.grown == nil { // created here because it must belong to the synctest bubble
			f.grown = make(chan struct{})
		}
		grown := f.grown
		body, header, status := f.page(number)
		f.mu.Unlock()
		for name, values := range header {
			rw.Header()[name] = values
		}
		if status != http.StatusOK {
			rw.WriteHeader(status)
			return
		}
		etag := header.Get("ETag")
		if etag == "" || r.Header.Get("If-None-Match") != etag {
			if f.ranges {
				http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(body))
				return
			}
			_, _ = rw.Write(body)
			return
		}
		if wait == nil {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		select {
		case <-grown:
		case <-wait:
			wait = nil
		case <-r.Context().Done():
			return
		}
	}
}

// page returns the response for the page with the given number.
func (f *testFeed) page(number int) (body []byte, header http.Header, status int) {
	header = make(http.Header)
	switch {
	case len(f.pages) == 0 && f.empty != 0:
		return nil, header, f.empty
	case number >= 1 && number < f.floor:
		return nil, header, http.StatusGone
	case number < 1 || number > len(f.pages):
		return nil, header, http.StatusNotFound
	}
	p := f.pages[number-1]
	body = f.body(p)
	links := feed.Links{Self: pageURL + strconv.Itoa(number)}
	if number > max(1, f.floor) {
		links.Prev = pageURL + strconv.Itoa(number-1)
	}
	if number < len(f.pages) {
		links.Next = pageURL + strconv.Itoa(number+1)
	}
	if f.links != nil {
		f.links(number, &links)
	}
	header["Link"] = links.Header()
	header.Set("Content-Type", page.ContentType(boundaryOf(p)))
	header.Set("Last-Modified", feed.FormatTime(p.entities[len(p.entities)-1].LastModified))
	if f.chained {
		c := feed.Chain{Prev: f.digest(number - 1)}
		if number < len(f.pages) {
			c.Self = f.digest(number)
		}
		header.Set(feed.ChainHeader, c.Header())
	}
	if !f.noETag {
		header.Set("ETag", fmt.Sprintf(`"%d-%t"`, len(body), links.Next != ""))
	}
	return body, header, http.StatusOK
}

// digest returns the digest of a page in the chain.
func (f *testFeed) digest(number int) string {
	if number == 0 {
		return ""
	}
	p, prev := f.pages[number-1], f.digest(number-1)
	if c := &p.chained; c.digest == "" || c.prev != prev || c.entities != len(p.entities) {
		sum := sha256.Sum256(append(f.body(p), prev...))
		c.digest, c.prev, c.entities = hex.EncodeToString(sum[:]), prev, len(p.entities)
	}
	return p.chained.digest
}

// ids reads entities to the end and returns their Content-IDs.
func ids(t *testing.T, c *Client, start Start) (string, error) {
	t.Helper()
	var all []string
	for e, err := range c.Entities(t.Context(), feedURL, start) {
		if err != nil {
			return strings.Join(all, " "), err
		}
		if want := "body of " + e.ContentID; string(e.Body) != want {
			t.Errorf("body is %q, want %q", e.Body, want)
		}
		all = append(all, e.ContentID)
	}
	return strings.Join(all, " "), nil
}

// want fails the test if the entities from start on are not the given ones.
func want(t *testing.T, c *Client, start Start, want string) {
	t.Helper()
	got, err := ids(t, c, start)
	if err != nil || got != want {
		t.Errorf("got %q and error %v, want %q", got, err, want)
	}
}

// at returns a Start after the entity that parseEntity parses from word, on the page with the number onPage. If onPage
// is 0, the position has no page.
func at(word string, onPage int) Start {
	e := parseEntity(word)
	p := feed.Position{LastModified: e.LastModified, ContentID: e.ContentID}
	if onPage > 0 {
		p.Page = pageURL + strconv.Itoa(onPage)
	}
	return After(p)
}
