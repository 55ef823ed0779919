package producer_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

var (
	schedules = flag.Int("schedules", 400, "number of random schedules over the memory store (with -short, an eighth of them); over the file store, a tenth as many")
	firstSeed = flag.Uint64("seed", 1, "seed of the first schedule")
)

// TestSchedules runs several producers on one feed under random schedules with delays, lost responses,
// late writes, kills and pruning. After each step it checks what a reader sees: the feed only grows at
// its end and shrinks at its beginning; no entity changes or is repeated; the feed has everything that
// was acknowledged; a closed page never changes; and every new reader finds the same newest page. In the
// end one page is lost: no later page whose writer knew the lost page may be hidden or replaced.
func TestSchedules(t *testing.T) {
	var seen counts
	count := *schedules
	if testing.Short() {
		count /= 8
	}
	for n := range count {
		seed := *firstSeed + uint64(n)
		t.Run(fmt.Sprintf("memory/%d", seed), func(t *testing.T) { runSchedule(t, seed, memory.New(), &seen) })
		if n%10 == 0 {
			t.Run(fmt.Sprintf("file/%d", seed), func(t *testing.T) {
				store, err := file.New(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				runSchedule(t, seed, store, &seen)
			})
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%+v", seen)
	if count >= 100 && !t.Failed() && slices.Contains([]int{seen.acknowledged, seen.late, seen.deaths, seen.pruned, seen.replaced, seen.retried, seen.lost}, 0) {
		t.Errorf("the schedules did not cover everything: %+v", seen)
	}
}

// counts holds how often each case occurred in the schedules.
type counts struct{ acknowledged, late, deaths, pruned, replaced, retried, lost int }

// A publish is the publication of one batch, which is identified by its Content-IDs.
type publish struct {
	ids   []string
	after *publish // the batch that the writer began before this one
	done  chan error
	since int64 // number of the newest page when this batch was begun
	ended bool
	acked bool
}

// A run is the execution of one schedule.
type run struct {
	*scheduler
	t         *testing.T
	seen      *counts
	store     storage.Store
	log       []string
	writers   []*writer
	publishes []*publish
	history   []string // the entities that have been visible, except those that were pruned
	pruned    map[string]bool
	closed    map[int64]string // page -> digest
	doomed    []string         // keys of pages to be deleted
	large     bool             // whether there was a large batch
}

const testFeed = "test"

func runSchedule(t *testing.T, seed uint64, store storage.Store, seen *counts) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		r := &run{
			scheduler: &scheduler{base: store, rnd: rnd}, t: t, seen: seen, store: store,
			pruned: map[string]bool{}, closed: map[int64]string{},
		}
		defer func() {
			if t.Failed() {
				t.Logf("schedule %d:\n%s", seed, strings.Join(r.log, "\n"))
			}
		}()
		ctx, end := context.WithCancel(t.Context())
		for n := range 2 + rnd.IntN(3) {
			r.spawn(ctx, n, nil)
		}
		for step := 0; step < 1500 && !t.Failed(); step++ {
			synctest.Wait()
			r.collect(ctx)
			if !r.step(ctx) {
				break
			}
		}
		// Operations that are still in flight fail, and all producers end.
		end()
		for _, w := range r.writers {
			r.die(w)
		}
		synctest.Wait()
		if !t.Failed() {
			r.loseOne()
		}
	})
}

// spawn starts writer n, which publishes new batches one after another or, if again is set, publishes
// one batch whose outcome another writer did not learn.
func (r *run) spawn(ctx context.Context, n int, again *publish) {
	w := &writer{scheduler: r.scheduler, name: fmt.Sprintf("w%02d", n), noTurns: n%4 != 0}
	r.writers = append(r.writers, w)
	var batches [][]string
	if again != nil {
		batches = append(batches, again.ids)
	} else {
		batches = r.batches(n)
	}
	first := len(r.publishes)
	since := r.newest()
	for k, ids := range batches {
		p := &publish{ids: ids, done: make(chan error, 1), since: since}
		if k > 0 {
			p.after = r.publishes[first+k-1]
		}
		r.publishes = append(r.publishes, p)
	}
	go publishInOrder(ctx, w, r.publishes[first:len(r.publishes):len(r.publishes)])
}

