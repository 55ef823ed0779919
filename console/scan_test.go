package console

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/observe"
)

var entityLinks = regexp.MustCompile(`href="entity\?feed=\w+&amp;i=(\d+)&amp;n=(\d+)"`)

// links returns the entities that a page links to, as "PAGE.ENTITY", in order.
func links(html string) (places []string) {
	for _, m := range entityLinks.FindAllStringSubmatch(html, -1) {
		places = append(places, m[2]+"."+m[1])
	}
	return places
}

var nextLink = regexp.MustCompile(`<a rel="next" href="([^"]*)"`)

// follow returns the URL of the link for continuing a scan, or "".
func follow(html string) string {
	m := nextLink.FindStringSubmatch(html)
	if m == nil {
		return ""
	}
	return "/" + strings.ReplaceAll(m[1], "&amp;", "&")
}

// manyPages writes a feed with pages of three entities. The key "rare" is on page 1 and on page 3, and "often" is the
// key of the last two entities of each page.
func manyPages(t *testing.T, store storage.Store, pages int) {
	t.Helper()
	all := make([][]feed.Entity, pages)
	for i := range all {
		n := i + 1
		first := put(fmt.Sprintf("<%d-a>", n), fmt.Sprintf("key-%d", n), `{}`)
		if n == 1 || n == 3 {
			first.ContentLocation = "rare"
		}
		first.Header = []feed.Field{{Name: "X-Number", Value: fmt.Sprintf("Nr. %d", n)}}
		all[i] = []feed.Entity{first, put(fmt.Sprintf("<%d-b>", n), "often", `{}`), put(fmt.Sprintf("<%d-c>", n), "often", `{}`)}
	}
	writeFeed(t, store, "many", all...)
}

func TestHistory(t *testing.T) {
	t.Parallel()
	store := memory.New()
	const pages = scanPages + 20
	manyPages(t, store, pages)
	c := newConsole(t, store, still)

	html := shows(t, c, "/history?feed=many&n=3&i=0", http.StatusOK)
	if got := links(html); !slices.Equal(got, []string{"3.0", "3.0", "1.0"}) { // the first link is to the entity that the page is about
		t.Errorf("the history of a key links to %q", got)
	}
	expect(t, "history", html, "Searched pages 3 to 1", "back to the beginning of the feed", `href="history?feed=many&amp;i=0&amp;n=3&amp;before=newest"`)
	if follow(html) != "" {
		t.Error("a history that is complete has a next page")
	}

	// A search from the newest entity back takes two requests.
	html = shows(t, c, "/history?feed=many&n=3&i=0&before=newest", http.StatusOK)
	expect(t, "history", html, "No entity on these pages has this key.", "Searched pages 420 to 21", "the oldest page is 1.")
	html = shows(t, c, follow(html), http.StatusOK)
	expect(t, "history", html, "Searched pages 20 to 1")
	if got := links(html)[1:]; !slices.Equal(got, []string{"3.0", "1.0"}) {
		t.Errorf("the rest of the history links to %q", got)
	}

	// Each entity with a key is found once, in order, regardless of the number of requests, and of where on a page a
	// request ends.
	var want []string
	for n := pages; n > 0; n-- {
		want = append(want, fmt.Sprintf("%d.2", n), fmt.Sprintf("%d.1", n))
	}
	for skipped := range 2 {
		var all []string
		for path := fmt.Sprintf("/history?feed=many&n=%d&i=%d", pages, 2-skipped); path != ""; {
			html := shows(t, c, path, http.StatusOK)
			found := links(html)[1:]
			if len(found) > scanFound {
				t.Fatalf("%s has %d entities", path, len(found))
			}
			all = append(all, found...)
			path = follow(html)
		}
		if !slices.Equal(all, want[skipped:]) {
			t.Errorf("the history of a key links to %q", all)
		}
	}

	none := feed.Entity{ContentID: "<1>", Operation: feed.Put, ContentType: "text/plain"}
	writeFeed(t, store, "keyless", []feed.Entity{none})
	shows(t, c, "/history?feed=keyless&n=1&i=0", http.StatusNotFound)
}

// still stops the clock of a console, so that no scan ends because it has taken too long.
func still(c *Config) { c.Now = func() time.Time { return start.Add(time.Hour) } }

// TestScanTime: a scan ends after a time that depends on the store.
func TestScanTime(t *testing.T) {
	t.Parallel()
	store := memory.New()
	manyPages(t, store, 20)
	for _, test := range []struct {
		store storage.Store
		get   time.Duration
	}{{store, 15 * time.Millisecond}, {far{store}, 600 * time.Millisecond}} {
		var took atomic.Int64
		slow := observe.Wrap(test.store, func(_ context.Context, o observe.Operation) {
			if o.Name == "get" {
				took.Add(int64(test.get))
			}
		})
		c := newConsole(t, slow, func(c *Config) { c.Now = func() time.Time { return start.Add(time.Duration(took.Load())) } })
		html := shows(t, c, "/search?feed=many&q=nothing", http.StatusOK)
		expect(t, "search", html, "Searched pages 20 to 17", `before=16"`)
	}
}

// A far is a remote store.
type far struct{ storage.Store }

func (far) Remote() bool { return true }

