package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// post publishes one entity.
func (s *site) post(t *testing.T, feed, id string) answer {
	t.Helper()
	got := s.do(t, http.MethodPost, "/feeds/"+feed, "hello "+id, "Content-Type: text/plain", "Content-ID: "+id)
	if got.StatusCode != http.StatusOK {
		t.Fatalf("POST: %s %s", got.Status, got.body)
	}
	return got
}

// inBubble runs a test in fake time, with two servers on one store.
func inBubble(t *testing.T, store storage.Store, c server.Config, test func(t *testing.T, s *server.Server, here, there *site)) {
	synctest.Test(t, func(t *testing.T) {
		c.Writable = true
		other := newServer(t, store, c)
		s := newServer(t, store, c)
		here, there := inside(t, s), inside(t, other)
		here.post(t, "f", "<1>")
		test(t, s, here, there)
	})
}

// waiting is a request that has been sent.
type waiting struct {
	answer answer
	took   time.Duration
	done   chan struct{}
}

// wait sends a long-poll and returns when the server holds it.
func (s *site) wait(t *testing.T, path string, fields ...string) *waiting {
	w := &waiting{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		start := time.Now()
		w.answer = s.get(t, path, fields...)
		w.took = time.Since(start)
	}()
	synctest.Wait()
	return w
}

func (w *waiting) check(t *testing.T, status int, took time.Duration, applied string) {
	t.Helper()
	<-w.done
	if w.answer.StatusCode != status || w.took != took || w.answer.Header.Get("Preference-Applied") != applied {
		t.Errorf("%s after %v with Preference-Applied %q, want %d after %v with %q",
			w.answer.Status, w.took, w.answer.Header.Get("Preference-Applied"), status, took, applied)
	}
}

func etag(t *testing.T, s *site, path string) string {
	t.Helper()
	return "If-None-Match: " + s.get(t, path).Header.Get("Etag")
}

