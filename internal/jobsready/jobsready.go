// Package jobsready checks, for /readyz, whether a process can run jobs.
package jobsready

import (
	"context"
	"net/http"

	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/readiness"
	"github.com/feedctl/feedctl/jobs"
)

// Check returns a check of the leases of the nodes in this process, and of the database.
func Check(s *jobs.Scheduler) readiness.Check {
	return func(ctx context.Context) (all []readiness.Status) {
		for _, n := range s.LocalNodes() {
			var err error
			if n.Lease <= 0 {
				err = problem.New(http.StatusServiceUnavailable, "lease-lost", "the lease of node %s has expired: its jobs run on other nodes, or will", n.Name)
			}
			all = append(all, readiness.Of("lease of node "+n.Name, err, readiness.Failed))
		}
		_, err := s.List(ctx, jobs.Filter{Limit: 1})
		if err != nil {
			p := problem.New(http.StatusServiceUnavailable, "database-away", "the database of jobs does not respond")
			p.Cause, err = err, p
		}
		return append(all, readiness.Of("database", err, readiness.Failed))
	}
}
