package bridge

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
)

func (w *world) latest() *Index {
	w.t.Helper()
	x, err := openIndex(w.path, "test", &latest{underway: map[string]Held{}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { x.Close() })
	w.fill(x)
	return x
}

// TestLatest publishes versions with stamps that grow and fall, loses the index, and compares it with
// a map.
func TestLatest(t *testing.T) {
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(1, 2))
	want := map[string]Held{}
	ids := []string{"a", "b", "0b4e6ba4-3b4a-4c2f-8d9e-2f2f2f2f2f2f", "0b4e6ba4-3b4a-4c2f-8d9e-2f2f2f2f2f2e", "0B4E6BA4-3b4a-4c2f-8d9e-2f2f2f2f2f2f", "a/attachment"}
	x, highest := w.latest(), int64(0)
	for step := range 300 {
		id, stamp, live := ids[rng.IntN(len(ids))], 1+rng.Int64N(50), rng.IntN(3) > 0
		v, op := Version{id, strconv.FormatInt(stamp, 10)}, feed.Put
		if !live {
			v.Rev, op = v.Rev+";gone=7", feed.Delete
		}
		e := v.Entity(op, "application/json")
		e.ContentID = fmt.Sprintf("<%d>", step)
		if !live {
			e.ContentType = ""
		}
		before, err := x.Look(id)
		if err != nil {
			t.Fatal(err)
		}
		x.Publishing(id, before[0], stamp, live)
		want[id] = want[id].with(stamp, live)
		r := w.publish(e)
		if err := x.add([]change{{v, !live}}, place{Page: r.Page, ContentID: r.ContentID}); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(20) == 0 {
			x.failToWrite(t)
		}
		if rng.IntN(20) == 0 {
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 {
				if err := os.Remove(w.path); err != nil {
					t.Fatal(err)
				}
			}
			x = w.latest()
		}
		held, err := x.Look(ids...)
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			if held[i] != want[id] {
				t.Fatalf("step %d: %s is %+v, want %+v", step, id, held[i], want[id])
			}
		}
		highest = max(highest, stamp)
		if got := x.Highest(); got != highest {
			t.Fatalf("step %d: highest stamp is %d, want %d", step, got, highest)
		}
	}
	x.checkUnmarked(t, want, ids[0], ids[2])
}

// failToWrite makes the last step of writing the queue fail, as on a full disk.
func (x *Index) failToWrite(t *testing.T) {
	t.Helper()
	script := func(sql string) {
		if err := sqlitex.ExecuteScript(x.conn, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	script("CREATE TEMP TRIGGER full BEFORE INSERT ON state BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
	if err := x.write(); err == nil && x.at != (place{}) {
		t.Fatal("the queue was written to a full disk")
	}
	script("DROP TRIGGER full")
}

func (x *Index) checkUnmarked(t *testing.T, held map[string]Held, marked ...string) {
	t.Helper()
	if err := x.Mark(); err != nil {
		t.Fatal(err)
	}
	if err := x.MarkIDs(marked...); err != nil {
		t.Fatal(err)
	}
	want, live := map[string]bool{}, int64(0)
	for id, h := range held {
		if h.Live && id != "a/attachment" {
			want[id] = true
			live++
		}
	}
	for _, id := range marked {
		delete(want, id)
	}
	got := map[string]bool{}
	for ids, err := range x.Unmarked() {
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			got[id] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n, err := x.Count(); n != live || err != nil {
		t.Errorf("%d live ids, %v, want %d", n, err, live)
	}
}

// TestLatestOfPrunedFeed: an index that is filled from a feed without its first pages reports that it
// is partial.
func TestLatestOfPrunedFeed(t *testing.T) {
	w := newWorld(t)
	for n := range 20 {
		w.publish(Version{fmt.Sprint("r", n), "5"}.Entity(feed.Put, "application/json"))
	}
	whole := w.latest()
	if partial, err := whole.Partial(); partial || err != nil {
		t.Errorf("Partial is %v, %v", partial, err)
	}
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := chain.RaiseFloor(t.Context(), w.store, "docs", 2); err != nil {
		t.Fatal(err)
	}
	if partial, err := w.latest().Partial(); partial || err != nil {
		t.Errorf("after pruning pages that are in the index, Partial is %v, %v", partial, err)
	}
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	if partial, err := w.latest().Partial(); !partial || err != nil {
		t.Errorf("for a new index of a pruned feed, Partial is %v, %v", partial, err)
	}
}