// batches returns batches with new Content-IDs for writer n.
func (r *run) batches(n int) (batches [][]string) {
	sizes := []int{[]int{1, 1, 2, 5, 14}[r.rnd.IntN(5)]}
	switch k := r.rnd.IntN(20); {
	case k == 0 && !r.large: // only one: more large batches would push other batches out of the window
		r.large, sizes = true, []int{3 * (chain.Ahead + 4)} // fills more pages than may be written ahead
	case k < 5:
		sizes = []int{2, 5, 1, 4}
	}
	next := 0
	for _, size := range sizes {
		var ids []string
		for range size {
			ids = append(ids, fmt.Sprintf("<%d.%d@test>", n, next))
			next++
		}
		batches = append(batches, ids)
	}
	return batches
}

// publishInOrder begins each batch when the scheduler allows it, that is, while earlier batches are
// queued, in flight or in the feed.
func publishInOrder(ctx context.Context, w *writer, publishes []*publish) {
	f, err := producer.Open(ctx, w, testFeed, producer.Config{MaxPageEntities: 3, MaxPageBytes: 900, RetryFor: 20 * time.Second})
	if err == nil {
		context.AfterFunc(ctx, f.Abort)
	}
	var begun []*producer.Publication
	var after *producer.Publication
	for k, p := range publishes {
		if k > 0 {
			_ = w.call("begin", true, func() error { return nil })
		}
		if err == nil {
			after, err = f.Begin(ctx, producer.Batch{Entities: entities(p.ids), After: after, More: k%3 > 0})
		}
		if err == nil {
			begun = append(begun, after)
		}
	}
	for n, p := range publishes {
		if n < len(begun) {
			_, err = begun[n].Wait()
		}
		p.done <- err
	}
}

func entities(ids []string) []*feed.Entity {
	var es []*feed.Entity
	for _, id := range ids {
		es = append(es, &feed.Entity{ContentID: id, Operation: feed.Put, ContentType: "text/plain", Body: []byte("body of " + id)})
	}
	return es
}

// collect records which batches were acknowledged, and makes writers publish some of the batches with an
// unknown outcome again.
func (r *run) collect(ctx context.Context) {
	for _, p := range r.publishes {
		select {
		case err := <-p.done:
			p.ended = true
			if err == nil {
				p.acked = true
				r.seen.acknowledged++
				r.log = append(r.log, fmt.Sprintf("acknowledged %v", p.ids))
				r.check()
			} else if !errors.Is(err, producer.ErrUnknown) && !errors.Is(err, errLost) {
				r.t.Errorf("publish: %v", err)
			} else if len(r.writers) < 12 && (p.after == nil || p.after.acked) && r.newest() < p.since+16 && r.rnd.IntN(2) == 0 {
				r.log = append(r.log, fmt.Sprintf("again %v", p.ids))
				r.seen.retried++
				r.spawn(ctx, len(r.writers), p)
			}
		default:
		}
	}
}

// step takes one random step. It returns false if there is nothing left to do.
func (r *run) step(ctx context.Context) bool {
	var choices []func()
	waiting := r.waiting()
	for _, op := range waiting {
		choices = append(choices, func() { r.landed(op) })
		if !op.answered && r.rnd.Float64() < 0.15 {
			choices = append(choices, func() {
				r.log = append(r.log, fmt.Sprintf("%s %s: no answer", op.writer.name, op.name))
				r.lose(op, r.rnd.Float64() < 0.3)
			})
		}
	}
	busy := slices.ContainsFunc(r.publishes, func(p *publish) bool { return !p.ended })
	if busy && r.rnd.Float64() < 0.03 {
		choices = append(choices, func() {
			w := r.writers[r.rnd.IntN(len(r.writers))]
			r.log = append(r.log, w.name+" dies")
			r.seen.deaths++
			r.die(w)
			if len(r.writers) < 10 {
				r.spawn(ctx, len(r.writers), nil)
			}
		})
	}
	if r.rnd.Float64() < 0.1 {
		choices = append(choices, r.prune)
	}
	if len(r.doomed) > 0 {
		choices = append(choices, r.delete)
	}
	if len(choices) == 0 {
		if busy {
			time.Sleep(time.Second) // a writer waits before it retries
		}
		return busy
	}
	choices[r.rnd.IntN(len(choices))]()
	return true
}

