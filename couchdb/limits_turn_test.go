package couchdb

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// begins starts n requests at once, which succeed, and returns when they began.
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

// complain has the host respond with 429 to a request.
func complain(t *testing.T, l *Limits, retryAfter time.Duration) {
	began, err := l.wait(t.Context(), "host")
	if err != nil {
		t.Fatal(err)
	}
	l.done("host", began, true, retryAfter)
}

// TestPaceAfterRetryAfter: requests that wait for the end of Retry-After do not all begin at once.
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

// TestRecovers: requests that began to wait at the lowest rate benefit from its increase.
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
