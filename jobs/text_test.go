package jobs_test

import (
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestAnyText: servers send what PostgreSQL cannot store as text, since names, versions and positions may contain
// any bytes. That must not disturb other jobs.
func TestAnyText(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		apply(t, s, jobs.Document{Namespace: "n", Name: "x", Kind: "fake", Source: "a"})
		node, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 10})
		if err != nil {
			t.Fatal(err)
		}
		runs, err := s.Admit(t.Context(), node, 1)
		if err != nil || len(runs) != 1 {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		watched := jobs.Watched{Type: "feedctl", Server: "https://data.example.org"}
		for _, text := range []string{"a\x00b", "caf\xe9"} {
			if err := s.WatchesChecked(t.Context(), node, []jobs.WatchCheck{{Watched: watched, Position: text}}); err != nil {
				t.Error(err)
			}
			if _, err := s.WakeChanged(t.Context(), watched, map[string]string{"feed": text, text: "1"}); err != nil {
				t.Error(err)
			}
			if err := jobs.Report(t.Context(), s, runs[0], jobs.Stats{Entities: 5, Position: text, SourcePosition: text}); err != nil {
				t.Error(err)
			}
		}
		if stats, err := s.Stats(t.Context(), "n/x"); err != nil || stats == nil || stats.Entities != 5 {
			t.Errorf("the statistics are %v, %v", stats, err)
		}
	})
}
