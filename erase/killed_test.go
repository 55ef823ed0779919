package erase_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/erase"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

var around = flag.Int("around", 200, "how many schedules TestAround tries")

// visible returns the Content-IDs of a feed as a new reader sees it.
func visible(t *testing.T, store storage.Store) (ids []string) {
	t.Helper()
	reader := chain.NewReader(store, testFeed)
	last, err := reader.Newest(t.Context())
	check(t, err)
	for n := reader.SeenFloor(); n <= last.Number; n++ {
		for h, err := range reader.Headers(t.Context(), n) {
			check(t, err)
			ids = append(ids, string(h.Get("Content-ID")))
		}
	}
	return ids
}

// A watcher checks that entities that were once visible stay visible, in the same order.
type watcher struct {
	store storage.Store
	mu    sync.Mutex
	seen  []string
}

func (w *watcher) look(t *testing.T, when string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := visible(t, w.store)
	if len(now) < len(w.seen) || !slices.Equal(now[:len(w.seen)], w.seen) {
		t.Errorf("%s: the feed had %v, has %v", when, w.seen, now)
	}
	w.seen = now
}

// beginning returns a store with a feed of the given number of entities, and the producer that has written
// them.
func beginning(t *testing.T, entities int) (storage.Store, *producer.Feed) {
	t.Helper()
	store := memory.New()
	f, err := producer.Open(t.Context(), store, testFeed, producer.Config{MaxPageEntities: 3})
	check(t, err)
	for n := range entities {
		key := []string{"bob", ann}[n%2]
		_, err := f.Publish(t.Context(), entity(n, key, feed.Put))
		check(t, err)
	}
	return store, f
}

// others returns entities of another key.
func others(from, to int) (all []*feed.Entity) {
	for n := from; n <= to; n++ {
		all = append(all, entity(n, "cem", feed.Put))
	}
	return all
}

// complete runs an erasure to its end, and checks that each acknowledged entity is in the feed exactly once.
func complete(t *testing.T, w *watcher, when string, acknowledged ...*feed.Entity) {
	t.Helper()
	if _, err := eraseKeys(t.Context(), w.store, erase.Config{}); err != nil {
		t.Fatalf("%s: complete: %v", when, err)
	}
	w.look(t, when+", completed")
	for _, e := range acknowledged {
		if n := len(slices.DeleteFunc(slices.Clone(w.seen), func(id string) bool { return id != e.ContentID })); n != 1 {
			t.Errorf("%s: %s was acknowledged, and is %d times in the feed: %v", when, e.ContentID, n, w.seen)
		}
	}
	if got := traces(t, w.store, secret); got != nil {
		t.Errorf("%s: the secret is left in %v", when, got)
	}
	verified(t, w.store)
}

// TestKilled kills an erasure at each of its operations, or with -short at every fifth, starting at a random
// one. Producers that were opened before or are opened afterwards can publish, and another erasure completes
// the first one.
func TestKilled(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 5
	}
	for _, outcome := range []fault.Outcome{fault.Lost, fault.Landed} {
		for _, first := range []int{5, 6} { // with 5 entities, the newest page is open; with 6, it is closed
			for at, killed := 1+rand.IntN(step), true; killed; at += step {
				synctest.Test(t, func(t *testing.T) { killed = eraseKilled(t, outcome, first, at) })
			}
		}
	}
}

func eraseKilled(t *testing.T, outcome fault.Outcome, first, at int) (killed bool) {
	store, f := beginning(t, first)
	defer f.Close()
	w := &watcher{store: store}
	when := fmt.Sprintf("%d entities, killed at %d (%v)", first, at, outcome)
	var dead atomic.Bool
	_, err := eraseKeys(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.Verb.Writes() {
			w.look(t, fmt.Sprint(when, " before ", op))
		}
		switch {
		case op.N < at:
			return fault.Pass
		case dead.Swap(true):
			return fault.Lost
		}
		return outcome
	}), erase.Config{})
	if killed = dead.Load(); killed != (err != nil) {
		t.Fatalf("%s: %v", when, err)
	}
	w.look(t, when)
	more := others(100, 107)
	for _, e := range more[:4] { // more entities than fit on the open page
		if _, err := f.Publish(t.Context(), e); err != nil {
			t.Fatalf("%s: publish: %v", when, err)
		}
		w.look(t, when)
	}
	if err := publish(t.Context(), store, more[4:]...); err != nil {
		t.Fatalf("%s: publish: %v", when, err)
	}
	w.look(t, when)
	verified(t, store)
	complete(t, w, when, more...)
	return killed
}

