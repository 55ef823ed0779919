package consumer

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// A guidedFeed is a feed whose newest page has links to its oldest page and to a timegate.
type guidedFeed struct {
	*testFeed
	first    func() string                                 // target of the link; nil: the oldest page
	timegate func(rw http.ResponseWriter, t time.Time)     // nil: the timegate leads to the right page
	last     func(number int) string                       // target of the link; nil: the entry point
	other    func(rw http.ResponseWriter, r *http.Request) // answers requests to another host, or below /other
}

const timegateURL = "http://feed.test/at"

func guided(text string) *guidedFeed {
	g := &guidedFeed{testFeed: newFeed(text)}
	g.links = func(number int, l *feed.Links) {
		l.Last = feedURL
		if g.last != nil {
			l.Last = g.last(number)
		}
		if number == len(g.pages) {
			l.First, l.Timegate = pageURL+fmt.Sprint(max(1, g.floor)), timegateURL
			if g.first != nil {
				l.First = g.first()
			}
		}
	}
	return g
}

func (g *guidedFeed) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch {
	case g.other != nil && (r.Host != "feed.test" || strings.HasPrefix(r.URL.Path, "/other")):
		g.other(rw, r)
	case r.URL.Path != "/at":
		g.testFeed.ServeHTTP(rw, r)
	default:
		t, err := feed.ParseTime(r.Header.Get("Accept-Datetime"))
		if err != nil {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		if g.timegate != nil {
			g.timegate(rw, t)
			return
		}
		g.mu.Lock()
		n := g.pageBefore(t)
		g.mu.Unlock()
		redirectTo(rw, pageURL+fmt.Sprint(n))
	}
}

// pageBefore returns the number of the last page that is strictly older than t or, if there is none, of the
// oldest page.
func (f *testFeed) pageBefore(t time.Time) int {
	for n := len(f.pages); n > max(1, f.floor); n-- {
		if all := f.pages[n-1].entities; all[len(all)-1].LastModified.Before(t) {
			return n
		}
	}
	return max(1, f.floor)
}

func redirectTo(rw http.ResponseWriter, url string) {
	rw.Header().Set("Location", url)
	rw.WriteHeader(http.StatusFound)
}

const guidedText = "a0 b1 | c1 d2 | e2 f3 | g3 h3 | i3 j4 | k5 l6 | m7"

// guidedStarts returns Starts whose page has to be searched for.
func guidedStarts() map[string]Start {
	all := map[string]Start{"the beginning": Beginning()}
	for _, n := range []int{0, 3, 7, 8} {
		all[fmt.Sprint("second ", n)] = Since(second(n))
	}
	for _, word := range []string{"a0", "f3", "h3", "l6", "m7"} {
		all[word] = at(word, 0)
		all[word+" on a page that is gone"] = at(word, 99)
		all[word+" on another page"] = at(word, 7)
	}
	return all
}

// TestJumps reads from each of guidedStarts. With links that lead to the start, even by way of another
// timegate, the entities are the same as without links, and few requests are made.
func TestJumps(t *testing.T) {
	moved := guided(guidedText)
	moved.timegate = func(rw http.ResponseWriter, _ time.Time) { redirectTo(rw, "http://feed.test/other/at") }
	moved.other = func(rw http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/at"
		guided(guidedText).ServeHTTP(rw, r)
	}
	for name, start := range guidedStarts() {
		testJump(t, name, start, guided(guidedText))
		testJump(t, name, start, moved)
	}
}

func testJump(t *testing.T, name string, start Start, g *guidedFeed) {
	t.Helper()
	inWorld(t, newFeed(guidedText), func(t *testing.T, w *world) {
		expected, err := ids(t, w.newClient(Config{}), start)
		if err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.handler = g
		w.mu.Unlock()
		w.requests()
		got, err := ids(t, w.newClient(Config{}), start)
		if err != nil || got != expected {
			t.Errorf("%s: got %q and error %v, want %q", name, got, err, expected)
		}
		if heads := count(w.requests(), "HEAD"); heads > 1 {
			t.Errorf("%s: %d HEAD requests", name, heads)
		}
	})
}

