package jobs_test

import (
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestScheduleIsKept changes, pauses and resumes a job with a schedule, before and during its runs:
// only a restart makes it run before its time.
func TestScheduleIsKept(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		d := jobs.Document{Namespace: "n", Name: "nightly", Kind: "fake", Source: "s", Schedule: "17 3 * * *"}
		next := epoch.Add(3*time.Hour + 17*time.Minute)
		change := func() {
			d.Source += "s"
			apply(t, s, d)
		}
		all := func(do func() (int, error)) func() {
			return func() {
				t.Helper()
				if n, err := do(); err != nil || n != 1 {
					t.Fatalf("%d jobs, %v", n, err)
				}
			}
		}
		pause := all(func() (int, error) { return s.Pause(t.Context(), d.ID()) })
		resume := all(func() (int, error) { return s.Resume(t.Context(), d.ID()) })
		restart := all(func() (int, error) { return s.Restart(t.Context(), d.ID()) })
		apply(t, s, d)
		p := newProbing(t, db, s)
		var run jobs.Run
		start := func() {
			t.Helper()
			runs := p.admit(1)
			if len(runs) != 1 {
				t.Fatal("the job does not run")
			}
			run = runs[0]
		}
		ends := func(end jobs.End) func() { return func() { p.finish(run, jobs.Outcome{End: end}) } }
		for what, steps := range map[string][]func(){
			"changed":                        {change},
			"paused and resumed":             {pause, resume},
			"done":                           {restart, start, ends(jobs.Done)},
			"changed, done":                  {restart, start, change, ends(jobs.Done)},
			"changed, stopped":               {restart, start, change, ends(jobs.Stopped)},
			"changed, failed":                {restart, start, change, ends(jobs.Rejected)},
			"paused, done, resumed":          {restart, start, pause, ends(jobs.Done), resume},
			"paused, stopped, resumed":       {restart, start, pause, ends(jobs.Stopped), resume},
			"paused, resumed, changed, done": {restart, start, pause, resume, change, ends(jobs.Done)},
		} {
			for _, step := range steps {
				step()
			}
			if j, err := s.Get(t.Context(), d.ID()); err != nil || j.State != jobs.Pending || !j.NotBefore.Equal(next) {
				t.Errorf("%s: the job is %s, not before %v, want pending until %v; %v", what, j.State, j.NotBefore, next, err)
			}
		}
	})
}
