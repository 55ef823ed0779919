package api

import (
	"context"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/jobs"
)

func (a *API) health(w http.ResponseWriter, _ *http.Request) error { return text(w, "ok\n") }

// readyTime is how long the database may take to show that it works.
const readyTime = 5 * time.Second

func (a *API) readiness(w http.ResponseWriter, r *http.Request) error {
	for _, n := range a.jobs.LocalNodes() {
		if n.Lease <= 0 {
			return problem.New(http.StatusServiceUnavailable, "lease-lost", "the lease of node %s has expired: its jobs run on other nodes, or will", n.Name)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	if _, err := a.jobs.List(ctx, jobs.Filter{Limit: 1}); err != nil {
		p := problem.New(http.StatusServiceUnavailable, "database-away", "the database of the jobs does not respond")
		p.Cause = err
		return p
	}
	return text(w, "ready\n")
}

func text(w http.ResponseWriter, s string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(s)) // an error means that the client has disconnected
	return nil
}
