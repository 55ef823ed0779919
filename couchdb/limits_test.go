package couchdb_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/memnet"
)

// A quota limits the requests in each second.
type quota struct {
	mu      sync.Mutex
	rate    int
	second  time.Time
	used    int
	granted int
	refused int
}

func (q *quota) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now().Truncate(time.Second); now != q.second {
		q.second, q.used = now, 0
	}
	if q.used >= q.rate {
		q.refused++
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	q.used++
	q.granted++
	_, _ = io.WriteString(w, info)
}

// TestLimits: jobs that use the same host find its rate limit and share it.
func TestLimits(t *testing.T) {
	q := &quota{rate: 50}
	inWorld(t, q.ServeHTTP, func(t *testing.T, n *memnet.Net) {
		limits := new(couchdb.Limits)
		ctx, cancel := context.WithCancel(t.Context())
		var jobs sync.WaitGroup
		done := make([]int, 10)
		for i := range done {
			db := open(t, n, couchdb.Config{Limits: limits, URL: "http://couch.test/db" + string(rune('a'+i))})
			jobs.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(time.Millisecond)
					if _, err := db.Info(ctx); err == nil {
						done[i]++
					}
				}
			})
		}
		time.Sleep(time.Minute) // until the jobs have found the rate
		q.mu.Lock()
		q.granted, q.refused = 0, 0
		q.mu.Unlock()
		time.Sleep(3 * time.Minute)
		q.mu.Lock()
		granted, refused := q.granted, q.refused
		q.mu.Unlock()
		cancel()
		jobs.Wait()
		if all := 180 * q.rate; granted < all*6/10 || refused > granted/20 {
			t.Errorf("%d of %d requests were granted and %d refused", granted, all, refused)
		}
		for i := range done {
			if fair := (granted) / len(done); done[i] < fair/2 {
				t.Errorf("job %d made %d requests, %d would be fair", i, done[i], fair)
			}
		}
	})
}

// TestRecovers: the limit is lifted when the host has recovered.
func TestRecovers(t *testing.T) {
	q := &quota{rate: 1}
	inWorld(t, q.ServeHTTP, func(t *testing.T, n *memnet.Net) {
		db := open(t, n, couchdb.Config{Attempts: 100})
		ask := func(times int) time.Duration {
			begun := time.Now()
			for range times {
				time.Sleep(time.Millisecond)
				if _, err := db.Info(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(begun)
		}
		if took := ask(100); took < 90*time.Second {
			t.Errorf("took %v for 100 requests at 1 per second", took)
		}
		q.mu.Lock()
		q.rate = 1 << 30
		q.mu.Unlock()
		ask(4000)
		if took := ask(1000); took > 1100*time.Millisecond {
			t.Errorf("took %v when there is no limit", took)
		}
	})
}

// TestFirstComplaint: a single early 429 does not reduce the rate to almost nothing.
func TestFirstComplaint(t *testing.T) {
	answers := 0
	inWorld(t, func(w http.ResponseWriter, _ *http.Request) {
		if answers++; answers == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, info)
	}, func(t *testing.T, n *memnet.Net) {
		db := open(t, n, couchdb.Config{})
		for _, c := range []struct {
			requests int
			most     time.Duration
		}{{10, 2 * time.Second}, {100, 10 * time.Second}, {1000, 30 * time.Second}, {1000, time.Second}} {
			begun := time.Now()
			for range c.requests {
				if _, err := db.Info(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begun); took > c.most {
				t.Errorf("%d requests took %v, want no more than %v", c.requests, took, c.most)
			}
		}
	})
}

// TestRetryAfterStopsAll: a Retry-After stops the requests of all jobs to this host, and to no
// other host.
func TestRetryAfterStopsAll(t *testing.T) {
	first := true
	inWorld(t, func(w http.ResponseWriter, _ *http.Request) {
		if first {
			first = false
			w.Header().Set("Retry-After", "40")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, info)
	}, func(t *testing.T, n *memnet.Net) {
		limits := new(couchdb.Limits)
		begun := time.Now()
		var jobs sync.WaitGroup
		took := make(map[string]time.Duration)
		var mu sync.Mutex
		for _, url := range []string{"http://couch.test/a", "http://couch.test:80/b", "http://other.test/a", "http://couch.test:81/a"} {
			db := open(t, n, couchdb.Config{URL: url, Limits: limits})
			jobs.Go(func() {
				if _, err := db.Info(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				took[url] = time.Since(begun)
			})
			synctest.Wait() // the request of the first job is refused before the others begin
		}
		jobs.Wait()
		for url, want := range map[string]time.Duration{
			"http://couch.test/a": 40 * time.Second, "http://couch.test:80/b": 40 * time.Second, "http://other.test/a": 0, "http://couch.test:81/a": 0,
		} {
			if got := took[url]; got < want || got > want+10*time.Second {
				t.Errorf("%s took %v, want %v", url, got, want)
			}
		}
	})
}

// TestRetryAfterStopsWaiting: a Retry-After also stops requests that are waiting for their turn.
func TestRetryAfterStopsWaiting(t *testing.T) {
	var answers atomic.Int64
	inWorld(t, func(w http.ResponseWriter, _ *http.Request) {
		switch answers.Add(1) {
		case 1: // from now on, requests take turns
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			time.Sleep(time.Millisecond)
			w.Header().Set("Retry-After", "40")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, info)
		}
	}, func(t *testing.T, n *memnet.Net) {
		db := open(t, n, couchdb.Config{})
		once := couchdb.Request{Once: true}
		if err := db.JSON(t.Context(), once, nil); err == nil {
			t.Fatal("no error")
		}
		var jobs sync.WaitGroup
		begun := time.Now()
		jobs.Go(func() { _ = db.JSON(t.Context(), once, nil) })
		synctest.Wait()
		for range 5 {
			jobs.Go(func() {
				if err := db.JSON(t.Context(), once, nil); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); took < 40*time.Second {
					t.Errorf("took %v", took)
				}
			})
		}
		jobs.Wait()
	})
}
