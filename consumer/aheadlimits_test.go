package consumer

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/origins"
)

// TestLimitedAhead reads a feed from a server that refuses more than ten requests a second, with
// the limits that jobs share. Requests for pages ahead stay within these limits.
func TestLimitedAhead(t *testing.T) {
	const pages, perSecond, atOnce = 300, 10, 3
	x := newIndexedFeed(pages)
	x.chained = false
	var mu sync.Mutex
	var begun []time.Time // times of the requests within the last second
	refused, waiting, most := 0, 0, 0
	x.intercept = func(rw http.ResponseWriter, _ *http.Request, _ int) bool {
		mu.Lock()
		defer mu.Unlock()
		for len(begun) > 0 && time.Since(begun[0]) >= time.Second {
			begun = begun[1:]
		}
		if len(begun) >= perSecond {
			refused++
			rw.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		begun = append(begun, time.Now())
		return false
	}
	inWorld(t, x, func(t *testing.T, w *world) {
		next := w.client.Transport
		counted := roundTrip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			waiting++
			most = max(most, waiting)
			mu.Unlock()
			response, err := next.RoundTrip(r)
			mu.Lock()
			waiting--
			mu.Unlock()
			return response, err
		})
		pool := origins.New(origins.Config{
			Transport: counted, Patience: func() time.Duration { return time.Hour },
			Wait: func(*origins.Error) {}, Works: func(string) {},
		})
		pool.AtOnce = atOnce
		ctx, end := context.WithCancelCause(t.Context())
		defer end(nil)
		w.client = &http.Client{Transport: pool.Client(ctx, end)}
		want(t, w.newClient(Config{}), afterFirst(), pageIDs(2, pages))
	})
	if most > atOnce || refused > pages/10 {
		t.Errorf("%d of %d requests were refused, up to %d at the same time", refused, x.fetched, most)
	}
}
