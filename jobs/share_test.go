package jobs_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// TestShares: one namespace has many jobs that always have more to do, and two have few such jobs.
// The slots must be divided by shares.
func TestShares(t *testing.T) {
	t.Parallel()
	db := databases(t)["sqlite"]
	store := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
	namespaces := map[string]struct{ jobs, shares int }{"a": {size(5000, 500), 100}, "b": {10, 100}, "c": {10, 200}}
	var documents []jobs.Document
	for name, n := range namespaces {
		for k := range n.jobs {
			documents = append(documents, jobs.Document{Namespace: name, Name: fmt.Sprint(k), Kind: "fake", Source: fmt.Sprint(name, k), Follow: true})
		}
	}
	if _, err := store.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, n := range namespaces {
		if err := store.SetShares(t.Context(), name, n.shares); err != nil {
			t.Fatal(err)
		}
	}
	const slots, tick, takes, lasts = 16, 5 * time.Second, 30 * time.Second, 10 * time.Minute
	node, err := store.Join(t.Context(), jobs.Node{Name: "n", Slots: slots})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]time.Duration{}
	running := map[*jobs.Job]time.Time{}
	for at := epoch; at.Before(epoch.Add(lasts)); at = at.Add(tick) {
		exec(t, db, "UPDATE @clock SET at = $1", at.UnixMicro())
		if err := store.Heartbeat(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		for j, began := range running {
			if at.Sub(began) >= takes {
				if err := store.Finish(t.Context(), jobs.Run{Job: j, Node: node}, jobs.Outcome{End: jobs.Stopped}); err != nil {
					t.Fatal(err)
				}
				delete(running, j)
			}
		}
		runs, err := store.Admit(t.Context(), node, slots-len(running))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			running[r.Job] = at
		}
		for j := range running {
			used[j.Document.Namespace] += tick
		}
	}
	for name, n := range namespaces {
		share := used[name].Seconds() / (slots * lasts.Seconds())
		if fair := float64(n.shares) / 400; math.Abs(share-fair) > fair/10 {
			t.Errorf("namespace %s used %.1f %% of the slots, want %.1f %%", name, 100*share, 100*fair)
		}
	}
}
