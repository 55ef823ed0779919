package couchdb

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/storage/fault"
)

// A leafRow is a row of the changes feed with all leaves.
type leafRow struct {
	ID      string
	Changes []struct{ Rev string }
}

// leafRows returns the current leaves of the source.
func (r *rig) leafRows() []leafRow {
	r.t.Helper()
	var all struct{ Results []leafRow }
	if err := json.Unmarshal([]byte(r.do(http.MethodGet, "/_changes?style=all_docs", "")), &all); err != nil {
		r.t.Fatal(err)
	}
	return all.Results
}

// change changes a document at random: it creates or updates a branch, adds a conflicting one, or ends
// one with a tombstone.
func (r *rig) change(rng *rand.Rand, step int) {
	r.t.Helper()
	id := fmt.Sprint("d", rng.IntN(12))
	var leaves []string
	for _, row := range r.leafRows() {
		if row.ID == id {
			for _, c := range row.Changes {
				leaves = append(leaves, c.Rev)
			}
		}
	}
	name := fmt.Sprintf("%04x", rng.IntN(1<<16))
	deleted := rng.IntN(4) == 0
	content := fmt.Sprintf(`"step":%d,"n":1.50`, step)
	if len(leaves) == 0 || rng.IntN(5) == 0 { // a new branch
		r.graft(id, deleted, content, "1-"+name)
		return
	}
	parent := leaves[rng.IntN(len(leaves))]
	generation, parentName := splitRev(parent)
	r.graft(id, deleted, content, fmt.Sprintf("%d-%s", generation+1, name), fmt.Sprintf("%d-%s", generation, parentName))
}

// trouble chooses how the next run fails, if at all, and returns a function with the outcomes of its
// operations on the store.
func (r *rig) trouble(rng *rand.Rand) func(fault.Op) fault.Outcome {
	faults := []couchtest.Fault{
		couchtest.Cut(rng.IntN(3000)), couchtest.Cut(rng.IntN(300)),
		func(http.ResponseWriter, *http.Request, http.HandlerFunc) { panic(http.ErrAbortHandler) },
	}
	switch rng.IntN(6) {
	case 0:
		r.fake.Inject(1+rng.IntN(2), couchtest.On("", ""), faults[rng.IntN(len(faults))])
	case 1:
		r.fake.Inject(1+rng.IntN(2), couchtest.On(http.MethodPost, "/_bulk_get"), faults[rng.IntN(len(faults))])
	case 2:
		r.fake.Rewind(r.url, "0")
	case 3:
		if err := os.RemoveAll(filepath.Join(r.dir, "index")); err != nil {
			r.t.Fatal(err)
		}
	}
	outcome := []fault.Outcome{fault.Pass, fault.Lost, fault.Landed}[rng.IntN(3)]
	left := int64(1 + rng.IntN(3))
	var writes atomic.Int64
	return func(op fault.Op) fault.Outcome {
		if op.Verb.Writes() && writes.Add(1) == left {
			return outcome
		}
		return fault.Pass
	}
}

// TestRandom changes documents at random while the source, the store and the index fail at random. In
// the end the feed matches the source.
func TestRandom(t *testing.T) {
	t.Parallel()
	seeds := uint64(2)
	if *allFaults {
		seeds = 20
	}
	for name, options := range modes {
		for seed := range seeds {
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.options = options
				rng := rand.New(rand.NewPCG(seed, 7))
				for step := range 25 {
					for range rng.IntN(8) {
						r.change(rng, step)
					}
					if _, err := r.tryRun(fault.Wrap(r.store, r.trouble(rng))); err != nil {
						t.Logf("step %d: %v", step, err)
					}
					r.fake.Heal()
				}
				r.run()
				if options.Conflicts {
					r.checkLeaves()
				} else {
					r.check()
				}
			})
		}
	}
}

// checkLeaves compares the feed with all leaves of the source.
func (r *rig) checkLeaves() {
	r.t.Helper()
	held := map[bridge.Version]int{}
	for _, e := range r.events() {
		held[e.Version]++
		if held[e.Version] > 1 {
			r.t.Errorf("%v is in the feed %d times", e.Version, held[e.Version])
		}
	}
	for _, row := range r.leafRows() {
		for _, c := range row.Changes {
			if held[bridge.Version{ID: row.ID, Rev: c.Rev}] == 0 {
				r.t.Errorf("%s@%s is not in the feed", row.ID, c.Rev)
			}
		}
	}
	r.verify()
}
