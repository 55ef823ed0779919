package origins

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sends sends n requests at once, which succeed, and returns how many began in each second.
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

// delays returns the longest interval between two requests of a client, by origin.
func (l *Limiter) delays() map[string]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]time.Duration{}
	for name, o := range l.origins {
		for _, p := range o.paces {
			all[name] = max(all[name], p.interval)
		}
	}
	return all
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
		for l.delays()["host"] < longestInterval {
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
