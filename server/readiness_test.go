package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestReadyzNames: /readyz names a store that fails for a while, and a failed check of something that the
// server can do without.
func TestReadyzNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Bool
		store := fault.Wrap(memory.New(), func(fault.Op) fault.Outcome {
			if lost.Load() {
				return fault.Lost
			}
			return fault.Pass
		})
		fill(t, store, "f", 1, 1000)
		var other error
		c := inside(t, newServer(t, store, server.Config{Checks: map[string]func(context.Context) error{
			"maintenance": func(context.Context) error { return other },
		}}))
		if got := c.get(t, "/readyz"); string(got.body) != "ready\n" {
			t.Errorf("%s %q", got.Status, got.body)
		}
		other = errors.New("3 feeds failed")
		if got := c.get(t, "/readyz"); got.StatusCode != 200 || !strings.HasPrefix(string(got.body), "ready\ndegraded: maintenance, since ") || !strings.HasSuffix(string(got.body), ": 3 feeds failed\n") {
			t.Errorf("%s %q", got.Status, got.body)
		}
		time.Sleep(time.Minute)
		away := time.Now()
		lost.Store(true)
		c.get(t, "/feeds/f") // which notices
		time.Sleep(time.Minute)
		got := c.get(t, "/readyz")
		var p struct {
			Type   string
			Checks []struct {
				Name, State, Error string
				Since              time.Time
			}
		}
		if err := json.Unmarshal(got.body, &p); err != nil || got.StatusCode != http.StatusServiceUnavailable || p.Type != "urn:feedctl:problem:store-away" || len(p.Checks) != 2 {
			t.Fatalf("%s %v: %s", got.Status, err, got.body)
		}
		if s := p.Checks[0]; s.Name != "store" || s.State != "failed" || s.Error != "internal error; see the server's log" || !s.Since.Equal(away) {
			t.Errorf("since %v: %s", away, got.body)
		}
		if s := p.Checks[1]; s.Name != "maintenance" || s.State != "degraded" {
			t.Errorf("%s", got.body)
		}
	})
}
