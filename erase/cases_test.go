package erase_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/erase"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/repair"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestPublishedMeanwhile: entities of a key that are published after the feed was searched are kept and
// reported. A second erasure erases them.
func TestPublishedMeanwhile(t *testing.T) {
	store := memory.New()
	check(t, publish(t.Context(), store, entity(1, "bob", feed.Put), entity(2, ann, feed.Put), entity(3, ann, feed.Delete)))
	plan, err := erase.Find(t.Context(), store, testFeed, erase.Config{Keys: []string{ann}})
	check(t, err)
	again := entity(4, ann, feed.Put)
	check(t, publish(t.Context(), store, again))
	report, err := plan.Run(t.Context())
	if err != nil || report.Kept != 1 || report.Entities != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	if got := apply(nil, read(t, store, consumer.Beginning())...)[ann]; got != string(again.Body) {
		t.Errorf("the state of the key is %q", got)
	}
	testErase(t, store)
}

func TestForgetKeys(t *testing.T) {
	store := memory.New()
	check(t, publish(t.Context(), store, entity(1, ann, feed.Put), entity(2, "bob", feed.Put), entity(3, ann, feed.Patch)))
	forget := erase.Config{ForgetKeys: true}
	if _, err := eraseKeys(t.Context(), store, forget); !errors.Is(err, erase.ErrTold) {
		t.Errorf("before the DELETE: %v", err)
	}
	_, err := eraseKeys(t.Context(), store, erase.Config{})
	check(t, err)
	before := read(t, store, consumer.Beginning())
	report, err := eraseKeys(t.Context(), store, forget)
	if err != nil || report.Entities != 3 || report.Deletes != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	after := read(t, store, consumer.Beginning())
	if got := traces(t, store, "ann"); got != nil {
		t.Errorf("the key is left in %v", got)
	}
	if !slices.Equal(ids(after), ids(before)) || after[0].ContentLocation != after[2].ContentLocation || after[0].ContentLocation == "" {
		t.Errorf("the feed is %+v", after)
	}
	verified(t, store)
}

// TestPruned erases from a feed whose first pages have been pruned.
func TestPruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		for n := range 20 {
			check(t, publish(t.Context(), store, entity(n, []string{"bob", ann}[n%2], feed.Put)))
		}
		time.Sleep(2 * time.Hour)
		check(t, publish(t.Context(), store, others(20, 21)...))
		if report, err := producer.Prune(t.Context(), store, testFeed, producer.PrunePolicy{KeepPages: 4}); err != nil || report.Pages == 0 {
			t.Fatalf("%+v, %v", report, err)
		}
		testErase(t, store)
		reader := chain.NewReader(store, testFeed)
		if pruned, err := reader.Pruned(t.Context()); err != nil || !pruned {
			t.Errorf("the feed is not reported as pruned: %v", err)
		}
		if p, err := reader.Stat(t.Context(), reader.SeenFloor()); err != nil || p.IsFirst() {
			t.Errorf("the first page is %+v, %v", p, err)
		}
	})
}

// TestPrunedMeanwhile: pages that are pruned during an erasure do not come back.
func TestPrunedMeanwhile(t *testing.T) {
	for at, more := 1, true; more; at += 3 {
		synctest.Test(t, func(t *testing.T) {
			store, f := beginning(t, 40)
			defer f.Close()
			time.Sleep(2 * time.Hour)
			_, err := f.Publish(t.Context(), others(100, 100)...)
			check(t, err)
			more = false
			pruned := false
			_, err = eraseKeys(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
				if op.N == at {
					more = true
					report, err := producer.Prune(t.Context(), store, testFeed, producer.PrunePolicy{KeepPages: 5})
					check(t, err)
					pruned = !report.Limited // while the copies are new, some pages cannot be pruned
				}
				return fault.Pass
			}), erase.Config{})
			if err != nil {
				t.Errorf("pruned at operation %d: %v", at, err)
			}
			got := visible(t, store)
			complete(t, &watcher{store: store}, fmt.Sprintf("pruned at operation %d", at))
			if pruned == slices.Contains(got, "<20@test>") {
				t.Errorf("pruned at operation %d: the feed has %v", at, got)
			}
			if rest := got[len(got)-3:]; !slices.Equal(rest[:2], []string{"<39@test>", "<100@test>"}) {
				t.Errorf("pruned at operation %d: the feed has %v", at, got)
			}
		})
	}
}

