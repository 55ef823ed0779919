package origins

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sends sends n requests at once, all of which succeed, and returns how many began in each second.
func sends(t *testing.T, l *Limiter, n int) map[int]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	start, seconds := time.Now(), map[int]int{}
	for range n {
		all.Go(func() {
			turn, err := l.Begin(t.Context(), "host", "GET", time.Hour)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seconds[int(time.Since(start)/time.Second)]++
			turn.Succeeded()
		})
	}
	all.Wait()
	return seconds
}

// refuse has the host refuse a request.
func refuse(t *testing.T, l *Limiter) {
	turn, err := l.Begin(t.Context(), "host", "GET", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	turn.Refused()
}

// TestAfterBlock checks that requests that wait for the end of a block do not all begin at once.
func TestAfterBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Limiter
		refuse(t, &l)
		l.Block("host", 30*time.Second)
		for second, n := range sends(t, &l, 100) {
			if second < 30 || n > 65 {
				t.Errorf("%d of 100 requests began in second %d", n, second)
			}
		}
	})
}

// TestBlockedWhileWaiting checks that a block stops requests that wait for the pace, too.
func TestBlockedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Limiter
		for range 30 {
			refuse(t, &l)
			time.Sleep(time.Second)
		}
		refuse(t, &l)
		var all sync.WaitGroup
		all.Go(func() {
			for second := range sends(t, &l, 1) {
				if second < 10 {
					t.Errorf("a request was sent after %d s of a block of 10 s", second)
				}
			}
		})
		synctest.Wait()
		l.Block("host", 10*time.Second)
		all.Wait()
	})
}

// TestFasterWhileWaiting checks that requests that began to wait at the lowest rate benefit from its
// increase.
func TestFasterWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Limiter
		for l.Delays()["host"] < longestInterval {
			refuse(t, &l)
		}
		last := 0
		for second := range sends(t, &l, 40) {
			last = max(last, second)
		}
		if last > 120 {
			t.Errorf("the last of 40 requests began after %d s", last)
		}
	})
}

// TestLateTimers checks that requests which begin a little late do not lower the rate, and that
// a pause is not followed by more requests to make up for it.
func TestLateTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		p.join()
		start := time.Now()
		if p.left() > 0 {
			t.Fatal("the first request has to wait")
		}
		for range 100 {
			time.Sleep(p.left() + 5*time.Millisecond)
			if left := p.left(); left > 0 {
				t.Fatalf("a request that is late has to wait for %v", left)
			}
		}
		if took, want := time.Since(start), 100*p.apart+5*time.Millisecond; took != want {
			t.Errorf("100 requests took %v, want %v", took, want)
		}
		time.Sleep(time.Second)
		if p.left() > 0 {
			t.Error("a request after a pause has to wait")
		}
		if left := p.left(); left != p.apart {
			t.Errorf("the next one has to wait for %v, want %v", left, p.apart)
		}
	})
}

// TestAnswered: an error with Retry-After blocks the origin, but a redirection with Retry-After does not.
func TestAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for status, wait := range map[int]time.Duration{http.StatusFound: 0, http.StatusConflict: time.Minute, http.StatusServiceUnavailable: time.Minute} {
			var l Limiter
			for i, want := range []time.Duration{0, wait} {
				begun := time.Now()
				turn, err := l.Begin(t.Context(), "origin", http.MethodGet, MaxRetryAfter)
				if took := time.Since(begun); err != nil || took != want {
					t.Errorf("status %d: request %d began after %v, want %v; error %v", status, i+1, took, want, err)
				}
				turn.Answered(answer(status, http.Header{"Retry-After": {"60"}}))
			}
			if refused := len(l.Delays()) == 1; refused != (status >= 500) {
				t.Errorf("status %d: counts as a refusal: %v", status, refused)
			}
		}
	})
}
