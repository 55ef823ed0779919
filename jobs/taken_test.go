package jobs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestRestartTaken restarts a failed job after another job has taken over its target.
func TestRestartTaken(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		finishOne(t, s, jobs.Document{Namespace: "n", Name: "old", Kind: "fake", Source: "a", Target: "t"}, jobs.Outcome{End: jobs.Rejected, Reason: "no"})
		apply(t, s, jobs.Document{Namespace: "n", Name: "new", Kind: "fake", Source: "b", Target: "t"})
		_, err := s.Restart(t.Context(), "n/old")
		if want := "restart job n/old: another job does the same or writes to the same target: delete job n/new, or change one of the two"; !errors.Is(err, jobs.ErrTaken) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := s.Wake(t.Context(), "n/old"); err != nil {
			t.Error(err)
		}
		if _, err := s.Pause(t.Context(), "n/old"); err != nil {
			t.Error(err)
		}
		if _, err := s.Resume(t.Context(), "n/old"); err != nil {
			t.Error(err)
		}
		if err := s.Delete(t.Context(), "n/new"); err != nil {
			t.Fatal(err)
		}
		if changed, err := s.Restart(t.Context(), "n/old"); err != nil || changed != 1 {
			t.Errorf("restart after the other job was deleted: %d, %v", changed, err)
		}
	})
}

// finishOne applies a job, starts it, and finishes its run.
func finishOne(t *testing.T, s *jobs.Scheduler, d jobs.Document, o jobs.Outcome) {
	t.Helper()
	apply(t, s, d)
	if _, err := s.Restart(t.Context(), d.ID()); err != nil { // so that it need not wait for its schedule
		t.Fatal(err)
	}
	node, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Admit(t.Context(), node, 1)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs: %v", len(runs), err)
	}
	if err := s.Finish(t.Context(), runs[0], o); err != nil {
		t.Fatal(err)
	}
}

// TestFindings: a scheduled check finds problems, reports them, and runs again at its next time.
func TestFindings(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		found := jobs.Outcome{End: jobs.Found, Reason: "2 violations"}
		for name, test := range map[string]struct {
			schedule string
			state    jobs.State
			next     time.Time
			why      string
		}{
			"nightly": {"17 3 * * *", jobs.Pending, epoch.Add(3*time.Hour + 17*time.Minute), "its next scheduled run is at 2026-01-01T03:17:00Z; its last run: 2 violations"},
			"once":    {"", jobs.Failed, time.Time{}, "failed at 2026-01-01T00:00:00Z, and will not be tried again until it is changed or restarted: 2 violations"},
		} {
			finishOne(t, s, jobs.Document{Namespace: "n", Name: name, Kind: "fake", Source: name, Schedule: test.schedule}, found)
			d, err := s.Describe(t.Context(), "n/"+name)
			if err != nil {
				t.Fatal(err)
			}
			if d.State != test.state || !d.NotBefore.Equal(test.next) || d.Errors != 0 || !strings.Contains(d.Why, test.why) {
				t.Errorf("%s is %s until %v after %d errors: %s", name, d.State, d.NotBefore, d.Errors, d.Why)
			}
			if e := d.Events[0]; e.Type != jobs.EventFailed || e.Reason != "2 violations" {
				t.Errorf("%s: the last event is %+v", name, e)
			}
		}
	})
}

// TestHow: each way in which a run can end has a word of its own.
func TestHow(t *testing.T) {
	seen := map[string]jobs.End{"": -1}
	for end := jobs.Stopped; end <= jobs.Found; end++ {
		word := (&jobs.Outcome{End: end}).How()
		if other, ok := seen[word]; ok {
			t.Errorf("ends %d and %d are both %q", end, other, word)
		}
		seen[word] = end
	}
}

// TestTransientDuplicate applies a job while a transient job writes to its target: the new job
// waits. A transient job that would write to the target of another job is refused.
func TestTransientDuplicate(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		once, err := s.RunOnce(t.Context(), jobs.Document{Namespace: "n", Kind: "fake", Source: "a", Target: "t"}, false)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, s, jobs.Document{Namespace: "n", Name: "file", Kind: "fake", Source: "b", Target: "t"})
		node, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 5})
		if err != nil {
			t.Fatal(err)
		}
		admit := func(want string) jobs.Run {
			t.Helper()
			runs, err := s.Admit(t.Context(), node, 5)
			if err != nil || len(runs) != 1 || runs[0].Job.Document.ID() != want {
				t.Fatalf("%d runs, want %s: %v", len(runs), want, err)
			}
			return runs[0]
		}
		run := admit(once.Document.ID())
		d, err := s.Describe(t.Context(), "n/file")
		if want := "waits for the end of job " + once.Document.ID() + ", which runs once and does the same or writes to the same target"; err != nil || d.Why != want {
			t.Errorf("why: %s (%v), want %s", d.Why, err, want)
		}
		if err := s.Finish(t.Context(), run, jobs.Outcome{End: jobs.Done}); err != nil {
			t.Fatal(err)
		}
		admit("n/file")
		if _, err := s.Restart(t.Context(), once.Document.ID()); !errors.Is(err, jobs.ErrTaken) {
			t.Errorf("restart of the job that ran once: %v", err)
		}
		if _, err := s.RunOnce(t.Context(), jobs.Document{Namespace: "n", Kind: "fake", Source: "c", Target: "t"}, false); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("another job that runs once: %v", err)
		}
	})
}
