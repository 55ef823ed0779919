package jobs_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// finishing marks the context of the call whose statements are counted.
type finishing struct{}

// TestWakeWhileFinishing wakes a job before each statement that makes it idle, and after the
// last: another run always follows.
func TestWakeWhileFinishing(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(t).URL("wakes"),
	} {
		t.Run(name, func(t *testing.T) {
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
			s := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
			node, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 1})
			if err != nil {
				t.Fatal(err)
			}
			d := jobs.Document{Namespace: "n", Name: "a", Kind: "fake", Source: "s", Follow: true}
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
					go func() { woke <- s.Wake(t.Context(), d.ID()) }()
					select {
					case err := <-woke:
						woke <- err
					case <-time.After(50 * time.Millisecond): // it waits for this transaction
					}
				}
				ctx := context.WithValue(t.Context(), finishing{}, true)
				if err := s.Finish(ctx, runs[0], jobs.Outcome{End: jobs.CaughtUp, Seen: runs[0].Job.Wanted}); err != nil {
					t.Fatal(err)
				}
				points = number
				if at > points {
					wake(at) // after the last
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
