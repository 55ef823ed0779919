package jobs_test

import (
	"math"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestDelay compares the delays after errors with the documented formula, including the delays
// after many errors.
func TestDelay(t *testing.T) {
	t.Parallel()
	s := jobs.NewScheduler(nil, nil, jobs.Defaults())
	for _, b := range []jobs.Backoff{
		{Min: time.Second, Max: time.Hour},
		{Min: 30 * time.Second, Max: time.Hour},
		{Min: time.Hour, Max: time.Hour},
		{Min: 24 * time.Hour, Max: 7 * 24 * time.Hour},
		{Min: time.Second, Max: math.MaxInt64},
	} {
		for n := range int64(100) {
			full := min(math.Ldexp(float64(b.Min), int(n)), float64(b.Max))
			got := jobs.Delay(s, &jobs.Document{Backoff: b}, n+1)
			if off := float64(got) / full; off < 0.749 || off > 1.001 {
				t.Errorf("delay after %d errors with %+v: %v", n+1, b, got)
			}
		}
	}
}

// TestErrorsCount: a job crashes on a node that is often restarted. Only a run that went well
// resets the count of errors.
func TestErrorsCount(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		d := follower("a", "s", "")
		apply(t, s, d)
		p := newProbing(t, db, s)
		var at time.Duration
		for n, step := range []struct {
			end  jobs.End
			runs time.Duration
			want int64
		}{
			{jobs.Crashed, time.Second, 1},
			{jobs.Stopped, time.Second, 1},
			{jobs.Duplicate, time.Second, 1},
			{jobs.Crashed, time.Second, 2},
			{jobs.CaughtUp, time.Second, 0},
			{jobs.Crashed, time.Second, 1},
			{jobs.Stopped, 2 * time.Minute, 0},
			{jobs.Crashed, time.Second, 1},
			{jobs.Crashed, 2 * time.Minute, 1},
		} {
			if err := s.Wake(t.Context(), d.ID()); err != nil {
				t.Fatal(err)
			}
			at += time.Hour
			p.at(at)
			r := p.admit(1)[0]
			at += step.runs
			p.at(at)
			p.finish(r, jobs.Outcome{End: step.end, Seen: r.Job.Wanted})
			if j, err := s.Get(t.Context(), d.ID()); err != nil || j.Errors != step.want {
				t.Errorf("%d errors after run %d, want %d; %v", j.Errors, n+1, step.want, err)
			}
		}
	})
}