// TestLies: the entities are those of the feed even if the links lead to wrong pages.
func TestLies(t *testing.T) {
	to := func(url string) func(*guidedFeed) {
		return func(g *guidedFeed) {
			g.first = func() string { return url }
			g.timegate = func(rw http.ResponseWriter, _ time.Time) { redirectTo(rw, url) }
		}
	}
	status := func(code int) func(*guidedFeed) {
		return func(g *guidedFeed) {
			to("http://feed.test/other/1")(g)
			g.other = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(code) }
		}
	}
	// elsewhere serves a page below /other that has the given links instead of its own.
	elsewhere := func(at int, l feed.Links) func(*guidedFeed) {
		return func(g *guidedFeed) {
			to("http://feed.test/other/1")(g)
			foreign := newFeed(fmt.Sprint("x", at))
			foreign.links = func(_ int, own *feed.Links) { *own = l }
			g.other = func(rw http.ResponseWriter, r *http.Request) { foreign.serve(rw, r, 1) }
		}
	}
	const other = "http://feed.test/other/1"
	lies := map[string]func(*guidedFeed){
		"to the newest page":                    to(pageURL + "7"),
		"to the middle":                         to(pageURL + "4"),
		"to the oldest page":                    to(pageURL + "1"),
		"to the entry point":                    to(feedURL),
		"to a missing page":                     to(pageURL + "99"),
		"to another scheme":                     to("ftp://feed.test/1"),
		"to itself":                             to(timegateURL),
		"to another origin":                     to("https://elsewhere.test/feed/1"),
		"to a page of another feed":             elsewhere(0, feed.Links{Self: other, Last: "http://feed.test/other"}),
		"to a page that does not name its feed": elsewhere(0, feed.Links{Self: other}),
		"to a page that claims to be another":   elsewhere(0, feed.Links{Self: pageURL + "1", Next: pageURL + "2", Last: feedURL}),
		"to a page that is too new":             elsewhere(99, feed.Links{Self: other, Next: pageURL + "2", Last: feedURL}),
		"to a page in a loop": func(g *guidedFeed) {
			to(pageURL + "4?loop")(g)
			g.intercept = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
				if r.URL.RawQuery == "loop" {
					rw.Header().Set("Content-Type", `multipart/mixed; boundary="b"`)
					rw.Header().Set("Last-Modified", feed.FormatTime(second(7)))
					loop := feed.Links{Self: pageURL + "4?loop", Prev: pageURL + "4?loop", Next: pageURL + "4?loop", Last: feedURL}
					rw.Header()["Link"] = loop.Header()
					return true
				}
				return false
			}
		},
		"to something else": func(g *guidedFeed) {
			to("http://feed.test/other/1")(g)
			g.other = func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "<html>") }
		},
		"400": status(400), "404": status(404), "410": status(410), "500": status(500), "503": status(503), "204": status(204),
		"no answer": func(g *guidedFeed) {
			to("http://feed.test/other/1")(g)
			g.other = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		},
		"nothing has a link to the entry point":    func(g *guidedFeed) { g.last = func(int) string { return "" } },
		"only some have a link to the entry point": func(g *guidedFeed) { g.last = func(n int) string { return strings.Repeat(feedURL, n%2) } },
	}
	for lie, tell := range lies {
		t.Run(lie, func(t *testing.T) {
			starts := 0
			for name, start := range guidedStarts() {
				if starts++; testing.Short() && starts > 4 {
					break // only a few, different in each run, with the race detector
				}
				g := guided(guidedText)
				inWorld(t, newFeed(guidedText), func(t *testing.T, w *world) {
					expected, err := ids(t, w.newClient(Config{}), start)
					if err != nil {
						t.Fatal(err)
					}
					tell(g)
					w.mu.Lock()
					w.handler = g
					w.mu.Unlock()
					for _, follow := range []bool{false, true} {
						got, err := idsUntil(t.Context(), w.newClient(Config{Follow: follow && expected != ""}), start, len(strings.Fields(expected)))
						if err != nil || got != expected {
							t.Errorf("%s, follow %t: got %q and error %v, want %q", name, follow, got, err, expected)
						}
					}
				})
			}
		})
	}
}

// idsUntil reads to the end or, if the client follows, n entities.
func idsUntil(ctx context.Context, c *Client, start Start, n int) (string, error) {
	var all []string
	for e, err := range c.Entities(ctx, feedURL, start) {
		if err != nil {
			return strings.Join(all, " "), err
		}
		all = append(all, e.ContentID)
		if c.config.Follow && len(all) == n {
			break
		}
	}
	return strings.Join(all, " "), nil
}

// TestJumpInFlux prunes the feed between the requests of a search: the consumer begins at the oldest
// remaining page, or reports that the position is no longer in the feed.
func TestJumpInFlux(t *testing.T) {
	for nth := 1; nth <= 6; nth++ {
		for name, start := range map[string]Start{"the beginning": Beginning(), "a time": Since(second(3))} {
			g, n := guided(guidedText), 0
			handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if n++; n == nth {
					g.prune(6)
				}
				g.ServeHTTP(rw, r)
			})
			inWorld(t, handler, func(t *testing.T, w *world) {
				got, err := ids(t, w.newClient(Config{}), start)
				if kindOfGap(err) == "" && err != nil || err == nil && !strings.HasSuffix(got, "k l m") {
					t.Errorf("pruned before request %d, %s: %q, %v", nth, name, got, err)
				}
			})
		}
	}
}

// TestJumpAfterOutage: if a server cannot be reached for a while, the client waits for it and does not crawl.
func TestJumpAfterOutage(t *testing.T) {
	g := guided(guidedText)
	var away, been atomic.Bool
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		g.ServeHTTP(rw, r)
	})
	inWorld(t, handler, func(t *testing.T, w *world) {
		g.intercept = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
			if r.Method == http.MethodHead && been.CompareAndSwap(false, true) { // the response to this request still arrives
				away.Store(true)
				go func() {
					time.Sleep(time.Hour)
					away.Store(false)
				}()
			}
			return false
		}
		got, err := idsUntil(t.Context(), w.newClient(Config{Follow: true}), Since(second(4)), 4)
		if err != nil || got != "j k l m" {
			t.Errorf("got %q and error %v", got, err)
		}
		seen := w.requests()
		if at := count(seen, "HEAD feed.test/feed/"); at > 0 {
			t.Errorf("%d pages were crawled: %q", at, seen)
		}
		synctest.Wait()
	})
}
