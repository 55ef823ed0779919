package fromstore_test

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/internal/longfeed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

var longest = flag.Int64("long-feed", 1000, "seek in feeds of up to this many pages")

// A counter is a transport that records requests.
type counter struct {
	http.RoundTripper
	mu   sync.Mutex
	sent []string
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.sent = append(c.sent, r.Method+" "+r.URL.String())
	c.mu.Unlock()
	return c.RoundTripper.RoundTrip(r)
}

func (c *counter) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

// TestRequests counts the requests up to and including the one for the page with the first entity.
// Their number does not depend on the length of the feed.
func TestRequests(t *testing.T) {
	dawn := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(n int64) time.Time { return dawn.Add(time.Duration(n) * time.Minute) }
	for _, pages := range slices.Compact([]int64{10, 1000, *longest}) {
		store := longfeed.New(memory.New(), "f", pages, at)
		floor, middle := pages/5, pages/2
		_, err := chain.RaiseFloor(t.Context(), store, "f", floor)
		check(t, err)
		handler, err := server.New(store, server.Config{})
		check(t, err)
		defer handler.Close(t.Context())
		const origin = "http://store.example"
		for _, tt := range []struct {
			what  string
			start consumer.Start
			first string // entity
			most  int
		}{
			{"the beginning", consumer.Beginning(), fmt.Sprintf("<%d-1>", floor), 2},
			{"a time", consumer.Since(at(middle)), fmt.Sprintf("<%d-1>", middle), 4},
			{"the time of the newest page", consumer.Since(at(pages)), fmt.Sprintf("<%d-1>", pages), 4},
			{"a Content-ID whose page is gone", consumer.After(feed.Position{
				ContentID: fmt.Sprintf("<%d-1>", middle), LastModified: at(middle), Page: origin + layout.FeedPagePath("f", 1),
			}), fmt.Sprintf("<%d-2>", middle), 5},
			{"a Content-ID that is not on its page", consumer.After(feed.Position{
				ContentID: fmt.Sprintf("<%d-1>", middle), LastModified: at(middle), Page: origin + layout.FeedPagePath("f", pages-1),
			}), fmt.Sprintf("<%d-2>", middle), 5},
			{"a Content-ID of a feed that has moved", consumer.After(feed.Position{
				ContentID: fmt.Sprintf("<%d-1>", middle), LastModified: at(middle), Page: "https://former.example/pages/77",
			}), fmt.Sprintf("<%d-2>", middle), 4},
		} {
			transport := &counter{RoundTripper: inprocess.Transport(handler)}
			client, err := consumer.New(consumer.Config{HTTPClient: &http.Client{Transport: transport}})
			check(t, err)
			for e, err := range client.Entities(t.Context(), origin+"/feeds/f", tt.start) {
				check(t, err)
				if e.ContentID != tt.first {
					t.Errorf("%d pages, %s: begins with %s, want %s", pages, tt.what, e.ContentID, tt.first)
				}
				sent := transport.requests()
				n := slices.Index(sent, "GET "+e.Page) + 1 // requests after this one read ahead
				t.Logf("%d pages, %s: %d requests", pages, tt.what, n)
				if n < 1 || n > tt.most {
					t.Errorf("%d pages, %s: %d requests, want at most %d: %q", pages, tt.what, n, tt.most, sent)
				}
				break
			}
			local := fromstore.New(store, fromstore.Config{Name: origin})
			client, err = consumer.New(consumer.Config{Source: local})
			check(t, err)
			for e, err := range client.Entities(t.Context(), local.Feed("f"), tt.start) {
				check(t, err)
				if e.ContentID != tt.first {
					t.Errorf("%d pages, without a server, %s: begins with %s, want %s", pages, tt.what, e.ContentID, tt.first)
				}
				break
			}
			local.Close()
		}
	}
}
