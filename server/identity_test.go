package server_test

import (
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// identityOf returns the identity in a response.
func identityOf(t *testing.T, a answer) feed.Identity {
	t.Helper()
	c, err := feed.ParseChain(a.Header)
	check(t, err)
	return c.Identity
}

// TestIdentity: all pages have the feed's identity, and the newest one says which epoch the feed is
// in, with every status and method. Immutable pages do not, since the epoch may change.
func TestIdentity(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		publishTo(t, store, "f", 1, 7) // pages of 3, 3 and 1
		id, err := chain.BeginEpoch(t.Context(), store, "f")
		check(t, err)
		s := connect(t, newServer(t, store, server.Config{}))
		etag := s.get(t, "/feeds/f").Header.Get("Etag")
		for _, path := range []string{"/feeds/f", "/feeds/f/pages/3", "/feeds/f/pages/2", "/feeds/f/pages/1"} {
			want := id
			if path == "/feeds/f/pages/2" || path == "/feeds/f/pages/1" {
				want.Epoch = feed.Epoch{}
				etag = s.get(t, path).Header.Get("Etag")
			}
			for status, a := range map[int]answer{
				200: s.get(t, path), 304: s.do(t, http.MethodGet, path, "", "If-None-Match: "+etag),
				206: s.do(t, http.MethodGet, path, "", "Range: bytes=3-9"), 0: s.do(t, http.MethodHead, path, ""),
			} {
				if status > 0 && a.StatusCode != status {
					t.Errorf("%s: %s, want %d", path, a.Status, status)
				}
				if got := identityOf(t, a); got != want {
					t.Errorf("%s: status %s: %+v, want %+v", path, a.Status, got, want)
				}
			}
		}
	})
}

// TestOtherHistory changes the history of a feed whose pages a running server has in memory or on
// disk. As soon as the server has read the floor again, it answers from the store, and logs why.
func TestOtherHistory(t *testing.T) {
	for _, cached := range []bool{false, true} {
		for _, c := range []struct {
			name, cause string
			change      func(t *testing.T, store, copied storage.Store)
		}{
			{"another feed", "store has another feed of this name", func(t *testing.T, store, _ storage.Store) {
				other := memory.New()
				publishTo(t, other, "f", 50, 20)
				restore(t, store, other)
			}},
			{"the epoch after a restore", "feed began another epoch", func(t *testing.T, store, copied storage.Store) {
				restore(t, store, copied)
				_, err := chain.BeginEpoch(t.Context(), store, "f")
				check(t, err)
				publishTo(t, store, "f", 70, 15)
			}},
			{"deleted and made again", "store has another feed of this name", func(t *testing.T, store, _ storage.Store) {
				_, err := chain.Delete(t.Context(), store, "f")
				check(t, err)
				publishTo(t, store, "f", 90, 7)
			}},
		} {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(epoch)) // the clock of publishTo
				var store storage.Store = memory.New()
				if cached {
					store = cachedStore{far(store, 0), openCache(t, t.TempDir(), 64<<20)}
				}
				copied := memory.New()
				publishTo(t, store, "f", 1, 7)
				restore(t, copied, store)
				publishTo(t, store, "f", 20, 9)
				log := &lockedLog{}
				s := inside(t, newServer(t, store, server.Config{Logger: slog.New(slog.NewTextHandler(log, nil)), ReadAhead: 8 << 20}))
				for range 2 {
					answers(t, s)
				}
				c.change(t, store, copied)
				time.Sleep(time.Second)
				cold := inside(t, newServer(t, plain(store), server.Config{Logger: slog.New(slog.DiscardHandler), ReadAhead: -1}))
				for _, path := range []string{"/feeds/f/pages/2", "/feeds/f/pages/3", "/feeds/f/pages/4", "/feeds/f"} { // immutable ones first
					want, got := cold.get(t, path), s.get(t, path)
					if got.StatusCode != want.StatusCode || string(got.body) != string(want.body) || identityOf(t, got) != identityOf(t, want) {
						t.Errorf("%s: cache %t: %s: %s %v, want %s %v", c.name, cached, path, got.Status, got.Header, want.Status, want.Header)
					}
				}
				if log.count(wentBack) != 1 || log.count(c.cause) != 1 {
					t.Errorf("%s: cache %t: the log does not have exactly one warning:\n%s", c.name, cached, log.text.String())
				}
			})
		}
	}
}

// TestWaitForOtherHistory: when a request finds another history, waiting requests are answered, although the
// store is not polled again for a long time.
func TestWaitForOtherHistory(t *testing.T) {
	store, copied := far(memory.New(), 0), memory.New() // a far store does not report changes
	inBubble(t, store, server.Config{PollInterval: time.Hour}, func(t *testing.T, _ *server.Server, s, _ *site) {
		s.post(t, "f", "<2>")
		restore(t, copied, store)
		s.post(t, "f", "<3>")
		etag := s.get(t, "/feeds/f").Header.Get("Etag")
		w := s.wait(t, "/feeds/f", "If-None-Match: "+etag, "Prefer: wait=60")
		time.Sleep(13 * time.Second)
		restore(t, store, copied)
		s.get(t, "/feeds/f")
		<-w.done
		if a := w.answer; a.StatusCode != http.StatusOK || parts(a.body) != 2 || w.took > 14*time.Second {
			t.Errorf("%s with %d entities after %v", a.Status, parts(a.body), w.took)
		}
	})
}
