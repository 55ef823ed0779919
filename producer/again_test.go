package producer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestDuplicates publishes an entity with the same Content-ID twice at the same time. Neither call may
// return before the entity has been written.
func TestDuplicates(t *testing.T) {
	for _, full := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			base := &refusing{Store: memory.New()}
			s := &scheduler{base: base}
			f, err := producer.Open(t.Context(), &writer{scheduler: s, name: "w"}, testFeed, producer.Config{MaxPageEntities: 1})
			if err != nil {
				t.Fatal(err)
			}
			type result struct {
				receipt producer.Receipt
				err     error
			}
			results := make(chan result, 3)
			publish := func(id string) {
				go func() {
					receipt, err := f.Publish(t.Context(), entities([]string{id})...)
					results <- result{receipt, err}
				}()
				synctest.Wait()
			}
			publish("<a@test>") // being committed when the duplicates are published
			publish("<b@test>")
			publish("<b@test>")
			for len(results) < 3 {
				synctest.Wait()
				for _, op := range s.waiting() {
					if base.err = nil; full && strings.HasSuffix(op.name, layout.FeedPage(testFeed, 2)) {
						base.err = storage.ErrFull
					}
					s.land(op)
				}
			}
			published, refused := 0, 0
			for range 3 {
				r := <-results
				if errors.Is(r.err, storage.ErrFull) {
					refused++
				} else if r.err != nil {
					t.Errorf("full=%v: %+v, %v", full, r.receipt, r.err)
				}
				published += r.receipt.Published
			}
			if want := map[bool][2]int{false: {2, 0}, true: {1, 2}}[full]; published != want[0] || refused != want[1] {
				t.Errorf("full=%v: %d published, %d refused", full, published, refused)
			}
			f.Abort() // the store does not respond any more
		})
	}
}

// TestStaleCheckpoint: a suspended producer resumes and publishes what another producer has published
// in the meantime. Half of it was published too long ago for the entities to be recognized as
// duplicates.
func TestStaleCheckpoint(t *testing.T) {
	store := memory.New()
	config := producer.Config{MaxPageEntities: 3}
	asleep, awake := open(t, store, config), open(t, store, config)
	batch := producer.Batch{Entities: entities(ids(1, 99)), Checkpoint: []byte("all")}
	if _, err := awake.PublishBatch(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for n := 5; n <= 50; n += 15 {
		some := producer.Batch{Entities: entities(ids(1, n)), Checkpoint: fmt.Append(nil, n)}
		if _, err := asleep.PublishBatch(t.Context(), some); !errors.Is(err, producer.ErrCheckpoint) {
			t.Errorf("batch of %d without a previous checkpoint: %v", n, err)
		}
	}
	if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 99)) {
		t.Errorf("the feed has %v", got)
	}
}

// TestCheckpointOfDuplicates: a producer was killed after it had written part of its batch, but before
// it wrote the checkpoint, and another producer continues.
func TestCheckpointOfDuplicates(t *testing.T) {
	for _, open3 := range []int{11, 12} { // the last page is either open or closed
		store := memory.New()
		mustPublish(t, store, ids(1, open3))
		f := open(t, store, producer.Config{MaxPageEntities: 3})
		checkpoint := ""
		for _, to := range []int{5, 10, 14, 15} {
			next := fmt.Sprint("c", to)
			b := producer.Batch{Entities: entities(ids(max(1, to-5), to)), Previous: []byte(checkpoint), Checkpoint: []byte(next)}
			slices.Reverse(b.Entities[:1])
			if _, err := f.PublishBatch(t.Context(), b); err != nil {
				t.Fatalf("batch up to %d: %v", to, err)
			}
			checkpoint = next
		}
		if got, err := f.Checkpoint(t.Context()); err != nil || string(got) != "c15" {
			t.Errorf("checkpoint %q, %v", got, err)
		}
		// The batch has a new entity followed by an old one.
		b := producer.Batch{Entities: entities([]string{"<16@test>", "<15@test>"}), Previous: []byte("c15"), Checkpoint: []byte("c16")}
		if _, err := f.PublishBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Checkpoint(t.Context()); err != nil || string(got) != "c16" {
			t.Errorf("checkpoint %q, %v", got, err)
		}
		if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 16)) {
			t.Errorf("the feed has %v", got)
		}
	}
}

