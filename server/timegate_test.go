package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/longfeed"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

var dawn = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// unled returns a site whose client does not follow redirects.
func unled(t *testing.T, h http.Handler) *site {
	c := inside(t, h)
	c.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// TestTimegate: the timegate leads to the last page that is strictly older than a time, or the
// oldest.
func TestTimegate(t *testing.T) {
	at := func(n int64) time.Time { return dawn.Add(time.Duration(n)*time.Minute + 300*time.Millisecond) }
	store := longfeed.New(memory.New(), "f", 50, at)
	_, err := chain.RaiseFloor(t.Context(), store, "f", 10)
	check(t, err)
	c := unled(t, newServer(t, store, server.Config{PublicURL: "https://example.org/data"}))
	for when, want := range map[time.Time]string{
		dawn:                             "10",
		at(10):                           "10",
		at(20):                           "19", // a date on the wire has no fractions of a second
		at(20).Add(time.Second):          "20",
		dawn.Add(1000 * time.Hour):       "50",
		time.Unix(0, 0):                  "10",
		at(50).Add(-59 * time.Second):    "49",
		at(50).Truncate(24 * time.Hour):  "10",
		at(30).Add(-1 * time.Nanosecond): "29",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			got := c.do(t, method, "/feeds/f/at", "", "Accept-Datetime: "+feed.FormatTime(when))
			fields := map[string]string{
				"Location": "https://example.org/data/feeds/f/pages/" + want, "Vary": "Accept-Datetime", "Cache-Control": "no-store",
				"Link": `<https://example.org/data/feeds/f>; rel="original"`, "Content-Length": "0", "X-Content-Type-Options": "nosniff",
			}
			if diff := cmp.Diff(fields, header(got.Header)); diff != "" || got.StatusCode != http.StatusFound {
				t.Errorf("%s %v: %s (-want +got):\n%s", method, when, got.Status, diff)
			}
		}
	}
}

// TestTimegateProblems: a request with anything but a date, or for anything but a feed, is refused.
func TestTimegateProblems(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 1, 4)
	c := unled(t, newServer(t, store, server.Config{Writable: true}))
	const date = "Accept-Datetime: Mon, 27 Nov 2023 03:10:00 GMT"
	for _, tt := range []struct {
		method, path string
		fields       []string
		status       int
		problem      string
	}{
		{"GET", "/feeds/f/at", nil, 400, "invalid-request"},
		{"GET", "/feeds/f/at", []string{"Accept-Datetime: yesterday"}, 400, "invalid-request"},
		{"GET", "/feeds/f/at", []string{"Accept-Datetime: 2023-11-27T03:10:00Z"}, 400, "invalid-request"},
		{"GET", "/feeds/f/at", []string{date, date}, 400, "invalid-request"},
		{"GET", "/feeds/none/at", []string{date}, 404, "no-feed"},
		{"GET", "/feeds/.x/at", []string{date}, 404, "no-feed"},
		{"POST", "/feeds/f/at", []string{date}, 405, "method"},
	} {
		got := c.do(t, tt.method, tt.path, "", tt.fields...)
		if name, _ := got.problem(t); got.StatusCode != tt.status || name != tt.problem {
			t.Errorf("%s %s %q: %s, %s", tt.method, tt.path, tt.fields, got.Status, name)
		}
	}
	if got := c.get(t, "/feeds/f/at", date); got.StatusCode != http.StatusFound {
		t.Errorf("after all: %s", got.Status)
	}
}

// TestTimegateNeedsCredentials: the timegate needs credentials for reading.
func TestTimegateNeedsCredentials(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 1, 4)
	c := unled(t, newServer(t, store, server.Config{ReadAuth: []server.Credential{{Bearer: "secret"}}}))
	const date = "Accept-Datetime: Mon, 27 Nov 2023 03:10:00 GMT"
	if got := c.get(t, "/feeds/f/at", date); got.StatusCode != http.StatusUnauthorized || got.Header.Get("Location") != "" {
		t.Errorf("without: %s %v", got.Status, got.Header)
	}
	if got := c.get(t, "/feeds/f/at", date, "Authorization: Bearer secret"); got.StatusCode != http.StatusFound {
		t.Errorf("with: %s", got.Status)
	}
}

// TestFirstLink: in every response with the newest page, the "first" link leads to the page at the floor, and
// no immutable page has this link.
func TestFirstLink(t *testing.T) {
	store := longfeed.New(memory.New(), "f", 5, func(n int64) time.Time { return dawn.Add(time.Duration(n) * time.Minute) })
	var links feed.Links
	for _, floor := range []int64{1, 3, 5} {
		_, err := chain.RaiseFloor(t.Context(), store, "f", floor)
		check(t, err)
		c := inside(t, newServer(t, store, server.Config{PublicURL: "https://example.org"})) // this server has not read the floor yet
		tag := c.get(t, "/feeds/f").Header.Get("Etag")
		for _, got := range []answer{
			c.get(t, "/feeds/f"), c.do(t, "HEAD", "/feeds/f", ""), c.get(t, "/feeds/f", "If-None-Match: "+tag), c.get(t, "/feeds/f", "Range: bytes=9-"),
			c.get(t, "/feeds/f/pages/5"), c.get(t, "/feeds/f", "Accept-Encoding: gzip"),
		} {
			links, err = feed.ParseLinks(nil, got.Header)
			check(t, err)
			page := map[int64]string{1: "1", 3: "3", 5: "5"}[floor]
			if links.First != "https://example.org/feeds/f/pages/"+page || links.Last != "https://example.org/feeds/f" || links.Timegate != "https://example.org/feeds/f/at" {
				t.Errorf("floor %d: %s has %+v", floor, got.Status, links)
			}
		}
	}
	store = longfeed.New(memory.New(), "f", 5, func(int64) time.Time { return dawn })
	c := inside(t, newServer(t, store, server.Config{PublicURL: "https://example.org"}))
	inner, err := feed.ParseLinks(nil, c.get(t, "/feeds/f/pages/4").Header)
	check(t, err)
	if inner.First != "" || inner.Timegate != "" || inner.Last != links.Last {
		t.Errorf("an immutable page has %+v", inner)
	}
}
