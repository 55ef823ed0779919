package jobs_test

import (
	"fmt"
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestPerOrigin has more jobs with one server than may run, by their sources and targets, and
// one with another server.
func TestPerOrigin(t *testing.T) {
	kinds := jobs.Kinds{"fake": originKind{}}
	eachDatabase(t, kinds, func(t *testing.T, db *jobdb.DB, _ *jobs.Scheduler) {
		settings := jobs.Defaults()
		settings.PerOrigin = 3
		s := jobs.NewScheduler(db, kinds, settings)
		for n := range 10 {
			d := jobs.Document{Namespace: fmt.Sprint("n", n%2), Name: fmt.Sprint(n), Kind: "fake", Source: "https://full.test:443", Target: fmt.Sprint("https://t", n, ".test:443")}
			if n%3 == 0 {
				d.Source, d.Target = d.Target, d.Source
			}
			apply(t, s, d)
		}
		node, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 100})
		if err != nil {
			t.Fatal(err)
		}
		admit := func(want int) []jobs.Run {
			t.Helper()
			runs, err := s.Admit(t.Context(), node, 100)
			if err != nil {
				t.Fatal(err)
			}
			if len(runs) != want {
				t.Errorf("%d runs were started, want %d", len(runs), want)
			}
			return runs
		}
		waiting := func(want int) {
			t.Helper()
			if n, err := s.Waiting(t.Context(), node, 100); err != nil || n != want {
				t.Errorf("%d jobs wait for a slot (%v), want %d", n, err, want)
			}
		}
		waiting(10)
		runs := admit(3)
		waiting(0)
		admit(0)
		apply(t, s, jobs.Document{Namespace: "n0", Name: "other", Kind: "fake", Source: "https://other.test:443"})
		waiting(1)
		admit(1)
		if err := s.Finish(t.Context(), runs[0], jobs.Outcome{End: jobs.Done}); err != nil {
			t.Fatal(err)
		}
		admit(1)
	})
}
