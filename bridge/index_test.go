package bridge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// world is a feed and its contents, with which an index is compared.
type world struct {
	t     *testing.T
	store storage.Store
	feed  *producer.Feed
	held  map[Version]bool
	last  map[string]string // by id, the revision published last
	path  string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: memory.New(), held: map[Version]bool{}, last: map[string]string{}, path: filepath.Join(t.TempDir(), "x", "index")}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	f, err := producer.Open(w.t.Context(), w.store, "docs", producer.Config{MaxPageEntities: 7})
	if err != nil {
		w.t.Fatal(err)
	}
	w.feed = f
	w.t.Cleanup(func() { f.Close() })
}

func (w *world) publish(entities ...*feed.Entity) producer.Receipt {
	w.t.Helper()
	r, err := w.feed.PublishBatch(w.t.Context(), producer.Batch{Entities: entities})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entities {
		if len(e.Header) > 0 {
			p, _ := VersionOf(e.ContentLocation, e.Header[0].Value)
			w.held[p], w.last[p.ID] = true, p.Rev
		}
	}
	return r
}

func (w *world) pair(rng *rand.Rand) Version {
	return Version{fmt.Sprintf("doc %d", rng.IntN(20)), fmt.Sprintf("%d-x", rng.IntN(8))}
}

// index opens the index and fills it from the feed.
func (w *world) index() *Index {
	w.t.Helper()
	x, err := openIndex(w.path, "test", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { x.Close() })
	w.fill(x)
	return x
}

func (w *world) fill(x *Index) {
	w.t.Helper()
	if _, err := x.catchUp(w.t.Context(), feedstore.NewLocal(w.store, nil), "docs"); err != nil {
		w.t.Fatal(err)
	}
}