// A moment is a point in an erasure just before one of its operations: how often a write of the floor has
// begun, and how many operations have begun since.
type moment struct{ floors, more int }

// A tracker keeps track of the moment that an erasure has reached, and lets it perform one operation at a time.
type tracker struct {
	now moment
	one chan struct{} // a lock; synctest.Wait would not return while a goroutine waits for a mutex
}

// before calls do with the moment before an operation, and then advances to the next moment.
func (k *tracker) before(op fault.Op, do func(now moment)) fault.Outcome {
	k.one <- struct{}{}
	defer func() { <-k.one }()
	do(k.now)
	if op.Verb.Writes() && op.Key == layout.FeedFloor(testFeed) {
		k.now = moment{floors: k.now.floors + 1}
	} else {
		k.now.more++
	}
	return fault.Pass
}

// TestAround lets a publisher write during an erasure, and pauses the publisher's next write until a later
// moment of the erasure, mostly one at which producers have to wait, or one just after the commit of the
// erasure. With -short it tries every fifth schedule, starting at a random one.
func TestAround(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 5
	}
	met := 0 // how many schedules ran as intended
	for n := rand.IntN(step); n < *around; n += step {
		random := rand.New(rand.NewPCG(3, uint64(n)))
		at := moment{1 + random.IntN(2), random.IntN(16)} // after the erasure has begun, or while producers wait
		until := moment{at.floors + random.IntN(4-at.floors), random.IntN(16)}
		if until.floors == at.floors {
			until.more += at.more + 1
		}
		first, stop := 5+n%2, 1+random.IntN(4)
		synctest.Test(t, func(t *testing.T) {
			if eraseAround(t, first, at, until, stop) {
				met++
			}
		})
	}
	if tried := *around / step; met < tried/10 {
		t.Errorf("only %d of %d schedules ran as intended", met, tried)
	}
}

func eraseAround(t *testing.T, first int, at, until moment, stop int) bool {
	store := memory.New()
	resume := make(chan struct{})
	var counting atomic.Bool    // whether the publisher has begun the write that is to be paused
	var operations atomic.Int64 // of that write
	f, err := producer.Open(t.Context(), fault.Wrap(store, func(fault.Op) fault.Outcome {
		if counting.Load() && operations.Add(1) == int64(stop) {
			<-resume
		}
		return fault.Pass
	}), testFeed, producer.Config{MaxPageEntities: 3})
	check(t, err)
	defer f.Close()
	for n := range first {
		_, err := f.Publish(t.Context(), entity(n, []string{"bob", ann}[n%2], feed.Put))
		check(t, err)
	}
	w := &watcher{store: store}
	when := fmt.Sprintf("%d entities, publisher at %v and %v, paused at operation %d", first, at, until, stop)
	early, late := others(100, 102), others(200, 204)
	published := make(chan error, 2)
	start := func(entities []*feed.Entity) {
		go func() {
			_, err := f.Publish(t.Context(), entities...)
			published <- err
		}()
		synctest.Wait() // until the publisher has finished, is paused, or waits
	}
	begun, resumed, stopped := false, false, false
	k := &tracker{one: make(chan struct{}, 1)}
	_, err = eraseKeys(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
		return k.before(op, func(now moment) {
			switch {
			case !begun && now == at:
				begun = true
				counting.Store(now.floors > 1) // after the second write of the floor, publishers have to wait
				start(early)
				counting.Store(true)
				start(late)
				stopped = operations.Load() >= int64(stop)
				counting.Store(stopped)
			case begun && !resumed && now == until:
				resumed = true
				close(resume)
				synctest.Wait()
			}
			if op.Verb.Writes() {
				w.look(t, fmt.Sprint(when, " before ", op))
			}
		})
	}), erase.Config{})
	check(t, err)
	if !resumed {
		close(resume)
	}
	if !begun {
		return false // the erasure ended before the moment at
	}
	if err := errors.Join(<-published, <-published); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	w.look(t, when)
	complete(t, w, when, slices.Concat(early, late)...)
	return resumed && stopped
}
