package jobs_test

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestGuarded saves jobs that were changed after they had been read, as a transaction without locks
// could.
func TestGuarded(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		d := follower("a", "s", "")
		apply(t, s, d)
		for statement, want := range map[string]string{
			"UPDATE @job SET epoch = epoch + 1 WHERE id = $1":            "no longer pending",
			"UPDATE @job SET state = 'failed', behind = 0 WHERE id = $1": "no longer pending",
			"DELETE FROM @job WHERE id = $1":                             "no longer pending",
			"UPDATE @job SET rank = 1 WHERE id = $1":                     "",
		} {
			err := jobs.SaveAfter(t.Context(), s, d.ID(), statement)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("after %q, saving returns %v, want %q", statement, err, want)
			}
			j, err := s.Get(t.Context(), d.ID())
			if err != nil {
				t.Fatal(err)
			}
			if j.Document.Paused != (want == "") {
				t.Errorf("after %q, the job is %s", statement, j.State)
			}
			if _, err := s.Resume(t.Context(), d.ID()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
