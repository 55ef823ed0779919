package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// restore replaces the contents of a store with those of another.
func restore(t *testing.T, store, from storage.Store) {
	t.Helper()
	for entry, err := range store.List(t.Context(), "", "") {
		check(t, err)
		check(t, store.Delete(t.Context(), entry.Key))
	}
	for entry, err := range from.List(t.Context(), "", "") {
		check(t, err)
		object, err := from.Get(t.Context(), entry.Key, 0, -1)
		check(t, err)
		body, err := io.ReadAll(object.Body)
		check(t, errors.Join(err, object.Body.Close()))
		_, err = store.Create(t.Context(), entry.Key, object.Meta, storage.Bytes(body))
		check(t, err)
	}
}

// A lockedLog is a log that can be read while it is being written.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

const wentBack = "the feed's history has changed"

// TestStoreGoesBack restores the store of a running server to an older state and
// publishes more. Once the server has read the newest page, it answers like a server that
// has just started.
func TestStoreGoesBack(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		copied := memory.New()
		log := &lockedLog{}
		s := connect(t, newServer(t, store, server.Config{Logger: slog.New(slog.NewTextHandler(log, nil)), ReadAhead: 8 << 20}))
		for i, c := range []struct{ kept, lost, added int }{
			{7, 6, 0}, {7, 6, 1}, {7, 6, 5}, {7, 6, 9}, {5, 1, 0}, {6, 3, 0}, {6, 3, 6}, {0, 9, 7}, {0, 6, 6},
		} {
			restore(t, store, memory.New())
			publishTo(t, store, "f", 100*i, c.kept)
			restore(t, copied, store)
			publishTo(t, store, "f", 100*i+20, c.lost)
			for range 2 { // the second time, much is in memory
				answers(t, s)
			}
			warned := log.count(wentBack)
			restore(t, store, copied)
			publishTo(t, store, "f", 100*i+40, c.added)
			s.get(t, "/feeds/f")
			cold := inside(t, newServer(t, plain(store), server.Config{ReadAhead: -1}))
			cold.url = s.url
			if diff := cmp.Diff(answers(t, &site{s.url, cold.client}), answers(t, s)); diff != "" {
				t.Errorf("%+v (-new server +running server):\n%s", c, diff)
			}
			if n := log.count(wentBack) - warned; n != 1 {
				t.Errorf("%+v: %d warnings, want 1", c, n)
			}
		}
	})
}

// plain returns a store without its cache.
func plain(store storage.Store) storage.Store {
	if cached, ok := store.(cachedStore); ok {
		return cached.farStore
	}
	return store
}

// answers returns the responses of a server for a feed.
func answers(t *testing.T, s *site) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for n := range 7 {
		path := fmt.Sprintf("/feeds/f/pages/%d", n)
		if n == 0 {
			path = "/feeds/f"
		}
		for _, method := range []string{http.MethodHead, http.MethodGet} {
			a := s.do(t, method, path, "")
			fields := header(a.Header)
			all[method+" "+path] = fmt.Sprint(a.StatusCode, fields["Etag"], fields["Feedctl-Chain"], fields["Link"], fields["Repr-Digest"], string(a.body))
		}
	}
	return all
}

// TestPageOfBefore requests pages that no longer exist since the store was restored, before the server has
// read the newest page.
func TestPageOfBefore(t *testing.T) {
	store, copied := memory.New(), memory.New()
	publishTo(t, store, "f", 1, 4)
	restore(t, copied, store)
	publishTo(t, store, "f", 20, 9)
	s := inside(t, newServer(t, store, server.Config{ReadAhead: -1}))
	s.get(t, "/feeds/f")
	restore(t, store, copied)
	for _, path := range []string{"/feeds/f/pages/3", "/feeds/f/pages/5", "/feeds/f/pages/3"} {
		if a := s.get(t, path); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
	if a := s.get(t, "/feeds/f/pages/2"); a.StatusCode != http.StatusOK || strings.Contains(a.Header.Get("Link"), "next") {
		t.Errorf("page that is the newest again: %s, %v", a.Status, a.Header)
	}
}

// TestWaitForStoreThatGoesBack: a waiting request is answered when the store is restored.
func TestWaitForStoreThatGoesBack(t *testing.T) {
	store, copied := memory.New(), memory.New()
	inBubble(t, store, server.Config{}, func(t *testing.T, _ *server.Server, s, _ *site) {
		s.post(t, "f", "<2>")
		restore(t, copied, store)
		s.post(t, "f", "<3>")
		etag := s.get(t, "/feeds/f").Header.Get("Etag")
		w := s.wait(t, "/feeds/f", "If-None-Match: "+etag, "Prefer: wait=60")
		restore(t, store, copied)
		<-w.done
		if a := w.answer; a.StatusCode != http.StatusOK || parts(a.body) != 2 {
			t.Errorf("%s with %d entities", a.Status, parts(a.body))
		}
		if w.took > 20*time.Second {
			t.Errorf("it took %v", w.took)
		}
	})
}