// TestRefusedAndBack: two producers take turns writing. A producer whose batch was refused can
// continue from what the other has written since.
func TestRefusedAndBack(t *testing.T) {
	store := memory.New()
	a, b := open(t, store, producer.Config{}), open(t, store, producer.Config{})
	publish := func(f *producer.Feed, n int, previous string, want error) {
		t.Helper()
		_, err := f.PublishBatch(t.Context(), producer.Batch{Entities: entities(ids(n, n)), Previous: []byte(previous), Checkpoint: fmt.Append(nil, n)})
		if !errors.Is(err, want) {
			t.Fatalf("publish %d after checkpoint %q: %v, want %v", n, previous, err, want)
		}
	}
	publish(a, 1, "", nil)
	publish(b, 2, "1", nil)
	publish(a, 3, "1", producer.ErrCheckpoint) // now it knows 2
	publish(b, 4, "2", nil)
	publish(a, 3, "4", nil)
	publish(b, 5, "2", producer.ErrCheckpoint)
	publish(b, 5, "3", nil)
	if got, want := visibleIDs(t, store), []string{"<1@test>", "<2@test>", "<4@test>", "<3@test>", "<5@test>"}; !slices.Equal(got, want) {
		t.Errorf("the feed has %v, want %v", got, want)
	}
}

// TestDuplicatesAndBack: the checkpoint of a batch of duplicates waits for the next commit. Until
// then, a publisher that begins again from the stored checkpoint must not be refused.
func TestDuplicatesAndBack(t *testing.T) {
	store := memory.New()
	f := open(t, store, producer.Config{})
	publish := func(n int, previous, checkpoint string) {
		t.Helper()
		if _, err := f.PublishBatch(t.Context(), producer.Batch{Entities: entities(ids(n, n)), Previous: []byte(previous), Checkpoint: []byte(checkpoint)}); err != nil {
			t.Fatal(err)
		}
	}
	publish(1, "", "one")
	mustPublish(t, store, ids(2, 2)) // a different producer writes, without a checkpoint
	publish(2, "one", "two")
	stored, err := f.Checkpoint(t.Context())
	if err != nil || string(stored) != "one" {
		t.Fatalf("checkpoint %q, %v", stored, err)
	}
	publish(3, "one", "three")
	publish(4, "three", "four")
	if stored, err = f.Checkpoint(t.Context()); err != nil || string(stored) != "four" {
		t.Errorf("checkpoint %q, %v", stored, err)
	}
}

// TestCheckpointLostInTheMiddle: another producer writes between the two pages of a batch. Half of the
// batch is in the feed, so the error must not say that nothing was published.
func TestCheckpointLostInTheMiddle(t *testing.T) {
	store := memory.New()
	other := open(t, store, producer.Config{MaxPageEntities: 3})
	var once atomic.Bool
	torn := fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.Verb != fault.Create || op.Key != layout.FeedPage(testFeed, 2) || !once.CompareAndSwap(false, true) {
			return fault.Pass
		}
		for { // wait until the first page, which is being written concurrently, is in the store
			if _, err := store.Stat(context.Background(), layout.FeedPage(testFeed, 1)); err == nil {
				break
			}
			runtime.Gosched()
		}
		b := producer.Batch{Entities: entities(ids(101, 101)), Checkpoint: []byte("other")}
		if _, err := other.PublishBatch(context.Background(), b); err != nil {
			t.Error(err)
		}
		return fault.Lost
	})
	f := open(t, torn, producer.Config{MaxPageEntities: 3})
	_, err := f.PublishBatch(t.Context(), producer.Batch{Entities: entities(ids(1, 6)), Checkpoint: []byte("six")})
	if !errors.Is(err, producer.ErrCheckpoint) || !errors.Is(err, producer.ErrUnknown) {
		t.Errorf("batch interrupted by another producer: %v", err)
	}
	if got, want := visibleIDs(t, store), append(ids(1, 3), "<101@test>"); !slices.Equal(got, want) {
		t.Errorf("the feed has %v", got)
	}
}

