package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestAgesByDatabase: ages are computed with the clock of the database, although it differs from that of
// this process.
func TestAgesByDatabase(t *testing.T) {
	eachDatabase(t, jobs.Kinds{"fake": originKind{}}, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		p := newProbing(t, db, s)
		apply(t, s, jobs.Document{Namespace: "n", Name: "x", Kind: "fake", Source: "https://s.test:443", Follow: true})
		refused := &jobs.OriginError{Origin: "https://s.test:443", Err: errors.New("wait")}
		if err := jobs.Block(s, t.Context(), refused, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		p.at(3 * time.Minute)
		page, err := s.List(t.Context(), jobs.Filter{})
		if err != nil || len(page.Jobs) != 1 {
			t.Fatalf("%d jobs, %v", len(page.Jobs), err)
		}
		if j := page.Jobs[0]; j.Now.Sub(j.Since) != 3*time.Minute {
			t.Errorf("the job is in its state since %v, and it is %v", j.Since, j.Now)
		}
		nodes, err := s.Nodes(t.Context())
		if err != nil || len(nodes) != 1 || nodes[0].Up != 3*time.Minute {
			t.Errorf("nodes %+v, %v; want one that is up for 3 min", nodes, err)
		}
		origins, err := s.Origins(t.Context())
		if err != nil || len(origins) != 1 || origins[0].Wait != 7*time.Minute {
			t.Errorf("servers %+v, %v; want one that is not used for 7 min", origins, err)
		}
	})
}
