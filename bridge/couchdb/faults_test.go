package couchdb

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/storage/fault"
)

var allFaults = flag.Bool("all-faults", false, "make each request and each operation on the store fail, and run all random tests")

// sampled reports whether the nth of many similar cases is tested. With -short, only a quarter of those are
// tested, a different quarter in each run, since a few cases are enough for the race detector.
func sampled(n, every int) bool {
	return *allFaults || n%every == 0 && (!testing.Short() || rand.IntN(4) == 0)
}

// scene fills the source with all kinds of documents: updates, conflicts, tombstones, streamed
// attachments, and a document that is quarantined. Part 0 is there before the first run; part 1 adds
// changes for later runs.
func scene(r *rig, part int) {
	r.t.Helper()
	from := 100 * part
	r.fill(from, from+12)
	id := fmt.Sprint("conflict", part)
	r.graft(id, false, `"v":1`, "2-b", "1-a")
	r.graft(id, false, `"v":2`, "2-c", "1-a")
	r.graft(id, true, `"v":3`, "3-d", "2-e", "1-a")
	rev := r.put(fmt.Sprint("gone", part), `{}`)
	r.do(http.MethodDelete, fmt.Sprintf("/gone%d?rev=%s", part, rev), "")
	r.put(fmt.Sprint("small", part), `{"_attachments":{"a.txt":{"content_type":"text/plain","data":"aGVsbG8="}}}`)
	r.put(fmt.Sprint("large", part), fmt.Sprintf(`{"_attachments":{"a.bin":{"content_type":"application/octet-stream","data":%q}}}`, strings.Repeat("AAAA", 3000)))
	r.put(fmt.Sprint("text", part), fmt.Sprintf(`{"t":%q}`, strings.Repeat("é", 3000)))
	if part == 0 {
		r.fake.AddRow(r.url, `{"seq":SEQ,"id":"","changes":[{"rev":"1-a"}]}`)
	} else {
		r.put("doc/0 ü", fmt.Sprintf(`{"_rev":%q}`, r.rev("doc/0 ü")))
	}
}

func (r *rig) rev(id string) string {
	text := r.do(http.MethodGet, "/"+couchdb.EscapeID(id), "")
	_, text, _ = strings.Cut(text, `"_rev":"`)
	rev, _, _ := strings.Cut(text, `"`)
	return rev
}

// modes are the ways in which documents are read.
var modes = map[string]Options{
	"rows":      {},
	"multipart": {Revs: true, Conflicts: true, Attachments: Multipart},
	"inline":    {Attachments: Inline},
}

// scenePairs returns the number of entities in the feed at the end.
func scenePairs(o Options) int {
	n := 2*(12+4+1) + 1 // documents, and one that was changed
	if o.Conflicts {
		n += 2 * 2
	}
	return n
}

func (r *rig) checkScene(o Options) {
	r.t.Helper()
	r.check("") // the row without an id
	if got, want := len(r.events()), scenePairs(o); got != want {
		r.t.Errorf("%d entities in the feed, want %d: %q", got, want, r.pairs())
	}
	if q := r.quarantined(); len(q) != 1 {
		r.t.Errorf("quarantine has %v", q)
	}
}

// TestStoreFaults makes each operation on the store fail, once after it took effect and once before, and
// runs the bridge until it is done.
func TestStoreFaults(t *testing.T) {
	t.Parallel()
	for name, options := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, op := range storeFault(t, options, 0, fault.Pass) {
				if !sampled(i, 3) {
					continue
				}
				for _, outcome := range []fault.Outcome{fault.Lost, fault.Landed} {
					// Operations that are the same in all modes need not fail in each mode.
					if op.Verb.Writes() || name == "rows" && outcome == fault.Lost {
						t.Run(fmt.Sprintf("%v/%d", outcome, op.N), func(t *testing.T) { storeFault(t, options, op.N, outcome) })
					}
				}
			}
		})
	}
}

// storeFault makes operation n fail and returns all operations.
func storeFault(t *testing.T, options Options, n int, outcome fault.Outcome) (operations []fault.Op) {
	r := newRig(t)
	r.options = options
	scene(r, 0)
	r.run()
	scene(r, 1)
	var mu sync.Mutex
	faulty := fault.Wrap(r.store, func(op fault.Op) fault.Outcome {
		mu.Lock()
		defer mu.Unlock()
		operations = append(operations, op)
		if op.N != n {
			return fault.Pass
		}
		return outcome
	})
	for range 3 {
		_, err := r.tryRun(faulty)
		if err == nil {
			break
		}
		if !errors.Is(err, fault.ErrInjected) {
			t.Fatalf("%v: %v", operations[n-1], err)
		}
	}
	r.checkScene(options)
	if t.Failed() && n > 0 {
		t.Logf("the failed operation was %v", operations[n-1])
	}
	return operations
}

// TestSourceFaults makes each request to the source fail in every way.
func TestSourceFaults(t *testing.T) {
	t.Parallel()
	faults := map[string]couchtest.Fault{
		"unavailable": couchtest.Refuse(http.StatusServiceUnavailable, "unavailable", "try later"),
		"no answer":   func(http.ResponseWriter, *http.Request, http.HandlerFunc) { panic(http.ErrAbortHandler) },
		"cut":         couchtest.Cut(700),
		"cut later":   couchtest.Cut(5000),
		"cut late":    couchtest.Cut(12000),
	}
	// The cases spend most of the time waiting, so all run concurrently.
	var all sync.WaitGroup
	defer all.Wait()
	for mode, options := range modes {
		for name, how := range faults {
			requests := sourceFault(t, options, -1, how)
			for n := range requests {
				if !sampled(n, 2) {
					continue
				}
				all.Go(func() {
					t.Run(fmt.Sprintf("%s/%s/%d", mode, name, n), func(t *testing.T) { sourceFault(t, options, n, how) })
				})
			}
		}
	}
}

// sourceFault makes request n fail and returns the number of requests.
func sourceFault(t *testing.T, options Options, n int, how couchtest.Fault) int {
	r := newRig(t)
	r.options = options
	scene(r, 0)
	r.run()
	scene(r, 1)
	var count atomic.Int64
	r.fake.Inject(1, func(*http.Request) bool { return int(count.Add(1))-1 == n }, how)
	for range 3 {
		if _, err := r.tryRun(r.store); err == nil {
			break
		} else {
			t.Logf("run again after: %v", err)
		}
	}
	requests := int(count.Load())
	r.fake.Heal()
	r.checkScene(options)
	return requests
}