func TestWait(t *testing.T) {
	watched := func() storage.Store { return memory.New() }
	polled := func() storage.Store { return struct{ storage.Store }{memory.New()} }
	pageOfOne := server.Config{}
	pageOfOne.Producer.MaxPageEntities = 1
	tests := []struct {
		name   string
		store  func() storage.Store
		config server.Config
		test   func(t *testing.T, s *server.Server, here, there *site)
	}{
		{"until published here", polled, server.Config{}, func(t *testing.T, _ *server.Server, here, _ *site) {
			w := here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20")
			here.post(t, "f", "<2>")
			w.check(t, 200, 0, "wait=20")
			if !strings.Contains(string(w.answer.body), "<2>") || w.answer.Header.Get("Repr-Digest") != reprDigest(w.answer.body) {
				t.Errorf("got %v %s", w.answer.Header, w.answer.body)
			}
		}},
		{"until published elsewhere, notified by the store", watched, server.Config{}, func(t *testing.T, _ *server.Server, here, there *site) {
			w := here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20")
			there.post(t, "f", "<2>")
			w.check(t, 200, 0, "wait=20")
		}},
		{"until published elsewhere, seen by polling", polled, server.Config{PollInterval: 3 * time.Second}, func(t *testing.T, _ *server.Server, here, there *site) {
			w := here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20")
			time.Sleep(4 * time.Second) // of the bubble
			there.post(t, "f", "<2>")
			w.check(t, 200, 6*time.Second, "wait=20")
		}},
		{"until the wait is over", watched, server.Config{}, func(t *testing.T, _ *server.Server, here, _ *site) {
			w := here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20")
			w.check(t, 304, 20*time.Second, "wait=20")
		}},
		{"with HEAD and a coding", watched, server.Config{}, func(t *testing.T, _ *server.Server, here, _ *site) {
			tag := here.get(t, "/feeds/f", "Accept-Encoding: zstd").Header.Get("Etag")
			w := here.wait(t, "/feeds/f", "If-None-Match: "+tag, "Accept-Encoding: zstd", "Prefer: wait=20")
			here.post(t, "f", "<2>")
			w.check(t, 200, 0, "wait=20")
			if w.answer.Header.Get("Content-Encoding") != "zstd" {
				t.Errorf("got %v", w.answer.Header)
			}
		}},
		{"at most MaxWait", watched, server.Config{MaxWait: 5 * time.Second}, func(t *testing.T, _ *server.Server, here, _ *site) {
			w := here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20")
			w.check(t, 304, 5*time.Second, "wait=5")
		}},
		{"not without If-None-Match", watched, server.Config{}, func(t *testing.T, _ *server.Server, here, _ *site) {
			here.wait(t, "/feeds/f", "Prefer: wait=20").check(t, 200, 0, "")
		}},
		{"not with another ETag", watched, server.Config{}, func(t *testing.T, _ *server.Server, here, _ *site) {
			here.wait(t, "/feeds/f", `If-None-Match: "x"`, "Prefer: wait=20").check(t, 200, 0, "")
		}},
		{"not for a linked page", watched, pageOfOne, func(t *testing.T, _ *server.Server, here, _ *site) {
			here.post(t, "f", "<2>")
			here.wait(t, "/feeds/f/pages/1", etag(t, here, "/feeds/f/pages/1"), "Prefer: wait=20").check(t, 304, 0, "")
		}},
		{"for the next link of a page", watched, pageOfOne, func(t *testing.T, _ *server.Server, here, _ *site) {
			w := here.wait(t, "/feeds/f/pages/1", etag(t, here, "/feeds/f/pages/1"), "Prefer: wait=20")
			here.post(t, "f", "<2>")
			w.check(t, 200, 0, "wait=20")
			if links := strings.Join(w.answer.Header["Link"], " "); !strings.Contains(links, `/pages/2>; rel="next"`) {
				t.Errorf("Link %s", links)
			}
		}},
		{"for the next page", watched, pageOfOne, func(t *testing.T, _ *server.Server, here, _ *site) {
			w := here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20")
			here.post(t, "f", "<2>")
			w.check(t, 200, 0, "wait=20")
			if at := w.answer.Header.Get("Content-Location"); !strings.HasSuffix(at, "/pages/2") {
				t.Errorf("Content-Location %s", at)
			}
		}},
		{"not for another feed", watched, server.Config{}, func(t *testing.T, _ *server.Server, here, _ *site) {
			w := here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20")
			here.post(t, "g", "<2>")
			w.check(t, 304, 20*time.Second, "wait=20")
		}},
		{"not more than MaxWaiters", watched, server.Config{MaxWaiters: 1}, func(t *testing.T, _ *server.Server, here, _ *site) {
			first := here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20")
			here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20").check(t, 304, 0, "")
			first.check(t, 304, 20*time.Second, "wait=20")
			here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20").check(t, 304, 20*time.Second, "wait=20")
		}},
		{"until the server closes", watched, server.Config{}, func(t *testing.T, s *server.Server, here, _ *site) {
			w := here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20")
			check(t, s.Close(context.Background()))
			w.check(t, 304, 0, "wait=20")
			here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20").check(t, 304, 0, "")
			if got := here.do(t, http.MethodPost, "/feeds/f", "x", "Content-Type: text/plain"); got.StatusCode != 503 {
				t.Errorf("publish to a closed server: %s", got.Status)
			}
		}},
		{"until the client disconnects", watched, server.Config{}, func(t *testing.T, _ *server.Server, here, _ *site) {
			ctx, cancel := context.WithCancel(context.Background())
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, here.url+"/feeds/f", nil)
			check(t, err)
			r.Header.Set("If-None-Match", here.get(t, "/feeds/f").Header.Get("Etag"))
			r.Header.Set("Prefer", "wait=20")
			go func() {
				if response, err := here.client.Do(r); err == nil {
					t.Errorf("got %s", response.Status)
					response.Body.Close()
				}
			}()
			synctest.Wait()
			cancel()
			synctest.Wait()
			if metrics := string(here.get(t, "/metrics").body); !strings.Contains(metrics, "\nfeedctl_http_waiters 0\n") {
				t.Error("the waiter is still counted")
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { inBubble(t, tt.store(), tt.config, tt.test) })
	}
}

// TestManyWaiters: the store is polled once for all waiting requests of a feed, and less often if it
// reports changes.
func TestManyWaiters(t *testing.T) {
	const waiters, seconds = 500, 30
	var asked atomic.Int64
	count := func(fault.Op) fault.Outcome {
		asked.Add(1)
		return fault.Pass
	}
	watched := fault.Wrap(memory.New(), count)
	for name, tt := range map[string]struct {
		store storage.Store
		looks int64
	}{"watched": {watched, seconds / 10}, "polled": {struct{ storage.Store }{fault.Wrap(memory.New(), count)}, seconds}} {
		t.Run(name, func(t *testing.T) { manyWaiters(t, tt.store, waiters, seconds, tt.looks, &asked) })
	}
}

func manyWaiters(t *testing.T, store storage.Store, waiters, seconds int, looks int64, asked *atomic.Int64) {
	inBubble(t, store, server.Config{}, func(t *testing.T, _ *server.Server, here, there *site) {
		tag := etag(t, here, "/feeds/f")
		var group sync.WaitGroup
		var woken atomic.Int64
		for range waiters {
			group.Go(func() {
				if got := here.get(t, "/feeds/f", tag, fmt.Sprintf("Prefer: wait=%d", 2*seconds)); got.StatusCode == 200 {
					woken.Add(1)
				}
			})
		}
		synctest.Wait()
		asked.Store(0)
		time.Sleep(time.Duration(seconds) * time.Second)
		synctest.Wait()
		if n := asked.Load(); n < looks || n > 4*looks {
			t.Errorf("%d waiters asked the store %d times in %d seconds", waiters, n, seconds)
		}
		there.post(t, "f", "<2>")
		group.Wait()
		if woken.Load() != int64(waiters) {
			t.Errorf("%d of %d were woken", woken.Load(), waiters)
		}
	})
}

func TestDelete(t *testing.T) {
	store := memory.New()
	inBubble(t, store, server.Config{}, func(t *testing.T, _ *server.Server, here, there *site) {
		w := here.wait(t, "/feeds/f", etag(t, here, "/feeds/f"), "Prefer: wait=20")
		_, err := producer.Delete(t.Context(), store, "f", false)
		check(t, err)
		w.check(t, 404, 0, "")
		for path, status := range map[string]int{"/feeds/f": 404, "/feeds/f/pages/1": 410, "/feeds/f/pages/65": 404} {
			for _, s := range []*site{here, there} {
				if got := s.get(t, path); got.StatusCode != status || path != "/feeds/f/pages/65" && !strings.Contains(string(got.body), "deleted") {
					t.Errorf("%s: %s %s", path, got.Status, got.body)
				}
			}
		}
		here.post(t, "f", "<3>")
		if got := there.get(t, "/feeds/f"); !strings.HasSuffix(got.Header.Get("Content-Location"), "/pages/65") || strings.Contains(got.Header.Get("Link"), "prev") {
			t.Errorf("new feed: %v", got.Header)
		}
		if got := here.get(t, "/feeds/f/pages/1"); got.StatusCode != 410 {
			t.Errorf("old page: %s", got.Status)
		}
	})
}
