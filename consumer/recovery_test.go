package consumer

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestRecovery follows a feed without new entities whose server fails for a while. The client notices
// at once that the server works again, and not only at the end of a long-poll.
func TestRecovery(t *testing.T) {
	f := newFeed("a0 b0")
	f.longPoll = true
	var away atomic.Bool
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		f.ServeHTTP(w, r)
	})
	inWorld(t, server, func(t *testing.T, w *world) {
		var idle, failed atomic.Pointer[time.Time]
		note := func(when *atomic.Pointer[time.Time]) {
			now := time.Now()
			when.Store(&now)
		}
		reader := follow(t, w.newClient(Config{
			Follow: true, Idle: func() { note(&idle) },
			Retry: RetryConfig{Max: time.Second, Failed: func(error) { note(&failed) }},
		}), Beginning())
		reader.expect(t, "a b")
		if failed.Load() != nil {
			t.Error("a request failed")
		}
		away.Store(true)
		time.Sleep(2 * time.Minute)
		if at := failed.Load(); at == nil || time.Since(*at) > time.Second {
			t.Errorf("last failure at %v", at)
		}
		away.Store(false)
		back := time.Now()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if idle.Load().Before(back) {
			t.Errorf("2 s later it is not known that the server works; last known %v before", back.Sub(*idle.Load()))
		}
		reader.end(t)
	})
}