// TestWhole: a feed that was not pruned is complete after an erasure, and can be deleted.
func TestWhole(t *testing.T) {
	store := memory.New()
	check(t, publish(t.Context(), store, entity(1, ann, feed.Put)))
	testErase(t, store)
	reader := chain.NewReader(store, testFeed)
	if pruned, err := reader.Pruned(t.Context()); err != nil || pruned {
		t.Errorf("the feed is reported as pruned: %v", err)
	}
	if p, err := reader.Stat(t.Context(), reader.SeenFloor()); err != nil || !p.IsFirst() {
		t.Errorf("the first page is %+v, %v", p, err)
	}
	_, err := producer.Delete(t.Context(), store, testFeed, false)
	check(t, err)
	check(t, publish(t.Context(), store, others(1, 5)...))
	if got := visible(t, store); len(got) != 5 {
		t.Errorf("the new feed has %v", got)
	}
}

// TestLarge: entities are erased from pages that are too large to be read into memory, and other pages of that
// size are copied.
func TestLarge(t *testing.T) {
	store := memory.New()
	f, err := producer.Open(t.Context(), store, testFeed, producer.Config{MaxPageBytes: 8 << 20})
	check(t, err)
	large := func(n int, key string) *feed.Entity {
		e := entity(n, key, feed.Put)
		e.Body = append(bytes.Repeat([]byte{'a' + byte(n)}, 3<<20), e.Body...)
		return e
	}
	var want []*feed.Entity
	for n, key := range []string{"bob", "cem", ann, "dee", ann, "bob"} {
		e := large(n, key)
		if n > 3 { // a Stream gets a page of its own
			e.Size, e.Stream, e.Body = int64(len(e.Body)), bytes.NewReader(e.Body), nil
		}
		_, err := f.Publish(t.Context(), e)
		check(t, err)
		want = append(want, large(n, key))
	}
	check(t, f.Close())
	testErase(t, store)
	for i, e := range read(t, store, consumer.Beginning())[:6] {
		if e.Key() != ann && !bytes.Equal(e.Body, want[i].Body) {
			t.Errorf("entity %d has a different body, of %d bytes", i, len(e.Body))
		}
	}
}

// TestOutgrown: the copies of an erasure that was killed do no harm, even when the feed reaches their numbers
// a long time later.
func TestOutgrown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		check(t, publish(t.Context(), store, entity(1, ann, feed.Put), entity(2, ann, feed.Put), entity(3, ann, feed.Put), entity(4, "bob", feed.Put)))
		floors := 0
		_, err := eraseKeys(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
			if op.Verb.Writes() && op.Key == layout.FeedFloor(testFeed) {
				floors++
			}
			if floors > 2 { // the erasure is about to commit
				return fault.Lost
			}
			return fault.Pass
		}), erase.Config{})
		if err == nil {
			t.Fatal("the erasure was not killed")
		}
		time.Sleep(2 * time.Hour)
		f, err := producer.Open(t.Context(), store, testFeed, producer.Config{MaxPageEntities: 1})
		check(t, err)
		more := others(100, 1200)
		_, err = f.Publish(t.Context(), more...)
		check(t, errors.Join(err, f.Close()))
		if last := newest(t, store); last.Number < 1100 {
			t.Fatalf("the newest page is %d", last.Number)
		}
		complete(t, &watcher{store: store}, "outgrown", more...)
	})
}

// TestSearch: a search for the end of the feed does not end at a copy made by an erasure.
func TestSearch(t *testing.T) {
	store := memory.New()
	f, err := producer.Open(t.Context(), store, testFeed, producer.Config{MaxPageEntities: 1})
	check(t, err)
	all := append(others(1, 399), entity(400, ann, feed.Put)) // the search looks at page 2049, which will be a copy
	_, err = f.Publish(t.Context(), all...)
	check(t, errors.Join(err, f.Close()))
	w, copies := &watcher{store: store}, 0
	_, err = eraseKeys(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.Key == layout.FeedPage(testFeed, 2049) {
			copies++
		}
		if op.Verb.Writes() && op.Key == layout.FeedFloor(testFeed) {
			w.look(t, "before the floor is written")
		}
		return fault.Pass
	}), erase.Config{})
	check(t, err)
	if copies == 0 {
		t.Error("page 2049 is not one of the copies")
	}
}

