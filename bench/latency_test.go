package main

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLatencyLoad publishes to a store in which a commit takes a second. Rows arrive a second after they
// are committed, those with even numbers twice.
func TestLatencyLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		committed := map[int]time.Time{}
		l := latencyLoad{
			bench: &bench{ctx: t.Context(), time: 100 * time.Millisecond}, clients: 100,
			publish: func(n int) error {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				committed[n] = time.Now()
				return nil
			},
			arrived: func(first int, seen func(n int)) error {
				mu.Lock()
				defer mu.Unlock()
				for n, at := range committed {
					if n >= first-n%2 && time.Since(at) >= time.Second {
						seen(n)
					}
				}
				return nil
			},
		}
		took, err := l.measure()
		if err != nil || len(took) != 100 {
			t.Fatalf("%d rows: %v", len(took), err)
		}
		for n, took := range took {
			if took < time.Second || took > time.Second+time.Millisecond {
				t.Errorf("row %d took %s, want 1s", n+1, took)
			}
		}
	})
}

// TestLatencyLoadFails: the measurement fails if publishing or reading fails, or if a row arrives that
// was not published.
func TestLatencyLoadFails(t *testing.T) {
	broken := errors.New("broken")
	for name, l := range map[string]latencyLoad{
		"publish": {
			publish: func(n int) error { return map[bool]error{true: broken}[n == 50] },
			arrived: func(first int, seen func(n int)) error { seen(0); return nil },
		},
		"read": {
			publish: func(int) error { return nil },
			arrived: func(first int, seen func(n int)) error {
				seen(0)
				return map[bool]error{true: broken}[first > 0]
			},
		},
		"unknown row": {
			publish: func(int) error { return nil },
			arrived: func(first int, seen func(n int)) error { seen(1 << 20); return nil },
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l.bench, l.clients = &bench{ctx: t.Context(), time: 100 * time.Millisecond}, 8
			if took, err := l.measure(); err == nil {
				t.Errorf("%s: %d rows and no error", name, len(took))
			}
		})
	}
}

func TestParts(t *testing.T) {
	b := &bench{part: 20}
	sizes := []int{10, 100, 10_000}
	if got := b.parts(sizes); got[0] != 10 || got[1] != 10 || got[2] != 500 || sizes[2] != 10_000 {
		t.Errorf("parts of %d: %d", sizes, got)
	}
}
