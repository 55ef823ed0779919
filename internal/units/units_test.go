package units

import (
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1048576": 1 << 20, "9223372036854775807": 1<<63 - 1, "10B": 10, "64KiB": 64 << 10, "64kib": 64 << 10,
		"1MB": 1e6, "1 MB": 1e6, "1.5GiB": 3 << 29, "2TB": 2e12,
	} {
		var s size
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("%q is parsed as %d, %v; want %d", text, s, err, want)
		}
		var again size
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%d is formatted as %q, which is parsed as %d, %v", s, s.String(), again, err)
		}
	}
	for _, wrong := range []string{"", "x", "-1", "1M", "1 2", "1e3", "MB", "9223372036854775808", "10000000TB", "0x10", "1.5.2KB"} {
		if err := new(size).Set(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "90s": 90 * time.Second, "4h30m": 270 * time.Minute, "7d": 168 * time.Hour, "2w": 336 * time.Hour,
		"1w1d12h": 204 * time.Hour, "1.5h": 90 * time.Minute, "720h": 720 * time.Hour, "-1h": -time.Hour, "250ms": 250 * time.Millisecond,
	} {
		var d Duration
		if err := d.Set(text); err != nil || time.Duration(d) != want {
			t.Errorf("%q is parsed as %v, %v; want %v", text, time.Duration(d), err, want)
		}
		var again Duration
		if err := again.Set(d.String()); err != nil || again != d {
			t.Errorf("%v is formatted as %q, which is parsed as %v, %v", want, d.String(), time.Duration(again), err)
		}
	}
	for _, wrong := range []string{"", "x", "10", "7 d", "1d-1h", "d", "1h1d", "999999999d"} {
		if err := new(Duration).Set(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