// TestCheckpoint: a source continues from the checkpoint of the feed.
func TestCheckpoint(t *testing.T) {
	store := memory.New()
	f, err := producer.Open(t.Context(), store, testFeed, producer.Config{})
	check(t, err)
	defer f.Close()
	for n, previous := range []string{"", "0"} {
		batch := producer.Batch{Entities: []*feed.Entity{entity(n, ann, feed.Put)}, Previous: []byte(previous), Checkpoint: fmt.Append(nil, n)}
		_, err := f.PublishBatch(t.Context(), batch)
		check(t, err)
	}
	testErase(t, store)
	batch := producer.Batch{Entities: others(2, 2), Previous: []byte("1"), Checkpoint: []byte("2")}
	if _, err := f.PublishBatch(t.Context(), batch); err != nil {
		t.Errorf("the next batch: %v", err)
	}
	again := producer.Batch{Entities: []*feed.Entity{entity(1, ann, feed.Put)}}
	if got, err := f.PublishBatch(t.Context(), again); err != nil || got.Duplicates != 1 {
		t.Errorf("an entity that was erased, published again: %+v, %v", got, err)
	}
}

// TestSuspended: an erasure that is suspended until the feed has reached its copies gives up without
// replacing anything.
func TestSuspended(t *testing.T) {
	store, f := beginning(t, 40)
	check(t, f.Close())
	w := &watcher{store: store}
	var grown atomic.Bool
	more := others(100, 1300)
	_, err := eraseKeys(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.Verb == fault.Create && grown.CompareAndSwap(false, true) { // the erasure is about to write the first copy
			f, err := producer.Open(t.Context(), store, testFeed, producer.Config{MaxPageEntities: 1})
			check(t, err)
			_, err = f.Publish(t.Context(), more...)
			check(t, errors.Join(err, f.Close()))
			w.look(t, "grown")
		}
		return fault.Pass
	}), erase.Config{})
	if !errors.Is(err, chain.ErrOutgrown) {
		t.Errorf("%v", err)
	}
	w.look(t, "resumed")
	complete(t, w, "completed", more...)
}

// TestRepair: a repair leaves the copies of an erasure alone, even if it moves other pages aside.
func TestRepair(t *testing.T) {
	for _, lose := range []int64{0, 2} { // the page that is lost, or 0
		store, f := beginning(t, 8)
		check(t, f.Close())
		floors := 0
		_, err := eraseKeys(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
			if op.Verb.Writes() && op.Key == layout.FeedFloor(testFeed) {
				if floors++; floors == 3 { // the erasure is about to commit
					if lose > 0 {
						check(t, store.Delete(t.Context(), layout.FeedPage(testFeed, lose)))
					}
					report, err := repair.Feed(t.Context(), store, testFeed, repair.Config{Apply: true})
					check(t, err)
					for _, step := range report.Steps {
						if step.Page > 100 {
							t.Errorf("it would %v", step)
						}
					}
				}
			}
			return fault.Pass
		}), erase.Config{})
		check(t, err)
		verified(t, store)
		if got := len(visible(t, store)); got != 9 {
			t.Errorf("the feed has %d entities", got)
		}
	}
}

// TestCopyLost: nothing is replaced if a copy is missing.
func TestCopyLost(t *testing.T) {
	store, f := beginning(t, 20)
	check(t, f.Close())
	w, floors, lost := &watcher{store: store}, 0, false
	w.look(t, "before")
	_, err := eraseKeys(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.Verb.Writes() && op.Key == layout.FeedFloor(testFeed) {
			floors++
		}
		if op.Verb == fault.List && floors == 1 && !lost { // the erasure is about to check the copies
			lost = true
			for entry, err := range store.List(t.Context(), layout.FeedPages(testFeed), layout.FeedPage(testFeed, 1000)) {
				check(t, err)
				check(t, store.Delete(t.Context(), entry.Key))
				break
			}
		}
		return fault.Pass
	}), erase.Config{})
	if !lost || !errors.Is(err, chain.ErrCorrupt) {
		t.Errorf("a copy was lost: %v; error %v, want ErrCorrupt", lost, err)
	}
	complete(t, w, "a copy was lost")
}

// TestTwo: of two erasures at the same time, the one that began later completes.
func TestTwo(t *testing.T) {
	for at, more := 1, true; more; at++ {
		more = false
		store, f := beginning(t, 8)
		check(t, f.Close())
		w := &watcher{store: store}
		when := fmt.Sprintf("second erasure at operation %d", at)
		_, err := eraseKeys(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
			if op.N == at {
				more = true
				complete(t, w, when)
			}
			return fault.Pass
		}), erase.Config{})
		if err != nil && !errors.Is(err, chain.ErrOvertaken) && !errors.Is(err, chain.ErrOutgrown) && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, chain.ErrPruned) {
			t.Errorf("%s: %v", when, err)
		}
		complete(t, w, when)
	}
}

