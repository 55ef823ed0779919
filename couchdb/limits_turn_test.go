package couchdb

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// begins lets this many requests begin at once, each of which succeeds, and returns when
// they began.
func begins(t *testing.T, l *Limits, n int) (seconds map[int]int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	start := time.Now()
	seconds = make(map[int]int)
	for range n {
		all.Go(func() {
			began, err := l.wait(t.Context(), "host")
			if err != nil {
				t.Error(err)
			}
			l.done("host", began, false, 0)
			mu.Lock()
			defer mu.Unlock()
			seconds[int(began.Sub(start)/time.Second)]++
		})
	}
	all.Wait()
	return seconds
}

// complain has the host refuse a request.
func complain(t *testing.T, l *Limits, retryAfter time.Duration) {
	began, err := l.wait(t.Context(), "host")
	if err != nil {
		t.Fatal(err)
	}
	l.done("host", began, true, retryAfter)
}

// TestPaceAfterRetryAfter: those who wait for the end of a pause do not all come back
// together.
func TestPaceAfterRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(Limits)
		time.Sleep(time.Minute)
		complain(t, l, 30*time.Second)
		for second, n := range begins(t, l, 100) {
			if second < 30 || second == 30 && n > 15 {
				t.Errorf("%d requests began in second %d", n, second)
			}
		}
	})
}

// TestRecovers: those who wait since the host was slowest profit from it being well again.
func TestRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(Limits)
		for range 12 {
			time.Sleep(time.Minute)
			complain(t, l, 0)
		}
		last := 0
		for second := range begins(t, l, 40) {
			last = max(last, second)
		}
		if last > 120 {
			t.Errorf("the last of 40 requests began after %d s", last)
		}
	})
}
