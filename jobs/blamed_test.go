package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestOriginUpOnly: a server was down and is back. Jobs that crashed because of the server are due
// again. A job that waits after errors of its own, and a job that waits for its schedule, continue to wait, and do
// not probe the server.
func TestOriginUpOnly(t *testing.T) {
	eachDatabase(t, originKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		const server = "https://down.test"
		own := follower("own", server, "")
		own.Backoff = jobs.Backoff{Min: time.Minute, Max: time.Hour}
		daily := jobs.Document{Namespace: "n", Name: "daily", Kind: "fake", Source: server, Target: "https://t.test", Schedule: "0 12 * * *"}
		documents := []jobs.Document{own, daily}
		for n := range 3 {
			documents = append(documents, follower(fmt.Sprint(n), server, ""))
		}
		apply(t, s, documents...)
		p := newProbing(t, db, s)
		for _, r := range p.admit(10) {
			switch r.Job.Document.Name {
			case own.Name:
				p.finish(r, jobs.Outcome{End: jobs.Crashed, Reason: "the disk is full"})
			default:
				p.fail(r, server, 0)
			}
		}
		before := map[string]*jobs.Job{}
		for _, d := range []jobs.Document{own, daily} {
			j, err := s.Get(t.Context(), d.ID())
			if err != nil {
				t.Fatal(err)
			}
			before[d.ID()] = j
		}
		if j := before[own.ID()]; j.Errors != 1 || !j.NotBefore.After(epoch.Add(10*time.Second)) {
			t.Fatalf("job %s has %d errors and waits until %v", own.ID(), j.Errors, j.NotBefore)
		}
		if j := before[daily.ID()]; j.NotBefore.Hour() != 12 {
			t.Fatalf("job %s waits until %v", daily.ID(), j.NotBefore)
		}
		for second := 5; second < 20; second++ {
			p.at(time.Duration(second) * time.Second)
			for _, r := range p.admit(10) {
				if before[r.Job.Document.ID()] != nil {
					t.Fatalf("job %s probes the server", r.Job.Document.ID())
				}
				p.fail(r, server, 0)
			}
		}
		if err := s.OriginUp(t.Context(), server); err != nil {
			t.Fatal(err)
		}
		for id, want := range before {
			got, err := s.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if got.Errors != want.Errors || got.Reason != want.Reason || !got.NotBefore.Equal(want.NotBefore) {
				t.Errorf("job %s has %d errors (%s) and waits until %v, want as before: %d (%s) until %v", id, got.Errors, got.Reason, got.NotBefore, want.Errors, want.Reason, want.NotBefore)
			}
		}
		p.at(25 * time.Second) // after the jitter
		if runs := p.admit(10); len(runs) != 3 {
			t.Errorf("%d jobs are due after the server is back, want the 3 that crashed because of it", len(runs))
		}
	})
}