// TestSlow: an erasure that is suspended while it makes producers wait finds that they have continued, and
// copies what they have added.
func TestSlow(t *testing.T) {
	for _, first := range []int{5, 6} {
		synctest.Test(t, func(t *testing.T) {
			store, f := beginning(t, first)
			defer f.Close()
			w := &watcher{store: store}
			floors := 0
			added := others(100, 106)
			_, err := eraseKeys(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
				if op.Verb.Writes() && op.Key == layout.FeedFloor(testFeed) {
					if floors++; floors == 3 { // the erasure is about to commit
						for _, e := range added {
							_, err := f.Publish(t.Context(), e)
							check(t, err)
							w.look(t, "suspended")
						}
					}
				}
				return fault.Pass
			}), erase.Config{})
			check(t, err)
			if floors < 5 {
				t.Errorf("the erasure wrote the floor %d times", floors)
			}
			complete(t, w, "suspended", added...)
		})
	}
}

// TestKeyPointer erases from a feed whose keys are in the bodies.
func TestKeyPointer(t *testing.T) {
	store := memory.New()
	person := func(n int, id string) *feed.Entity {
		return &feed.Entity{ContentID: fmt.Sprintf("<%d@test>", n), Operation: feed.Put, ContentType: "application/json", Body: fmt.Appendf(nil, `{"id":%q,"n":%d}`, id, n)}
	}
	check(t, publish(t.Context(), store, person(1, "a/b"), person(2, "c"), person(3, "a/b"), person(4, "c")))
	report, err := eraseKeys(t.Context(), store, erase.Config{Keys: []string{"a/b"}, KeyPointer: "/id"})
	if err != nil || report.Entities != 2 || report.Deletes != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	var got []string
	for _, e := range read(t, store, consumer.Beginning()) {
		got = append(got, string(e.Operation)+" "+e.ContentLocation+string(e.Body))
	}
	if want := `DELETE a%2Fb,PUT {"id":"c","n":2},DELETE a%2Fb,PUT {"id":"c","n":4},DELETE a%2Fb`; strings.Join(got, ",") != want {
		t.Errorf("the feed has %v, want %s", got, want)
	}
	if _, err := eraseKeys(t.Context(), store, erase.Config{Keys: []string{"c"}, KeyPointer: "/name"}); err == nil {
		t.Error("bodies without a key are accepted")
	}
}

// TestFormer: pages that a repair moved aside, and quarantine entries of a bridge that contain the key, are
// deleted.
func TestFormer(t *testing.T) {
	store := memory.New()
	check(t, publish(t.Context(), store, entity(1, ann, feed.Put), entity(2, "bob", feed.Put)))
	other := layout.FeedQuarantine(testFeed) + "c"
	for key, body := range map[string]string{
		layout.FeedAsidePage(testFeed, 2, "x"): secret,
		layout.FeedQuarantine(testFeed) + "a":  `{"id":"` + ann + `","reason":"` + secret + `"}`,
		layout.FeedQuarantine(testFeed) + "b":  `{"reason":"` + secret + `","row":"YW5uQGV4YW1wbGUub3Jn"}`,
		other:                                  `{"id":"bob"}`,
		layout.DigestRoot(testFeed, "20260102T030405.678Z-c5xnp2qa"): secret,
		layout.DigestNode(testFeed, strings.Repeat("0", 64)):         secret,
	} {
		_, err := store.Create(t.Context(), key, storage.Meta{}, storage.Bytes([]byte(body)))
		check(t, err)
	}
	testErase(t, store)
	if _, err := store.Stat(t.Context(), other); err != nil {
		t.Error(err)
	}
}

// TestDeletedMeanwhile: a feed that is deleted during an erasure stays deleted, whatever the erasure
// still writes.
func TestDeletedMeanwhile(t *testing.T) {
	for at, more := 1, true; more; at++ {
		more = false
		store, f := beginning(t, 8)
		check(t, f.Close())
		_, err := eraseKeys(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
			if op.N == at {
				more = true
				_, err := producer.Delete(t.Context(), store, testFeed, false)
				check(t, err)
				check(t, publish(t.Context(), store, others(100, 104)...))
			}
			return fault.Pass
		}), erase.Config{})
		if !more {
			check(t, err)
			continue
		}
		if got := visible(t, store); len(got) < 5 || !slices.Equal(got[:5], []string{"<100@test>", "<101@test>", "<102@test>", "<103@test>", "<104@test>"}) {
			t.Errorf("deleted at operation %d (%v): the new feed has %v", at, err, got)
		}
		if got := apply(nil, read(t, store, consumer.Beginning())...); !maps.Equal(got, map[string]string{"cem": "body 104 of cem"}) {
			t.Errorf("deleted at operation %d (%v): the new feed has the state %v", at, err, got)
		}
		verified(t, store)
	}
}
