package readiness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/problem"
)

// get returns the response of the checks to a request.
func get(t *testing.T, c *Checks, method string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/readyz", nil))
	return w
}

// TestReady: a store is lost and comes back, and a cache fails in the meantime.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store, cache error
		c := New(
			Essential("store", func(context.Context) error { return store }),
			Optional("cache", func(context.Context) error { return cache }),
		)
		begun := time.Now().UTC()
		if w := get(t, c, http.MethodGet); w.Code != 200 || w.Body.String() != "ready\n" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
		time.Sleep(time.Minute)
		cache = errors.New("input/output error")
		failed := begun.Add(time.Minute).Format(time.RFC3339)
		for range 2 {
			w := get(t, c, http.MethodGet)
			if want := "ready\ndegraded: cache, since " + failed + ": input/output error\n"; w.Code != 200 || w.Body.String() != want {
				t.Errorf("%d %q, want %q", w.Code, w.Body, want)
			}
			time.Sleep(time.Minute)
		}
		away := problem.New(http.StatusServiceUnavailable, "store-away", "the store does not respond")
		away.Cause = errors.New("dial tcp 10.0.0.7: secret")
		store = fmt.Errorf("stat: %w", away)
		w := get(t, c, http.MethodGet)
		var got struct {
			Type, Detail string
			Checks       []Status
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 503 || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%d %v %s", w.Code, err, w.Body)
		}
		if got.Type != "urn:feedctl:problem:store-away" || len(got.Checks) != 2 {
			t.Fatalf("%s", w.Body)
		}
		want := Status{Name: "store", State: Failed, Error: "the store does not respond", Since: begun.Add(3 * time.Minute)}
		if got.Checks[0] != want || got.Checks[1].State != Degraded || !got.Checks[1].Since.Equal(begun.Add(time.Minute)) {
			t.Errorf("%s", w.Body)
		}
		if w := get(t, c, http.MethodHead); w.Code != 503 || w.Body.Len() > 0 {
			t.Errorf("HEAD: %d %q", w.Code, w.Body)
		}
		if _, err := c.Ready(t.Context()); !errors.Is(err, away.Cause) {
			t.Errorf("the cause is lost: %v", err)
		}
		store, cache = nil, nil
		if w := get(t, c, http.MethodGet); w.Body.String() != "ready\n" {
			t.Errorf("%q", w.Body)
		}
	})
}

// TestSlow: a check waits as long as its context allows.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := New(Essential("store", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })).Ready(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != timeout {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// TestWatch: a server fails for a while.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		c, begun := New(w.Check), time.Now()
		if text, err := c.Ready(t.Context()); err != nil || text != "ready\n" {
			t.Errorf("before anything was used: %q, %v", text, err)
		}
		for _, err := range []error{nil, errors.New("a"), errors.New("b")} {
			w.Note("https://x.test", err)
			time.Sleep(time.Minute)
		}
		got := c.Run(t.Context())
		if len(got) != 1 || got[0].State != Failed || got[0].Error != "b" || !got[0].Since.Equal(begun.Add(time.Minute)) {
			t.Errorf("%+v", got)
		}
		w.Note("https://x.test", nil)
		if got := c.Run(t.Context()); got[0].State != OK || !got[0].Since.Equal(time.Now()) {
			t.Errorf("%+v", got)
		}
		for n := range 2 * maxWatched {
			w.Note(fmt.Sprint("server ", n), nil)
		}
		if got := c.Run(t.Context()); len(got) != maxWatched {
			t.Errorf("%d names are watched", len(got))
		}
	})
}
