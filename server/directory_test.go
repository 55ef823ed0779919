package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestDirectoryPages follows the directory from page to page.
func TestDirectoryPages(t *testing.T) {
	store := memory.New()
	want := []string{"f/a-b", "f/a", "f/b", "f/c", "s/a", "s/s"}
	for _, name := range []string{"a", "b", "c", "a-b"} {
		publishTo(t, store, name, 1, 1)
	}
	writeSnapshot(t, store, "s", 1)
	writeSnapshot(t, store, "a", 1)
	c := inside(t, newServer(t, store, server.Config{}))
	for limit := 1; limit <= len(want); limit++ {
		var got []string
		for next := fmt.Sprintf("/?limit=%d", limit); next != ""; {
			answer := c.get(t, next)
			var d server.Directory
			check(t, json.Unmarshal(answer.body, &d))
			if n := len(d.Feeds) + len(d.Snapshots); n == 0 || n > limit {
				t.Fatalf("limit %d: a page has %d names", limit, n)
			}
			for _, f := range d.Feeds {
				got = append(got, "f/"+f.Name)
			}
			for _, s := range d.Snapshots {
				got = append(got, "s/"+s.Name)
			}
			link := ""
			if d.Next != "" {
				link = "<" + d.Next + `>; rel="next"`
				html := c.get(t, next, "Accept: text/html")
				if !strings.Contains(string(html.body), `rel="next">More`) || html.Header.Get("Link") != link {
					t.Errorf("limit %d: HTML without a next page: %s", limit, html.body)
				}
			}
			if answer.Header.Get("Link") != link || d.Truncated != (d.Next != "") {
				t.Errorf("limit %d: Link %q, truncated %t, next %q", limit, answer.Header.Get("Link"), d.Truncated, d.Next)
			}
			next = strings.TrimPrefix(d.Next, c.url)
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got %q, want %q", limit, got, want)
		}
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "after=a", "after=feeds/", "after=feeds/..", "after=snapshots/a/b"} {
		answer := c.get(t, "/?"+query)
		if name, _ := answer.problem(t); name != "invalid-request" || answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s %s", query, answer.Status, name)
		}
	}
}

func TestNoListing(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 1, 1)
	c := inside(t, newServer(t, store, server.Config{NoListing: true}))
	answer := c.get(t, "/")
	if name, _ := answer.problem(t); name != "no-listing" || answer.StatusCode != http.StatusNotFound {
		t.Errorf("GET /: %s %s", answer.Status, answer.body)
	}
	if got := c.get(t, "/feeds/f"); got.StatusCode != http.StatusOK {
		t.Errorf("GET /feeds/f: %s", got.Status)
	}
}

// TestMetricsOfManyFeeds: a scrape waits for only a few feeds; the others are polled afterwards, and feeds
// without metrics are counted.
func TestMetricsOfManyFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		time.Sleep(time.Until(epoch)) // the clock of publishTo
		const feeds = 120
		for i := range feeds {
			publishTo(t, store, fmt.Sprintf("f%03d", i), 1, 1)
		}
		c := inside(t, newServer(t, store, server.Config{}))
		scrape := func(shown, count int) {
			t.Helper()
			start := time.Now()
			text := string(c.get(t, "/metrics").body)
			if took := time.Since(start); took > 50*time.Millisecond {
				t.Errorf("a scrape takes %v", took)
			}
			if got := strings.Count(text, "\nfeedctl_feed_newest_page{"); got != shown {
				t.Errorf("%d feeds have metrics, want %d", got, shown)
			}
			for _, want := range []string{fmt.Sprintf("\nfeedctl_feeds %d\n", count), fmt.Sprintf("\nfeedctl_feeds_left_out %d\n", count-shown)} {
				if !strings.Contains(text, want) {
					t.Errorf("metrics lack %q", want)
				}
			}
		}
		scrape(50, feeds)
		time.Sleep(2 * time.Second)
		scrape(feeds, feeds)

		// A feed that is gone, one that cannot be read, and a new one.
		time.Sleep(3 * time.Second)
		check(t, store.Delete(t.Context(), "feeds/f000/pages/000000000001"))
		check(t, store.Delete(t.Context(), "feeds/f000/floor"))
		info, err := store.Stat(t.Context(), "feeds/f001/pages/000000000001")
		check(t, err)
		_, err = store.Replace(t.Context(), info.Key, info.Version, storage.Meta{Data: []byte("?")}, storage.Bytes())
		check(t, err)
		publishTo(t, store, "new", 1, 1)
		c.get(t, "/metrics")
		time.Sleep(3 * time.Second)
		scrape(feeds-1, feeds)
	})
}
