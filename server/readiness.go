package server

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/readiness"
	"github.com/feedctl/feedctl/storage"
)

// checks returns what /readyz checks: the store, without which the server is not ready, and things
// without which it still works.
func (s *Server) checks(operations *storeMetrics) *readiness.Checks {
	checks := []readiness.Check{func(ctx context.Context) []readiness.Status {
		_, err := s.store.Stat(ctx, "readyz") // which does not exist
		if err == nil || errors.Is(err, storage.ErrNotFound) {
			return []readiness.Status{readiness.Of("store", nil, readiness.Failed)}
		}
		if known := operations.watch.Check(ctx); len(known) > 0 && known[0].State == readiness.Failed {
			return known // which says since when
		}
		return []readiness.Status{readiness.Of("store", storeAway(err), readiness.Failed)}
	}}
	if s.config.Cache != nil {
		checks = append(checks, readiness.Optional("cache", func(context.Context) error {
			if s.config.Cache.Stats().Off {
				return errors.New("the page cache is disabled because of a disk error; see the server's log")
			}
			return nil
		}))
	}
	for _, name := range slices.Sorted(maps.Keys(s.config.Checks)) {
		checks = append(checks, readiness.Optional(name, s.config.Checks[name]))
	}
	return readiness.New(checks...)
}

// storeAway returns the problem of a store that does not respond.
func storeAway(err error) error {
	p := problem.New(http.StatusServiceUnavailable, "store-away", "%s", describe(err).Detail)
	p.Cause = err
	return p
}

// getReadiness answers /readyz.
func (s *Server) getReadiness(w *responder, r *http.Request) error {
	text, err := s.ready.Ready(r.Context())
	if err != nil {
		return err
	}
	return writeText(w, text)
}
