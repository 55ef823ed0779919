package consumer

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// withIdentity serves a feed with an identity. The test may change the feed and its identity.
func withIdentity(f **testFeed, identity *feed.Identity) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if value := (feed.Chain{Identity: *identity}).Header(); value != "" {
			rw.Header().Set(feed.ChainHeader, value)
		}
		(*f).ServeHTTP(rw, r)
	})
}

// TestIdentityOfUnchangedPage: a follower also checks the identity and the epoch in a 304 response.
func TestIdentityOfUnchangedPage(t *testing.T) {
	epoch := func(last time.Time) feed.Epoch { return feed.Epoch{Number: 1, ID: "ee", Last: last} }
	for name, c := range map[string]struct {
		now  feed.Identity
		want error
	}{
		"another feed":               {feed.Identity{ID: "bb"}, ErrOtherFeed},
		"an epoch that is common":    {feed.Identity{ID: "aa", Epoch: epoch(second(2))}, nil},
		"an epoch that began before": {feed.Identity{ID: "aa", Epoch: epoch(second(1))}, ErrEpoch},
		"nothing is known":           {feed.Identity{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFeed("a0 b1 | c2")
			identity := feed.Identity{ID: "aa"}
			inWorld(t, withIdentity(&f, &identity), func(t *testing.T, w *world) {
				polls := 0
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				client := w.newClient(Config{Follow: true, Retry: RetryConfig{Attempts: 1}, Idle: func() {
					identity = c.now
					if polls++; polls == 3 {
						stop()
					}
				}})
				var last feed.Position
				for e, err := range client.Entities(ctx, feedURL, Beginning()) {
					if err != nil {
						if c.want == nil && ctx.Err() == nil || c.want != nil && !errors.Is(err, c.want) {
							t.Errorf("error is %v, want %v", err, c.want)
						}
						break
					}
					last = e.Position()
				}
				if last.ContentID != "c" || last.Identity != "aa" {
					t.Errorf("position is %+v", last)
				}
			})
		})
	}
}

// TestEpochBeforeItsPages: a follower of a feed without an identity receives a response that states the
// new epoch but has a page from before it, because the server read the page before the restore and the
// epoch after it. When that page is then gone, the follower still knows that what it has read is from
// before the epoch.
func TestEpochBeforeItsPages(t *testing.T) {
	f := newFeed("a0 b1 | c2 | d3")
	var now feed.Identity
	inWorld(t, withIdentity(&f, &now), func(t *testing.T, w *world) {
		polls := 0
		client := w.newClient(Config{Follow: true, Retry: RetryConfig{Attempts: 1}, Idle: func() {
			now = feed.Identity{ID: "aa", Epoch: feed.Epoch{Number: 1, ID: "ee", Last: second(1)}}
			if polls++; polls == 3 {
				f = newFeed("a0 b1 | x4")
			}
		}})
		var got error
		for _, err := range client.Entities(t.Context(), feedURL, Beginning()) {
			got = err
		}
		var epoch *EpochError
		if !errors.As(got, &epoch) || epoch.Position.ContentID != "d" || epoch.Position.Epoch != "" {
			t.Errorf("error is %v", got)
		}
	})
}