func TestSearch(t *testing.T) {
	t.Parallel()
	store := memory.New()
	manyPages(t, store, 420)
	hidden := put("<1>", "straße/Zürich", `{}`)
	hidden.ContentLocation = "stra%c3%9fe/Z%C3%BCrich"
	writeFeed(t, store, "other", []feed.Entity{hidden, put("<2>", "100%", `{}`)})
	c := newConsole(t, store, still)
	for query, want := range map[string]struct {
		links []string
		texts []string
	}{
		"":                                     {nil, nil},
		"feed=many":                            {nil, []string{`value="many"`}},
		"q=man":                                {nil, []string{`href="feed?name=many"`, `href="search?feed=many&amp;q=man"`}},
		"q=nothing":                            {nil, []string{"No feed has this text in its name."}},
		"feed=many&q=<417-b>":                  {[]string{"417.1"}, []string{"Searched pages 420 to 21", `value="&lt;417-b&gt;"`}},
		"feed=many&q=KEY-418":                  {[]string{"418.0"}, nil},
		"feed=many&q=nr.+419":                  {[]string{"419.0"}, []string{"found in X-Number"}},
		"feed=many&q=417":                      {[]string{"417.2", "417.1", "417.0"}, []string{`href="page?feed=many&amp;n=417"`}},
		"feed=many&q=421":                      {nil, []string{"No entity on these pages has this text."}},
		"feed=many&q=json":                     {nil, []string{"No entity on these pages has this text."}},
		"feed=many&q=2026-02-03T04:07:00Z":     {[]string{"3.0"}, []string{"is the first that is not older", `as=text"`}},
		"feed=many&q=2026-02-03":               {[]string{"1.0"}, nil},
		"feed=many&q=2026-02-03+04:05:07":      {[]string{"2.0"}, nil},
		"feed=many&q=2026-02-03T05:07%2B01:00": {[]string{"3.0"}, nil},
		"feed=many&q=Tue,+03+Feb+2026+04:07:06+GMT": {[]string{"3.0"}, nil},
		"feed=many&q=2027-01-01":                    {nil, []string{"All entities are older"}},
		"feed=many&q=2027-01-01&as=text":            {nil, []string{"All entities are older", "Searched pages 420 to 21"}},
		"feed=other&q=STRASSE":                      {nil, nil},
		"feed=other&q=stra%C3%9Fe":                  {[]string{"1.0"}, nil},
		"feed=other&q=z%C3%9Crich":                  {[]string{"1.0"}, nil},
		"feed=other&q=100%25":                       {[]string{"1.1"}, nil},
	} {
		path := "/search?" + query
		html := shows(t, c, path, http.StatusOK)
		expect(t, path, html, want.texts...)
		if got := links(html); !slices.Equal(got, want.links) {
			t.Errorf("%s links to %q, want %q", path, got, want.links)
		}
	}
	shows(t, c, "/search?feed=none&q=a", http.StatusNotFound)
	shows(t, c, "/search?feed=many&q="+strings.Repeat("a", 2000), http.StatusBadRequest)
}

// TestSearchMade finds an old entity by a Content-ID with a time in it (a UUID of version 7).
func TestSearchMade(t *testing.T) {
	t.Parallel()
	store := memory.New()
	pages := make([][]feed.Entity, scanPages+100)
	id := func(n int) string {
		return fmt.Sprintf("<%012X-7abc-8000-0123456789ab@shop>", start.Add(time.Duration(n-1)*time.Minute).UnixMilli())
	}
	for i := range pages {
		text := id(i + 1)
		pages[i] = []feed.Entity{put(text[:9]+"-"+text[9:], fmt.Sprint(i), `{}`)}
	}
	writeFeed(t, store, "many", pages...)
	c := newConsole(t, store, still)
	path := "/search?feed=many&q=" + strings.ToLower(pages[19][0].ContentID)
	html := shows(t, c, path, http.StatusOK)
	expect(t, path, html, "was made at <time datetime=\"2026-02-03T04:24:06.000Z\"", "Searched pages 25 to 1", "before=newest")
	if got := links(html); !slices.Equal(got, []string{"20.0"}) {
		t.Errorf("%s links to %q", path, got)
	}
	path += "&before=newest"
	expect(t, path, shows(t, c, path, http.StatusOK), "Searched pages 500 to 101")
}

// TestSearchIndex finds a key on an old page with the help of a state digest.
func TestSearchIndex(t *testing.T) {
	t.Parallel()
	store := memory.New()
	manyPages(t, store, 420)
	if _, err := fold.Digest(t.Context(), store, "many", fold.Config{TempDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	c := newConsole(t, store, still)
	path := "/search?feed=many&q=rare"
	html := shows(t, c, path, http.StatusOK)
	expect(t, path, html, "is the last PUT of this key in the state digest of", "No entity on these pages has this text.")
	if got := links(html); !slices.Equal(got, []string{"3.0"}) {
		t.Errorf("%s links to %q", path, got)
	}
	path = "/search?feed=many&q=often" // each page has two entities with this key
	if got := links(shows(t, c, path, http.StatusOK)); len(got) == 0 || got[0] != "420.2" {
		t.Errorf("%s links to %q", path, got)
	}
}
