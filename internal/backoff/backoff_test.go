package backoff

import (
	"context"
	"errors"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestAfter(t *testing.T) {
	t.Parallel()
	b := Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for n, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond, 5: time.Second, 1000: time.Second,
	} {
		if got := b.Longest(n); got != want {
			t.Errorf("Longest(%d) = %v, want %v", n, got, want)
		}
		for range 100 {
			if got := b.After(n); got < want/2 || got > want {
				t.Errorf("after %d: %v, want %v to %v", n, got, want/2, want)
			}
		}
	}
	if got := (Backoff{Min: 1, Max: 1 << 61}).Longest(math.MaxInt); got != 1<<61 {
		t.Errorf("after a large number of attempts: %v", got)
	}
	if got := (Backoff{}).After(math.MaxInt); got != 0 {
		t.Errorf("the zero Backoff waits %v", got)
	}
}

func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := Sleep(t.Context(), time.Hour); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("its cause"))
		defer cancel()
		for _, d := range []time.Duration{time.Hour, 0} {
			if err := Sleep(ctx, d); err != context.DeadlineExceeded || time.Since(begun) != time.Hour+time.Minute {
				t.Errorf("%v after %v", err, time.Since(begun))
			}
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			"": 0, "7": 7 * time.Second, "-7": 0, "1.5": 0, "soon": 0, "99999999999999999999": 0,
			time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat): 90 * time.Second,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):       0,
		} {
			if got := RetryAfter(http.Header{"Retry-After": {value}}); got != want {
				t.Errorf("%q: %v, want %v", value, got, want)
			}
		}
	})
}
