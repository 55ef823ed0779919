package replica_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/replica"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func entity(n int) *producer.Entity {
	return &producer.Entity{
		Operation: feed.Put, ContentID: fmt.Sprintf("<%d@test>", n), ContentType: "text/plain",
		Body: bytes.Repeat([]byte{'x'}, n%50),
	}
}

// publish publishes the entities numbered first to last, three per page.
func publish(ctx context.Context, store storage.Store, name string, first, last int) error {
	f, err := producer.Open(ctx, store, name, producer.Config{MaxPageEntities: 3})
	if err != nil {
		return err
	}
	for n := first; n <= last && err == nil; n++ {
		_, err = f.Publish(ctx, entity(n))
	}
	return errors.Join(err, f.Close())
}

// source returns a store with a feed whose first two pages are pruned and whose last page
// is open, a feed with a single page, and a snapshot.
func source(t *testing.T) *memory.Store {
	t.Helper()
	store := memory.New()
	check(t, publish(t.Context(), store, "a", 1, 17))
	check(t, publish(t.Context(), store, "b", 1, 1))
	_, err := chain.RaiseFloor(t.Context(), store, "a", 3)
	check(t, err)
	for n := int64(1); n < 3; n++ {
		check(t, store.Delete(t.Context(), layout.FeedPage("a", n)))
	}
	var entities iter.Seq2[*producer.Entity, error] = func(yield func(*producer.Entity, error) bool) {
		for n := range 10 {
			if !yield(entity(n), nil) {
				return
			}
		}
	}
	_, err = snapshots.Write(t.Context(), store, "a", entities, snapshots.Config{MaxPageBytes: 500})
	check(t, err)
	writeDigest(t, store, 1)
	return store
}

// objects returns the metadata and bodies of all objects except lists of turns, which belong to the producers
// of one store and are not copied.
func objects(t *testing.T, store storage.Store) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for entry, err := range store.List(t.Context(), "", "") {
		check(t, err)
		if strings.HasSuffix(entry.Key, "/turns") {
			continue
		}
		o, err := store.Get(t.Context(), entry.Key, 0, -1)
		check(t, err)
		data, err := io.ReadAll(o.Body)
		check(t, err)
		all[entry.Key] = fmt.Sprintf("%s %s %s %s", o.Meta.ContentType, o.Meta.CacheControl, o.Meta.Data, data)
	}
	return all
}

