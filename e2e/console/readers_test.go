package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/readers"
)

// A follower is a reader of one of the demo's feeds.
type follower struct {
	feed, name, agent, address, user string
	// behind returns how far the follower is behind, the given time before the end of the day.
	behind func(before time.Duration) time.Duration
}

func followers() []follower {
	caughtUp := func(time.Duration) time.Duration { return 0 }
	const own, web, desk = "feedctl/v1.2.0", "192.0.2.17:40200", "198.51.100.4:51111"
	return []follower{
		{"prices", "web", own, web, "shop", caughtUp},
		{"prices", "search", own, web, "shop", func(before time.Duration) time.Duration { return 20*time.Second + before/200 }},
		{"stock", "web", own, web, "shop", func(before time.Duration) time.Duration { return max(0, 19*time.Minute-before) }},
		{"orders", "archive", own, desk, "archive", caughtUp},
		{"products", "", "curl/8.14.1", desk, "", func(time.Duration) time.Duration { return 3 * time.Hour }},
		{"products", "eu-central-warehouse-inventory-adjustments-by-location-and-lot", own, web, "shop", caughtUp},
	}
}

// track returns a tracker that has sampled the readers of the demo's feeds for a day of fake time.
func track(t *testing.T, end time.Time, newest map[string]*chain.Page) *readers.Tracker {
	t.Helper()
	now := time.Now
	tracker := readers.New(readers.Config{Users: true, Now: func() time.Time { return now() }})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		now = func() time.Time { return end.Add(time.Since(start) - 25*time.Hour) }
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go tracker.Run(ctx, func(_ context.Context, feed string) (*chain.Page, error) { return newest[feed], nil })
		for before := 25 * time.Hour; before >= 0; before -= time.Minute {
			for _, f := range followers() {
				f.request(tracker, newest[f.feed], newest[f.feed].Last.Add(-before), before)
			}
			if before > 0 {
				time.Sleep(time.Minute)
			}
		}
	})
	now = time.Now
	return tracker
}

// request makes the follower request the newest page of its feed. In the response, the last entity has
// the time last.
func (f follower) request(tracker *readers.Tracker, newest *chain.Page, last time.Time, before time.Duration) {
	handler := tracker.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Location", layout.FeedPagePath(f.feed, newest.Number))
		w.Header().Set("Last-Modified", feed.FormatTime(last))
	}))
	request := httptest.NewRequest(http.MethodGet, layout.FeedPath(f.feed), nil)
	request.Header.Set("User-Agent", f.agent)
	request.RemoteAddr = f.address
	if f.user != "" {
		request.SetBasicAuth(f.user, "secret")
	}
	if f.name != "" {
		a := feed.Announcement{Name: f.name, LastModified: last.Add(-f.behind(before)), Page: layout.FeedPagePath(f.feed, newest.Number)}
		if f.behind(before) == 0 && before == 0 {
			a.ContentID = newest.LastContentID
		}
		request.Header.Set(feed.ConsumerHeader, a.Header())
	}
	handler.ServeHTTP(httptest.NewRecorder(), request)
}
