package jobs_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// reporting is a kind whose runs call a function of the test.
type reporting struct {
	fakeKind
	run func(ctx context.Context, s *jobs.Session) error
}

func (k reporting) Run(ctx context.Context, s *jobs.Session) error { return k.run(ctx, s) }

// TestStats: a run works for 20 minutes, and then repeats its last report until it is ended. Its
// statistics are written again and again, and the next run adds to them.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var store *jobs.Scheduler
		began := time.Now()
		runs := 0
		kind := reporting{run: func(ctx context.Context, s *jobs.Session) error {
			if runs++; runs == 2 {
				s.Report(jobs.Stats{Entities: 5, Pending: 0, Lag: 0, Position: "end"})
				return nil
			}
			for n := range int64(40) {
				s.Report(jobs.Stats{Entities: n, Bytes: 10 * n, Pending: -1, Lag: -1, Position: "middle"})
				time.Sleep(30 * time.Second)
				stats, err := store.Stats(ctx, "n/job")
				if err != nil || stats == nil || stats.Entities != n || stats.Pending != -1 || stats.Position != "middle" {
					t.Errorf("30 s after a report of %d entities: %+v, %v", n, stats, err)
				}
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		store = inBubble(t, jobs.Kinds{"fake": kind})
		if _, err := store.Apply(ctx, []jobs.Document{{Namespace: "n", Name: "job", Kind: "fake", Source: "s"}}, jobs.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- store.Work(ctx, jobs.WorkerConfig{Name: "node"}) }()
		for {
			time.Sleep(10 * time.Second)
			j, err := store.Get(ctx, "n/job")
			if err != nil {
				t.Fatal(err)
			}
			if j.Errors > 0 && !strings.HasPrefix(j.Reason, "no progress") {
				t.Fatalf("job failed: %s", j.Reason)
			}
			if j.State == jobs.Completed {
				break
			}
		}
		if took := time.Since(began); took < 24*time.Minute || took > 28*time.Minute {
			t.Errorf("the job took %v, want 20 min of work, 5 min without, and a pause after the error", took)
		}
		stats, err := store.Stats(ctx, "n/job")
		if want := (jobs.Stats{Entities: 39 + 5, Bytes: 390, Position: "end"}); err != nil || *stats != want {
			t.Errorf("statistics at the end are %+v, want %+v; error %v", stats, want, err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStatsLinger: a run waits for more after it has caught up. What it then reports is added to
// the statistics, and nothing is pending while it has nothing to do.
func TestStatsLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var store *jobs.Scheduler
		written := func(want jobs.Stats) {
			t.Helper()
			time.Sleep(20 * time.Second)
			if got, err := store.Stats(ctx, "n/job"); err != nil || got == nil || *got != want {
				t.Errorf("statistics are %+v, want %+v; error %v", got, want, err)
			}
		}
		kind := reporting{run: func(ctx context.Context, s *jobs.Session) error {
			if !s.Linger {
				s.Report(jobs.Stats{Entities: 3, Pending: -1, Lag: -1, Position: "a"})
				return nil
			}
			s.Report(jobs.Stats{Pending: -1, Lag: -1})
			written(jobs.Stats{Entities: 3, Position: "a"})
			s.Busy()
			s.Report(jobs.Stats{Entities: 2, Pending: -1, Lag: time.Second, Position: "b"})
			written(jobs.Stats{Entities: 5, Pending: -1, Lag: time.Second, Position: "b"})
			s.CaughtUp()
			written(jobs.Stats{Entities: 5, Position: "b"})
			stop()
			return nil
		}}
		store = inBubble(t, jobs.Kinds{"fake": kind})
		if _, err := store.Apply(ctx, []jobs.Document{{Namespace: "n", Name: "job", Kind: "fake", Source: "s", Follow: true}}, jobs.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := store.Work(ctx, jobs.WorkerConfig{Name: "node"}); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