func equal(t *testing.T, from, to storage.Store) {
	t.Helper()
	want, got := objects(t, from), objects(t, to)
	for key := range want {
		if want[key] != got[key] {
			t.Fatalf("%s differs:\n%q\n%q", key, want[key], got[key])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("target has %d objects, source %d", len(got), len(want))
	}
}

func TestCopy(t *testing.T) {
	from, to := source(t), memory.New()
	check(t, replica.New(from, to, replica.Config{}).Run(t.Context()))
	equal(t, from, to)
	// The source grows and is pruned.
	check(t, publish(t.Context(), from, "a", 18, 26))
	_, err := chain.RaiseFloor(t.Context(), from, "a", 5)
	check(t, err)
	for n := int64(3); n < 5; n++ {
		check(t, from.Delete(t.Context(), layout.FeedPage("a", n)))
	}
	c := replica.New(from, to, replica.Config{})
	check(t, c.Run(t.Context()))
	equal(t, from, to)
	if got := c.Report().Pages; got.Entities != 9 || got.Pages != 3 {
		t.Errorf("copied %+v, want 9 entities, 3 pages", got)
	}
	// The copy can be published to.
	check(t, publish(t.Context(), to, "a", 27, 30))
	if err := replica.New(from, to, replica.Config{}).Run(t.Context()); !errors.Is(err, replica.ErrDiverged) {
		t.Errorf("copy to a target that was published to: %v", err)
	}
	one := memory.New()
	check(t, replica.New(from, one, replica.Config{Name: "b"}).Run(t.Context()))
	if len(objects(t, one)) != 2 { // the page and the floor, which has the feed's identity
		t.Errorf("copied %v", maps.Keys(objects(t, one)))
	}
	if err := replica.New(from, one, replica.Config{Name: "none"}).Run(t.Context()); !errors.Is(err, chain.ErrNoFeed) {
		t.Errorf("copy of a missing feed: %v", err)
	}
}

// TestDiverged copies to targets that are not the beginning of the source, and must not
// change them.
func TestDiverged(t *testing.T) {
	for name, last := range map[string]int{"shorter": 2, "open": 16, "closed": 18, "longer": 40} {
		from, to := source(t), memory.New()
		check(t, publish(t.Context(), to, "a", 1, last))
		before := objects(t, to)
		err := replica.NewFeed(from, to, "a").Sync(t.Context())
		if !errors.Is(err, replica.ErrDiverged) && !errors.Is(err, chain.ErrPruned) {
			t.Errorf("%s: %v", name, err)
		}
		if after := objects(t, to); !maps.Equal(before, after) {
			t.Errorf("%s: the target has changed", name)
		}
	}
}

// TestPrunedAway: a target cannot continue if the source has pruned the next page.
func TestPrunedAway(t *testing.T) {
	from, to := source(t), memory.New()
	check(t, replica.NewFeed(from, to, "a").Sync(t.Context()))
	check(t, publish(t.Context(), from, "a", 18, 40))
	_, err := chain.RaiseFloor(t.Context(), from, "a", 10)
	check(t, err)
	for n := int64(3); n < 10; n++ {
		check(t, from.Delete(t.Context(), layout.FeedPage("a", n)))
	}
	if err := replica.NewFeed(from, to, "a").Sync(t.Context()); !errors.Is(err, chain.ErrPruned) {
		t.Errorf("error is %v, want %v", err, chain.ErrPruned)
	}
}

// TestDamage: a body that does not match its digest is not copied.
func TestDamage(t *testing.T) {
	from, to := source(t), memory.New()
	o, err := from.Get(t.Context(), layout.FeedPage("a", 4), 0, -1)
	check(t, err)
	data, err := io.ReadAll(o.Body)
	check(t, err)
	data[len(data)-40] ^= 1
	_, err = from.Replace(t.Context(), o.Key, o.Version, o.Meta, storage.Bytes(data))
	check(t, err)
	if err := replica.NewFeed(from, to, "a").Sync(t.Context()); !errors.Is(err, chain.ErrCorrupt) {
		t.Errorf("error is %v, want %v", err, chain.ErrCorrupt)
	}
	if p, err := chain.NewReader(to, "a").Newest(t.Context()); err != nil || p.Number != 3 {
		t.Errorf("target ends with %+v, %v", p, err)
	}
}

// steps returns 1, or the given number with -short.
func steps(short int64) int64 {
	if testing.Short() {
		return short
	}
	return 1
}

// TestKilled ends a copy at each operation on either store, before or after the operation is
// performed. Each time the target must be the beginning of the source, and the next copy must
// complete it. With -short it does so at every tenth operation, beginning with a random one.
func TestKilled(t *testing.T) {
	step := steps(10)
	for _, last := range []fault.Outcome{fault.Lost, fault.Landed} {
		for kill, reached := 1+rand.Int64N(step), true; reached; kill += step {
			from, to := source(t), memory.New()
			check(t, replica.NewFeed(from, to, "a").Sync(t.Context())) // so that the operations include appends
			check(t, publish(t.Context(), from, "a", 18, 20))
			_, err := chain.RaiseFloor(t.Context(), from, "a", 4)
			check(t, err)
			check(t, from.Delete(t.Context(), layout.FeedPage("a", 3)))
			check(t, publish(t.Context(), from, "c", 1, 4))
			var n atomic.Int64
			decide := func(fault.Op) fault.Outcome {
				switch at := n.Add(1); {
				case at < kill:
					return fault.Pass
				case at == kill:
					return last
				}
				return fault.Lost
			}
			err = replica.New(fault.Wrap(from, decide), fault.Wrap(to, decide), replica.Config{}).Run(t.Context())
			reached = n.Load() >= kill
			switch {
			case err == nil:
				equal(t, from, to) // the outcome of the operation did not matter
			case !reached:
				t.Fatal(err)
			}
			for _, name := range []string{"a", "b", "c"} {
				if _, err := chain.NewReader(to, name).Newest(t.Context()); err != nil && !errors.Is(err, chain.ErrNoFeed) {
					t.Fatalf("killed at %d: feed %s: %v", kill, name, err)
				}
			}
			for key, got := range objects(t, to) {
				want := objects(t, from)[key]
				if strings.HasPrefix(key, layout.SnapshotsPrefix) && got != want {
					t.Fatalf("killed at %d: %s differs", kill, key)
				}
			}
			check(t, replica.New(from, to, replica.Config{}).Run(t.Context()))
			equal(t, from, to)
		}
	}
}

// TestKilledEarly ends a copy to an empty store, in which the floor is written before the
// first page. With -short it does so at every fifth operation.
func TestKilledEarly(t *testing.T) {
	step := steps(5)
	for kill := 1 + rand.Int64N(step); kill < 40; kill += step {
		from, to := source(t), memory.New()
		var n atomic.Int64
		decide := func(fault.Op) fault.Outcome {
			if n.Add(1) < kill {
				return fault.Pass
			}
			return fault.Lost
		}
		_ = replica.New(fault.Wrap(from, decide), fault.Wrap(to, decide), replica.Config{}).Run(t.Context())
		check(t, replica.New(from, to, replica.Config{}).Run(t.Context()))
		equal(t, from, to)
	}
}

// TestFollow copies a feed while several producers publish to it, until the copy is equal.
func TestFollow(t *testing.T) {
	from, to := source(t), memory.New()
	ctx, stop := context.WithCancel(t.Context())
	copied := make(chan error, 1)
	progress := make(chan struct{}, 1)
	c := replica.New(from, to, replica.Config{Follow: true, Progress: func(replica.Report) {
		if p, err := chain.NewReader(to, "a").Newest(t.Context()); err != nil && !errors.Is(err, chain.ErrNoFeed) && !errors.Is(err, chain.ErrCorrupt) {
			t.Errorf("target: %+v, %v", p, err)
		}
		select {
		case progress <- struct{}{}:
		default:
		}
	}})
	go func() { copied <- c.Run(ctx) }()
	published := make(chan error)
	for p := range 4 {
		go func() { published <- publish(t.Context(), from, "a", 1000*(p+1), 1000*(p+1)+50) }()
	}
	for range 4 {
		check(t, <-published)
	}
	<-progress
	stop()
	check(t, <-copied)
	equal(t, from, to)
}