// TestLargeBatchAgain publishes batches twice. Each of them fills more pages than the size of its
// bodies suggests.
func TestLargeBatchAgain(t *testing.T) {
	batches := map[string]func() []*feed.Entity{
		"streams": func() []*feed.Entity {
			es := entities(ids(1, 60))
			for _, e := range es {
				e.Stream, e.Size, e.Body = strings.NewReader(string(e.Body)), -1, nil
			}
			return es
		},
		"headers": func() []*feed.Entity {
			es := entities(ids(1, 200))
			for _, e := range es {
				e.Header = []feed.Field{{Name: "X-Long", Value: strings.Repeat("x", 8000)}}
			}
			return es
		},
	}
	for name, batch := range batches {
		store := memory.New()
		f := open(t, store, producer.Config{SpoolDir: t.TempDir(), MaxPageBytes: 40_000})
		if _, err := f.Publish(t.Context(), batch()...); err != nil {
			t.Fatal(err)
		}
		want := visibleIDs(t, store)
		r, err := f.Publish(t.Context(), batch()...)
		if err != nil || r.Published != 0 || r.Duplicates != len(want) {
			t.Errorf("%s again: %+v, %v", name, r, err)
		}
	}
}

// TestWindowIsRead publishes an entity with a Content-ID after one without a Content-ID. Only the
// deduplication window of the long feed may be read.
func TestWindowIsRead(t *testing.T) {
	store := memory.New()
	mustPublish(t, store, ids(1, 900))
	var reads atomic.Int64
	counted := fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.Verb == fault.Get {
			reads.Add(1)
		}
		return fault.Pass
	})
	f := open(t, counted, producer.Config{MaxPageEntities: 3})
	for _, id := range []string{"", "<901@test>"} {
		if _, err := f.Publish(t.Context(), entities([]string{id})...); err != nil {
			t.Fatal(err)
		}
	}
	if n := reads.Load(); n > 16+chain.Ahead {
		t.Errorf("%d pages were read", n)
	}
}

// A getting is a store that counts how often pages are read.
type getting struct {
	storage.Store
	pages atomic.Int64
}

func (g *getting) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if strings.Contains(key, "/pages/") {
		g.pages.Add(1)
	}
	return g.Store.Get(ctx, key, offset, length)
}

// A producer that was idle does not read everything that another producer has written meanwhile.
func TestIdle(t *testing.T) {
	store := &getting{Store: memory.New()}
	config := producer.Config{MaxPageEntities: 1}
	idle, err := producer.Open(t.Context(), store, testFeed, config)
	if err != nil {
		t.Fatal(err)
	}
	busy, err := producer.Open(t.Context(), store.Store, testFeed, config)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(f *producer.Feed, id string, duplicate bool) {
		t.Helper()
		receipt, err := f.Publish(t.Context(), entities([]string{id})...)
		if err != nil || (receipt.Duplicates == 1) != duplicate {
			t.Fatalf("publish %s: %+v, %v", id, receipt, err)
		}
	}
	publish(idle, "<first@test>", false)
	for n := range 500 {
		publish(busy, fmt.Sprintf("<%d@test>", n), false)
	}
	store.pages.Store(0)
	publish(idle, "<499@test>", true)
	publish(idle, "<490@test>", true)
	publish(idle, "<second@test>", false)
	if n := store.pages.Load(); n > 50 {
		t.Errorf("%d pages were read", n)
	}
	for _, f := range []*producer.Feed{idle, busy} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDuplicatesUnknown publishes an entity with the same Content-ID twice at the same time, to a
// store that does not report the outcome. Both publishers get an error that says that the outcome is
// unknown.
func TestDuplicatesUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &silent{Store: memory.New(), first: make(chan struct{})}
		f, err := producer.Open(t.Context(), store, testFeed, producer.Config{MaxPageEntities: 1})
		if err != nil {
			t.Fatal(err)
		}
		var begun []*producer.Publication
		for _, id := range []string{"<a@test>", "<b@test>", "<b@test>"} {
			p, err := f.Begin(t.Context(), producer.Batch{Entities: entities([]string{id})})
			if err != nil {
				t.Fatal(err)
			}
			begun = append(begun, p)
			synctest.Wait() // the first is being committed when the duplicates are published
		}
		close(store.first)
		for n, p := range begun {
			if _, err := p.Wait(); (n > 0) != errors.Is(err, producer.ErrUnknown) {
				t.Errorf("publication %d: %v", n+1, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A silent is a store that delays the first write of a page, and never responds to later writes.
type silent struct {
	storage.Store
	first  chan struct{}
	writes atomic.Int64
}

func (s *silent) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if key == layout.FeedFloor(testFeed) {
		return s.Store.Create(ctx, key, meta, body)
	}
	if s.writes.Add(1) > 1 {
		<-ctx.Done()
		return "", ctx.Err()
	}
	<-s.first
	return s.Store.Create(ctx, key, meta, body)
}