// check compares the index with the oracle.
func (w *world) check(x *Index) {
	w.t.Helper()
	want, got := map[Version]Claim{}, map[Version]Claim{}
	for n := range 20 {
		for r := range 8 {
			p := Version{fmt.Sprintf("doc %d", n), fmt.Sprintf("%d-x", r)}
			switch {
			case !w.held[p]:
				want[p] = Absent
			case w.last[p.ID] == p.Rev:
				want[p] = Newest
			default:
				want[p] = Older
			}
			claims, err := x.Claim(p, p)
			if err != nil {
				w.t.Fatal(err)
			}
			if got[p] = claims[0]; claims[0] == Absent {
				if claims[1] != OnItsWay {
					w.t.Fatalf("%v was claimed twice: %v", p, claims)
				}
				x.Release(p)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Fatalf("index differs from the feed (-want +got):\n%s", diff)
	}
}

// TestIndexIsTheFeed publishes at random, as the bridge and as another producer do, and loses, damages
// and restores the file of the index in between.
func TestIndexIsTheFeed(t *testing.T) {
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(3, 4))
	x := w.index()
	var backup []byte
	steps := 150
	if testing.Short() {
		steps = 40
	}
	for step := range steps {
		switch k := rng.IntN(10); {
		case k < 4: // as the bridge does
			var entities []*feed.Entity
			var pairs []change
			for range 1 + rng.IntN(10) {
				p := w.pair(rng)
				if c, err := x.Claim(p); err != nil {
					t.Fatal(err)
				} else if c[0] == Absent {
					entities, pairs = append(entities, p.Entity(feed.Put, "application/json")), append(pairs, change{Version: p})
				}
			}
			if len(pairs) > 0 {
				r := w.publish(entities...)
				if err := x.add(pairs, place{Page: r.Page, ContentID: r.ContentID}); err != nil {
					t.Fatal(err)
				}
			}
		case k < 6: // as another producer does, sometimes a revision that is in the feed
			p := w.pair(rng)
			e := p.Entity(feed.Put, "application/json")
			e.ContentID = fmt.Sprintf("<%d@other>", step)
			w.publish(e, &feed.Entity{Operation: feed.Put, ContentType: "text/plain", ContentLocation: "doc%201"})
			w.fill(x)
		case k < 7:
			x.Close()
			backup, _ = os.ReadFile(w.path)
			x = w.index()
		case k < 8 && backup != nil: // restore an older file
			x.Close()
			if err := os.WriteFile(w.path, backup, 0o600); err != nil {
				t.Fatal(err)
			}
			x = w.index()
		case k < 9:
			x.Close()
			if err := os.WriteFile(w.path, []byte("this is no database, but long enough to be taken for one: "+fmt.Sprint(make([]int, 2000))), 0o600); err != nil {
				t.Fatal(err)
			}
			x = w.index()
		default:
			x.Close()
			if err := os.RemoveAll(filepath.Dir(w.path)); err != nil {
				t.Fatal(err)
			}
			x = w.index()
		}
		w.check(x)
	}
}

// TestIndexOfSeveral: late writes of one process, such as one that retries the quarantine alongside
// a bridge, do not replace what others have recorded meanwhile.
func TestIndexOfSeveral(t *testing.T) {
	w := newWorld(t)
	publish := func(x *Index, p Version) {
		t.Helper()
		if c, err := x.Claim(p); err != nil || c[0] != Absent {
			t.Fatalf("Claim is %v, %v", c, err)
		}
		r := w.publish(p.Entity(feed.Put, "application/json"))
		if err := x.add([]change{{Version: p}}, place{Page: r.Page, ContentID: r.ContentID}); err != nil {
			t.Fatal(err)
		}
	}
	w.publish(Version{"doc 0", "0-x"}.Entity(feed.Put, "application/json"))
	a := w.index()
	publish(a, Version{"doc 1", "1-x"})
	b := w.index()
	publish(a, Version{"doc 1", "2-x"})
	w.check(a) // makes a write its queue
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	w.check(a)
	// A bridge that finds that another process has written to the table reads the feed.
	b = w.index()
	publish(b, Version{"doc 1", "3-x"})
	w.fill(a)
	publish(a, Version{"doc 1", "4-x"})
	w.check(a)
	if _, err := b.Claim(Version{"doc 1", "3-x"}); !errors.Is(err, errMoved) {
		t.Errorf("Claim: %v", err)
	}
	if held, err := b.Ask(Version{"doc 1", "3-x"}); !errors.Is(err, errMoved) {
		t.Errorf("ask: %v, %v", held, err)
	}
	w.fill(b)
	w.check(b)
	w.check(a)
}

// An index of a feed that was deleted and created again discards its contents.
func TestIndexOfAnotherFeed(t *testing.T) {
	w := newWorld(t)
	w.publish(Version{"doc 1", "1-x"}.Entity(feed.Put, "application/json"), Version{"doc 2", "1-x"}.Entity(feed.Put, "application/json"))
	x := w.index()
	w.check(x)
	w.store, w.held, w.last = memory.New(), map[Version]bool{}, map[string]string{}
	w.fill(x)
	w.check(x)
	w.open()
	w.publish(Version{"doc 3", "1-x"}.Entity(feed.Put, "application/json"))
	w.fill(x)
	w.check(x)
	for n := range 30 {
		w.publish(Version{fmt.Sprint("doc ", n%20), fmt.Sprint(n%8, "-x")}.Entity(feed.Put, "application/json"))
	}
	w.fill(x)
	w.check(x)
}

// An index still has the contents of pages that it read before they were pruned.
func TestIndexOfPrunedFeed(t *testing.T) {
	w := newWorld(t)
	for n := range 40 {
		w.publish(Version{fmt.Sprint("doc ", n%20), fmt.Sprint(n%8, "-x")}.Entity(feed.Put, "application/json"))
	}
	x := w.index()
	if _, err := chain.RaiseFloor(t.Context(), w.store, "docs", 5); err != nil {
		t.Fatal(err)
	}
	w.publish(Version{"doc 1", "7-x"}.Entity(feed.Put, "application/json"))
	w.fill(x)
	w.check(x)
	// An outdated index continues with the entities that it lacks.
	old, err := openIndex(filepath.Join(t.TempDir(), "old"), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	w.fill(old)
	if c, err := old.Claim(Version{"doc 1", "7-x"}); err != nil || c[0] != Newest {
		t.Errorf("Claim is %v, %v", c, err)
	}
}

func TestResting(t *testing.T) {
	w := newWorld(t)
	w.publish(Version{"doc 1", "1-x"}.Entity(feed.Put, "application/json"))
	x := w.index()
	if r, err := x.rested(); err != nil || r.Checkpoint != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	want := resting{Checkpoint: []byte("{}"), Since: []byte(`"12-abc"`)}
	if err := x.rest(want); err != nil {
		t.Fatal(err)
	}
	got, err := x.rested()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
