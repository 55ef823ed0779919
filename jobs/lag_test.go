package jobs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// TestLagWhileWaiting: a job that had caught up is woken, and waits for a slot. The amount of work and the lag that
// are shown are not those that its last run reported.
func TestLagWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, fakeKinds)
		node, err := s.Join(t.Context(), jobs.Node{Name: "a", Slots: 1})
		if err != nil {
			t.Fatal(err)
		}
		d := follower("a", "s", "")
		apply(t, s, d)
		const ended = -1
		stands := func(what string, pending int64, lag time.Duration) {
			t.Helper()
			page, err := s.List(t.Context(), jobs.Filter{})
			if err != nil || len(page.Jobs) != 1 {
				t.Fatalf("%d jobs, %v", len(page.Jobs), err)
			}
			described, err := s.Describe(t.Context(), d.ID())
			if err != nil {
				t.Fatal(err)
			}
			for _, stats := range []*jobs.Stats{page.Jobs[0].Stats, described.Stats} {
				if stats == nil || stats.Pending != pending || stats.Lag != lag || stats.Entities != 5 {
					t.Errorf("%s: %+v, want %d pending and a lag of %v", what, stats, pending, lag)
				}
			}
		}
		run := func(o jobs.Outcome, stats jobs.Stats) {
			t.Helper()
			if err := s.Heartbeat(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			runs, err := s.Admit(t.Context(), node, 1)
			if err != nil || len(runs) != 1 {
				t.Fatalf("%d runs, %v", len(runs), err)
			}
			time.Sleep(time.Second)
			stats.Entities = 5
			o.Stats, o.Seen = &stats, runs[0].Job.Wanted
			if err := s.Finish(t.Context(), runs[0], o); err != nil {
				t.Fatal(err)
			}
		}
		run(jobs.Outcome{End: jobs.CaughtUp}, jobs.Stats{})
		time.Sleep(time.Hour)
		stands("idle", 0, 0)
		if err := s.Wake(t.Context(), d.ID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		stands("woken", -1, 2*time.Hour)
		run(jobs.Outcome{End: jobs.Stopped}, jobs.Stats{Pending: 7, Lag: 3 * time.Hour})
		time.Sleep(time.Hour)
		stands("stopped", 7, 4*time.Hour)
		run(jobs.Outcome{End: jobs.Rejected}, jobs.Stats{Pending: 7, Lag: 3 * time.Hour})
		stands("failed", ended, ended)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
