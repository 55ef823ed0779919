package kinds_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/snapshot/snapshots"
)

// TestRetain carries out a policy in two runs at the same time. The second run begins when the first is
// about to write the snapshot, and both make one.
func TestRetain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.publish("zones", 100)
	if _, err := retention.Change(t.Context(), s.store, "zones", func(p *retention.Policy) error {
		*p = retention.Policy{KeepAge: time.Hour, SnapshotEvery: time.Hour, KeepSnapshots: 1}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	d := jobs.Document{Kind: "retain", Target: s.url() + "#zones"}
	for _, got := range s.beside(writing, d, d) {
		if !regexp.MustCompile(`^made a snapshot, deleted 0 pages \(0 B\) and [01] snapshots?$`).MatchString(got) {
			t.Errorf("the result is %q", got)
		}
	}
	if ids, _, err := snapshots.List(t.Context(), s.store, "zones"); err != nil || len(ids) != 2 {
		t.Errorf("snapshots %q, %v, want two: one may still be read", ids, err)
	}
}
