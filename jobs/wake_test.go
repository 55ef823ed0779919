package jobs_test

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// finishing marks the context of the call whose statements are counted.
type finishing struct{}

// TestWakeWhileFinishing wakes a job before each of the statements that make it idle, and after the
// last one: another run always follows.
func TestWakeWhileFinishing(t *testing.T) {
	t.Parallel()
	d := jobs.Document{Namespace: "n", Name: "a", Kind: "wait", Source: "s", Target: "t", Follow: true}
	wakings := 0
	for way, wakeUp := range map[string]func(ctx context.Context, s *jobs.Scheduler) error{
		"user": func(ctx context.Context, s *jobs.Scheduler) error { return s.Wake(ctx, d.ID()) },
		"watch": func(ctx context.Context, s *jobs.Scheduler) error {
			wakings++
			_, err := s.WakeChanged(ctx, jobs.Watched{Type: "fake", Server: d.Target}, map[string]string{d.Source: strconv.Itoa(wakings)})
			return err
		},
	} {
		wakeWhileFinishing(t, way, d, wakeUp)
	}
}

func wakeWhileFinishing(t *testing.T, way string, d jobs.Document, wakeUp func(ctx context.Context, s *jobs.Scheduler) error) {
	t.Helper()
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), way+".db"),
		"postgres": pgtest.Start(t).URL("wakes_" + way),
	} {
		t.Run(way+"/"+name, func(t *testing.T) {
			var wake func(number int)
			number := 0
			before := func(ctx context.Context, _ string) {
				if ctx.Value(finishing{}) != nil {
					number++
					wake(number)
				}
			}
			db, err := jobdb.Open(t.Context(), url, jobdb.Options{Before: before})
			if err != nil {
				t.Fatal(err)
			}
			s := jobs.NewScheduler(db, jobs.Kinds{"wait": waiters{}}, jobs.Defaults())
			node, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 1})
			if err != nil {
				t.Fatal(err)
			}
			apply(t, s, d)
			points := 1
			for at := 1; at <= points+1; at++ {
				runs, err := s.Admit(t.Context(), node, 1)
				if err != nil || len(runs) != 1 {
					t.Fatalf("%d runs (%v), want 1: the wake-up before statement %d was lost", len(runs), err, at-1)
				}
				woke := make(chan error, 1)
				number, wake = 0, func(number int) {
					if number != at {
						return
					}
					go func() { woke <- wakeUp(t.Context(), s) }()
					select {
					case err := <-woke:
						woke <- err
					case <-time.After(50 * time.Millisecond): // the wake-up waits for this transaction
					}
				}
				ctx := context.WithValue(t.Context(), finishing{}, true)
				if err := s.Finish(ctx, runs[0], jobs.Outcome{End: jobs.CaughtUp, Seen: runs[0].Job.Wanted}); err != nil {
					t.Fatal(err)
				}
				points = number
				if at > points {
					wake(at) // after the last statement
				}
				if err := <-woke; err != nil {
					t.Fatal(err)
				}
			}
			if runs, err := s.Admit(t.Context(), node, 1); err != nil || len(runs) != 1 {
				t.Errorf("%d runs (%v) after the last wake-up, want 1", len(runs), err)
			}
			t.Logf("%d statements", points)
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
