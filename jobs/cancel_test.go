package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestCancel cancels jobs in each state: a job that does not follow ends, its run is fenced, and nothing else
// changes.
func TestCancel(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		ctx := t.Context()
		node, err := s.Join(ctx, jobs.Node{Name: "node", Slots: 10})
		if err != nil {
			t.Fatal(err)
		}
		start := func() (runs []jobs.Run) {
			t.Helper()
			runs, err := s.Admit(ctx, node, 10)
			if err != nil {
				t.Fatal(err)
			}
			return runs
		}
		once := jobs.Document{Namespace: "n", Kind: "fake"}
		daily := once
		daily.Schedule = "0 3 * * *"
		follows := once
		follows.Follow = true
		paused := once
		paused.Paused = true
		at3 := epoch.Add(3 * time.Hour)
		for name, test := range map[string]struct {
			document jobs.Document
			before   func(id string, r []jobs.Run) // called after the run has begun
			state    jobs.State
			next     time.Time
			changed  int
		}{
			"pending":          {document: once, state: jobs.Failed, changed: 1},
			"running":          {document: once, before: func(string, []jobs.Run) {}, state: jobs.Failed, changed: 1},
			"paused":           {document: paused, state: jobs.Failed, changed: 1},
			"crashing":         {document: once, before: func(_ string, r []jobs.Run) { finish(t, s, r, jobs.Crashed) }, state: jobs.Failed, changed: 1},
			"completed":        {document: once, before: func(_ string, r []jobs.Run) { finish(t, s, r, jobs.Done) }, state: jobs.Completed},
			"waits for 3:00":   {document: daily, state: jobs.Pending, next: at3},
			"runs before 3:00": {document: daily, before: func(string, []jobs.Run) {}, state: jobs.Pending, next: at3, changed: 1},
			"paused while it runs before 3:00": {document: daily, before: func(id string, _ []jobs.Run) {
				if _, err := s.Pause(ctx, id); err != nil {
					t.Error(err)
				}
			}, state: jobs.Paused, changed: 1},
		} {
			d := test.document
			d.Name, d.Source = "job", name
			if _, err := s.Apply(ctx, []jobs.Document{d}, jobs.ApplyOptions{Prune: true}); err != nil {
				t.Fatal(err)
			}
			var runs []jobs.Run
			if test.before != nil {
				if d.Schedule != "" {
					if _, err := s.Restart(ctx, d.ID()); err != nil {
						t.Fatal(err)
					}
				}
				runs = start()
				test.before(d.ID(), runs)
			}
			changed, err := s.Cancel(ctx, d.ID())
			j, getErr := s.Get(ctx, d.ID())
			if err = errors.Join(err, getErr); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if changed != test.changed || j.State != test.state || !j.NotBefore.Equal(test.next) || j.Errors != 0 {
				t.Errorf("%s: %d changed, %s until %v with %d errors; want %d, %s, %v", name, changed, j.State, j.NotBefore, j.Errors, test.changed, test.state, test.next)
			}
			for _, r := range runs {
				if err := s.Finish(ctx, r, jobs.Outcome{End: jobs.Done}); !errors.Is(err, jobs.ErrFenced) {
					t.Errorf("%s: end of the run: %v, want ErrFenced", name, err)
				}
			}
			if test.state == jobs.Failed {
				if _, err := s.Restart(ctx, d.ID()); err != nil {
					t.Fatal(err)
				}
				if runs := start(); len(runs) != 1 {
					t.Errorf("%s: restarted: %d runs, want 1", name, len(runs))
				}
			}
			if err := s.Delete(ctx, d.ID()); err != nil {
				t.Fatal(err)
			}
		}
		follows.Name, follows.Source = "follows", "x"
		apply(t, s, follows)
		if n, err := s.Cancel(ctx, "n/follows"); n != 0 || !errors.Is(err, jobs.ErrFollows) {
			t.Errorf("cancel of a job that follows: %d, %v; want ErrFollows", n, err)
		}
		if _, err := s.Cancel(ctx, "n/none"); !errors.Is(err, jobs.ErrNoJob) {
			t.Errorf("cancel of a job that does not exist: %v", err)
		}
	})
}

// finish ends runs.
func finish(t *testing.T, s *jobs.Scheduler, runs []jobs.Run, end jobs.End) {
	t.Helper()
	for _, r := range runs {
		if err := s.Finish(t.Context(), r, jobs.Outcome{End: end}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCancelOthers: a job that cannot be cancelled, or does not exist, does not keep others from being
// cancelled.
func TestCancelOthers(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		apply(t, s, jobs.Document{Namespace: "n", Name: "a", Kind: "fake", Source: "a", Follow: true}, jobs.Document{Namespace: "n", Name: "b", Kind: "fake", Source: "b"})
		changed, err := s.Cancel(t.Context(), "n/a", "n/gone", "n/b")
		if changed != 1 || !errors.Is(err, jobs.ErrFollows) || !errors.Is(err, jobs.ErrNoJob) {
			t.Errorf("%d jobs were cancelled, error %v", changed, err)
		}
	})
}
