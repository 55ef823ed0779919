package progress

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/console"
)

func TestEstimator(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		name string
		from Status
		to   Status // two seconds later
		want string
	}{
		{"nothing known", Status{Lag: -1}, Status{Lag: -1}, "do: 0 entities, 0 B, 0/s"},
		{"a rate", Status{Lag: -1}, Status{Entities: 2000, Bytes: 2048, Lag: -1}, "do: 2,000 entities, 2.0 KiB, 1,000/s"},
		{"half of a file", Status{Total: 4096, Lag: -1}, Status{Entities: 1, Bytes: 1024, Total: 4096, Lag: -1}, "do: 1 entity, 1.0 KiB, 0/s, ETA 6s"},
		{"all of a file", Status{Total: 4096, Lag: -1}, Status{Entities: 4, Bytes: 4096, Total: 4096, Lag: -1}, "do: 4 entities, 4.0 KiB, 2/s"},
		{"lag that shrinks", Status{Lag: time.Hour}, Status{Entities: 10, Lag: 30 * time.Minute}, "do: 10 entities, 0 B, 5/s, lag 30m, ETA 2s"},
		{"lag that grows", Status{Lag: time.Minute}, Status{Entities: 10, Lag: 2 * time.Minute}, "do: 10 entities, 0 B, 5/s, lag 2m"},
		{"a search", Status{}, Status{Search: &Search{Pages: 41_200, At: start, Left: 3 * time.Hour}}, "do: searching for the start: page 41,200, at 2026-01-02, about 3h0m left"},
		{"a search without end", Status{}, Status{Search: &Search{Pages: 7, At: start, Left: -1}}, "do: searching for the start: page 7, at 2026-01-02"},
		{"no lag", Status{Lag: time.Minute}, Status{Entities: 10, Lag: 0}, "do: 10 entities, 0 B, 5/s, lag 0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var e estimator
			e.add(start, test.from)
			e.add(start.Add(2*time.Second), test.to)
			if got := e.line("do"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// The rate is that of recent samples, and a long run does not accumulate samples.
func TestEstimatorWindow(t *testing.T) {
	var e estimator
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 1000 {
		at = at.Add(time.Second)
		e.add(at, Status{Entities: 1_000_000})
	}
	if e.rate() != 0 {
		t.Errorf("rate of a stalled command is %v", e.rate())
	}
	if len(e.samples) > 12 {
		t.Errorf("%d samples are kept", len(e.samples))
	}
}

// The remaining time neither jumps at a pause nor depends for long on a slow beginning.
func TestRemainingTime(t *testing.T) {
	const fast = 1000 // bytes per second
	for _, test := range []struct {
		name    string
		every   time.Duration
		seconds []int64 // bytes in each second
	}{
		{"a pause, on a terminal", showEvery, slices.Concat(slices.Repeat([]int64{fast}, 60), slices.Repeat([]int64{5}, 11))},
		{"a pause, in the log", LogEvery, slices.Concat(slices.Repeat([]int64{fast}, 60), slices.Repeat([]int64{5}, 20))},
		{"a slow beginning, on a terminal", showEvery, slices.Concat(slices.Repeat([]int64{5}, 3600), slices.Repeat([]int64{fast}, 30))},
		{"a slow beginning, in the log", LogEvery, slices.Concat(slices.Repeat([]int64{5}, 3600), slices.Repeat([]int64{fast}, 30))},
	} {
		t.Run(test.name, func(t *testing.T) {
			total := int64(90 * fast) // 90 s from the end
			for _, n := range test.seconds {
				total += n
			}
			var e estimator
			at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			begun, bytes := at, int64(0)
			e.add(at, Status{Total: total, Lag: -1})
			for _, n := range test.seconds {
				bytes += n
				at = at.Add(time.Second)
				if at.Sub(begun)%max(test.every, time.Second) == 0 {
					e.add(at, Status{Bytes: bytes, Total: total, Lag: -1})
				}
			}
			if eta, ok := e.eta(); !ok || eta < time.Minute || eta > 4*time.Minute {
				t.Errorf("90 s before the end, the estimate is %v, %v", eta, ok)
			}
		})
	}
}

func TestProgressOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		terminal := console.New(&screen)
		log := slog.New(slog.NewTextHandler(terminal, nil))
		stop := Display{Terminal: terminal, Log: log}.Show("consume", func() Status { return Status{Entities: 3, Bytes: 10, Lag: time.Second} })
		time.Sleep(showEvery + time.Millisecond)
		synctest.Wait()
		log.Info("something happened")
		stop()
		const line = "consume: 3 entities, 10 B, 0/s, lag 1s"
		before, after, _ := strings.Cut(screen.String(), "time=")
		if before != console.EraseLine+line+console.EraseLine || !strings.HasSuffix(after, "msg=\"something happened\"\n"+line+console.EraseLine) {
			t.Errorf("on the screen: %q", screen.String())
		}
	})
}

func TestProgressInLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		stop := Display{Log: slog.New(slog.NewTextHandler(&log, nil))}.Show("consume", func() Status { return Status{Entities: 3, Bytes: 10, Lag: time.Second} })
		time.Sleep(2*LogEvery + time.Millisecond)
		synctest.Wait()
		stop()
		if n := strings.Count(log.String(), "msg=progress command=consume entities=3 bytes=10 entities_per_second=0 lag=1s\n"); n != 2 {
			t.Errorf("%d lines of progress in 20 s: %q", n, log.String())
		}
	})
}