func (r *run) landed(op *operation) {
	late, line := op.answered, r.land(op)
	if op.read {
		return
	}
	r.log = append(r.log, line)
	if strings.HasSuffix(line, "<nil>") {
		if late {
			r.seen.late++
		}
		if strings.Contains(line, "replace") {
			r.seen.replaced++
		}
	}
	r.check()
}

// prune raises the floor, but not above entities that may still be retried.
func (r *run) prune() {
	trying := map[string]bool{}
	for _, p := range r.publishes {
		for _, id := range p.ids {
			trying[id] = trying[id] || !p.ended || !p.acked
		}
	}
	floor, pages := r.chain()
	target := floor
	for n := range r.rnd.IntN(len(pages) + 1) {
		if n+1 >= len(pages) || slices.ContainsFunc(pages[n].ids, func(id string) bool { return trying[id] }) {
			break
		}
		target++
	}
	if target == floor {
		return
	}
	if _, err := chain.RaiseFloor(context.Background(), r.store, testFeed, target); err != nil {
		r.t.Fatal(err)
	}
	for _, p := range pages[:target-floor] {
		for _, id := range p.ids {
			r.pruned[id] = true
		}
		r.doomed = append(r.doomed, layout.FeedPage(testFeed, p.number))
	}
	r.seen.pruned++
	r.log = append(r.log, fmt.Sprintf("floor %d", target))
	r.check()
}

func (r *run) delete() {
	key := r.doomed[0]
	r.doomed = r.doomed[1:]
	if err := r.store.Delete(context.Background(), key); err != nil {
		r.t.Fatal(err)
	}
	r.log = append(r.log, "deleted "+key)
	r.check()
}

// loseOne deletes a page to which later pages refer, and makes a new producer publish.
func (r *run) loseOne() {
	floor, pages := r.chain()
	ctx := context.Background()
	known := int64(0) // the greatest page number that a later page records as linked
	closed := map[int64]string{}
	for _, p := range pages {
		info, err := r.store.Stat(ctx, layout.FeedPage(testFeed, p.number))
		if err != nil {
			r.t.Fatal(err)
		}
		var record struct{ Settled int64 }
		if err := json.Unmarshal(info.Meta.Data, &record); err != nil {
			r.t.Fatal(err)
		}
		known = max(known, min(record.Settled, p.number-1))
		if p.closed {
			closed[p.number] = p.digest
		}
	}
	if known < floor {
		return
	}
	lost := floor + r.rnd.Int64N(known-floor+1)
	r.seen.lost++
	r.log = append(r.log, fmt.Sprintf("page %d is lost", lost))
	if err := r.store.Delete(ctx, layout.FeedPage(testFeed, lost)); err != nil {
		r.t.Fatal(err)
	}
	if newest, err := chain.NewReader(r.store, testFeed).Newest(ctx); err == nil && newest.Number < lost || err != nil && !errors.Is(err, chain.ErrCorrupt) {
		r.t.Errorf("newest page after page %d was lost: %+v, %v", lost, newest, err)
	}
	f, err := producer.Open(ctx, r.store, testFeed, producer.Config{MaxPageEntities: 3, MaxPageBytes: 900})
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = f.Publish(ctx, entities([]string{"<after@test>", "<more@test>", "<again@test>"})...)
	_ = f.Close()
	r.log = append(r.log, fmt.Sprintf("publish: %v", err))
	for n, digest := range closed {
		if n == lost {
			continue
		}
		info, err := r.store.Stat(ctx, layout.FeedPage(testFeed, n))
		if err != nil {
			r.t.Fatal(err)
		}
		if p, err := chain.Decode(testFeed, n, info); err != nil || p.Digest() != digest {
			r.t.Errorf("page %d was replaced after page %d had been lost: %v", n, lost, err)
		}
	}
}
