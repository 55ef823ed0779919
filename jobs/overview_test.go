package jobs_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// TestOverview lists the nodes, servers and namespaces of a scheduler with jobs of two namespaces
// on two nodes, one of which is lost.
func TestOverview(t *testing.T) {
	eachScene(t, map[string]func(*scene){"": func(s *scene) {
		s.join(jobs.Node{Name: "lost", Slots: 3, Labels: []string{"eu", "ssd"}})
		s.pass(12 * time.Second)
		n := s.join(jobs.Node{Name: "a", Slots: 4, Version: "1.0"})
		for k := range 3 {
			s.apply(fmt.Sprint("job-", k), "https://db.test:443", nil)
		}
		s.apply("x", "https://db.test:443", func(d *jobs.Document) {
			d.Namespace, d.Target = "other", "https://busy.test:443"
		})
		s.must(s.store.SetShares(s.t.Context(), "other", 200))
		s.must(s.store.SetMaxRunning(s.t.Context(), "n", 2))
		runs := s.admit(n, 9)
		s.pass(10 * time.Second)
		busy := &jobs.OriginError{Origin: "https://busy.test:443", Err: errors.New("429"), RetryAfter: time.Minute}
		for _, r := range runs {
			if r.Job.Document.Namespace == "other" {
				s.must(s.store.Finish(s.t.Context(), r, jobs.Outcome{End: jobs.Crashed, Reason: busy.Error(), Origin: busy}))
			}
		}
		s.pass(300 * time.Second)

		nodes, err := s.store.Nodes(s.t.Context())
		s.must(err)
		if len(nodes) != 2 {
			s.t.Fatalf("%d nodes", len(nodes))
		}
		if a := nodes[0]; a.Name != "a" || a.Slots != 4 || a.Version != "1.0" || a.Running != 2 || a.Alive || a.Age != 310*time.Second || !a.Started.Equal(epoch.Add(12*time.Second)) {
			s.t.Errorf("node a: %+v", a)
		}
		if lost := nodes[1]; lost.Name != "lost" || fmt.Sprint(lost.Labels) != "[eu ssd]" || lost.Alive || lost.Running != 0 {
			s.t.Errorf("node lost: %+v", lost)
		}

		origins, err := s.store.Origins(s.t.Context())
		s.must(err)
		want := []jobs.OriginStatus{
			{Origin: "https://busy.test:443", Until: epoch.Add(82 * time.Second), Failures: 1, Reason: "429", Jobs: 1, Crashing: 1},
			{Origin: "https://db.test:443", Jobs: 4, Running: 2, Crashing: 1},
		}
		if fmt.Sprint(origins) != fmt.Sprint(want) {
			s.t.Errorf("servers:\n%+v, want\n%+v", origins, want)
		}

		tenants, err := s.store.Tenants(s.t.Context())
		s.must(err)
		for n := range tenants {
			tenants[n].Usage = math.Round(tenants[n].Usage*100) / 100
		}
		wantTenants := []jobs.TenantStatus{
			{Namespace: "n", Shares: 100, MaxRunning: 2, Jobs: 3, Running: 2, Waiting: 1},
			{Namespace: "other", Shares: 200, Usage: 4.94, Jobs: 1, Waiting: 1}, // usage decays during a run, too
		}
		if fmt.Sprint(tenants) != fmt.Sprint(wantTenants) {
			s.t.Errorf("namespaces:\n%+v, want\n%+v", tenants, wantTenants)
		}
		for _, err := range []error{s.store.SetShares(s.t.Context(), "n", 0), s.store.SetShares(s.t.Context(), "n", 1001), s.store.SetMaxRunning(s.t.Context(), "n", -1)} {
			if err == nil {
				s.t.Error("an invalid setting of a namespace is stored")
			}
		}
	}})
}
