package jobscmd

import (
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// TestClock: if the clock of the database is years off, ages are still printed correctly, since they are relative
// to that clock.
func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	j := jobs.Listed{Job: jobs.Job{
		Document: jobs.Document{Namespace: "n", Name: "x", Kind: "prune"}, State: jobs.Pending,
		Since: now.Add(-3 * time.Minute), NotBefore: now.Add(7 * time.Minute),
	}, State: jobs.Pending, Now: now}
	var b strings.Builder
	if err := (&listJSON{Jobs: []jobs.Listed{j}}).write(&b); err != nil {
		t.Fatal(err)
	}
	if fields := strings.Fields(b.String()); fields[len(fields)-1] != "3m" || fields[len(fields)-3] != "7m" {
		t.Errorf("a job that has waited for 3 min, with 7 min to go: %v", fields)
	}
	if row := nodeRow(&jobs.NodeStatus{Started: now, Up: 5 * time.Minute}); row[5] != "5m" {
		t.Errorf("a node that was started 5 min ago: %v", row)
	}
	if row := originRow(&jobs.OriginStatus{Until: now, Wait: 4 * time.Minute}); row[1] != "waits" || row[6] != "4m" {
		t.Errorf("a server that is not used for 4 min: %v", row)
	}
	if row := originRow(&jobs.OriginStatus{Until: time.Now().Add(time.Hour), Wait: 0}); row[1] != "up" || row[6] != "" {
		t.Errorf("a server that is used again: %v", row)
	}
}
