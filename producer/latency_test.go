package producer_test

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// roundTrip is how long an operation on a distant store takes.
const roundTrip = 50 * time.Millisecond

// distant is a remote store: each operation takes one round trip, and any number of operations may be
// in flight. It counts the operations.
type distant struct {
	storage.Store
	writes, reads, lists atomic.Int64
	inFlight, most       atomic.Int64
}

func (d *distant) travel(count *atomic.Int64) {
	count.Add(1)
	n := d.inFlight.Add(1)
	for m := d.most.Load(); n > m && !d.most.CompareAndSwap(m, n); m = d.most.Load() {
	}
	time.Sleep(roundTrip)
	d.inFlight.Add(-1)
}

func (d *distant) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	d.travel(&d.writes)
	return d.Store.Create(ctx, key, meta, body)
}

func (d *distant) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	d.travel(&d.writes)
	return d.Store.Append(ctx, key, at, meta, tail)
}

func (d *distant) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	d.travel(&d.writes)
	return d.Store.Replace(ctx, key, at, meta, body)
}

func (d *distant) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	d.travel(&d.reads)
	return d.Store.Get(ctx, key, offset, length)
}

func (d *distant) Stat(ctx context.Context, key string) (storage.Info, error) {
	d.travel(&d.reads)
	return d.Store.Stat(ctx, key)
}

func (d *distant) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	d.travel(&d.lists)
	return d.Store.List(ctx, prefix, after)
}

func (d *distant) reset() {
	for _, n := range []*atomic.Int64{&d.writes, &d.reads, &d.lists, &d.most} {
		n.Store(0)
	}
}

// pages returns n batches, each of which fills one page.
func pages(n int) [][]*feed.Entity {
	batches := make([][]*feed.Entity, n)
	for k := range batches {
		batches[k] = entities([]string{"", "", ""})
		for _, e := range batches[k] {
			e.Body = make([]byte, 300)
		}
	}
	return batches
}

// smallPages makes a page hold three of the entities that pages returns.
var smallPages = producer.Config{MaxPageEntities: 3, MaxPageBytes: 1800}

// TestRoundTrips measures the number of round trips for publishing.
func TestRoundTrips(t *testing.T) {
	const many = 256 // pages
	for _, test := range []struct {
		name          string
		publish       func(t *testing.T, f *producer.Feed)
		trips         int // at most
		writes, reads int64
	}{
		{"an entity, on the open page", func(t *testing.T, f *producer.Feed) {
			publishAll(t, f, entities([]string{""}))
		}, 1, 1, 0},
		{"a batch that ends the page and begins another", func(t *testing.T, f *producer.Feed) {
			publishAll(t, f, entities([]string{"", "", ""}))
		}, 2, 2, 1},
		{"a batch of as many pages as may be ahead", func(t *testing.T, f *producer.Feed) {
			publishAll(t, f, join(pages(chain.Ahead)))
		}, 2, chain.Ahead + 1, chain.Ahead},
		// Each 16 pages take one round trip, and reading the floor after the last pages takes another.
		{"one batch of many pages", func(t *testing.T, f *producer.Feed) {
			publishAll(t, f, join(pages(many)))
		}, many/chain.Ahead + 2, many + 1, many},
		{"many publishers", func(t *testing.T, f *producer.Feed) {
			var group sync.WaitGroup
			for _, batch := range pages(many) {
				group.Go(func() { publishAll(t, f, batch) })
			}
			group.Wait()
		}, many/chain.Ahead + 4, many + 2, many},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &distant{Store: memory.New()}
				f := open(t, store, smallPages)
				publishAll(t, f, entities([]string{""})) // makes the newest page an open page
				store.reset()
				start := time.Now()
				test.publish(t, f)
				if took := time.Since(start); took > time.Duration(test.trips)*roundTrip {
					t.Errorf("took %v, want at most %d round trips", took, test.trips)
				}
				if w, r, l := store.writes.Load(), store.reads.Load(), store.lists.Load(); w > test.writes || r > test.reads || l > 0 {
					t.Errorf("%d writes, %d reads, %d lists; want %d, %d and 0", w, r, l, test.writes, test.reads)
				}
				if n := store.most.Load(); n > 2*chain.Ahead+2 {
					t.Errorf("%d concurrent operations", n)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestNewFeed publishes to a feed that does not exist: two round trips show that it does not, one gives
// it an identity, one writes the first page, one writes the other pages, and one reads the floor.
func TestNewFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, &distant{Store: memory.New()}, smallPages)
		start := time.Now()
		publishAll(t, f, join(pages(chain.Ahead)))
		if took := time.Since(start); took > 6*roundTrip {
			t.Errorf("took %v, want at most 6 round trips", took)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestMore: one source publishes batches that end in the middle of a page. Only a few batches may wait
// at a time. Pages must be full, and the store must be kept busy.
func TestMore(t *testing.T) {
	for _, test := range []struct {
		name   string
		config producer.Config
	}{
		{"pages full of entities", producer.Config{MaxPageEntities: 3, MaxPageBytes: 1 << 20}},
		{"pages full of bytes", producer.Config{MaxPageEntities: 100, MaxPageBytes: 1800}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &distant{Store: memory.New()}
				test.config.MaxWaiting = 16 * 600 // in bytes: enough for five pages
				f := open(t, store, test.config)
				publishAll(t, f, join(pages(1))) // fills one page
				store.reset()
				const batches, each = 75, 4
				start := time.Now()
				var last *producer.Publication
				for n := range batches {
					batch := join(pages(2))[:each]
					p, err := f.Begin(t.Context(), producer.Batch{Entities: batch, After: last, More: n+1 < batches})
					if err != nil {
						t.Fatal(err)
					}
					last = p
				}
				if _, err := last.Wait(); err != nil {
					t.Fatal(err)
				}
				// With room for five pages, at least four are in flight at any time, each for two round
				// trips.
				const full = batches * each / 3
				if took, most := time.Since(start), (full/4+2)*2*roundTrip; took > most {
					t.Errorf("took %v, want at most %v", took, most)
				}
				// When all pages in flight are confirmed at once, the rest of a batch may be written
				// before the next batch arrives.
				if w := store.writes.Load(); w > full+full/20 {
					t.Errorf("%d writes for %d pages", w, full)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func join(batches [][]*feed.Entity) (all []*feed.Entity) {
	for _, batch := range batches {
		all = append(all, batch...)
	}
	return all
}

func publishAll(t *testing.T, f *producer.Feed, entities []*feed.Entity) {
	r, err := f.Publish(t.Context(), entities...)
	if err != nil || r.Published != len(entities) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSteadyPublishers: several publishers publish again as soon as they get a response, and the store
// must be kept busy.
func TestSteadyPublishers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &distant{Store: memory.New()}
		f := open(t, store, smallPages)
		const publishers, each = 3 * chain.Ahead, 20
		start := time.Now()
		var group sync.WaitGroup
		for range publishers {
			group.Go(func() {
				for _, batch := range pages(each) {
					publishAll(t, f, batch)
				}
			})
		}
		group.Wait()
		took := time.Since(start)
		if best := publishers * each / chain.Ahead * roundTrip; took > best*3/2 {
			t.Errorf("took %v, the minimum is %v", took, best)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestSinglePublisher checks that a single publisher does not wait for others, however soon it
// publishes again, except for a pause every few seconds in which others could write.
func TestSinglePublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &distant{Store: memory.New()}
		f := open(t, store, producer.Config{MaxPageEntities: 1 << 20, MaxPageBytes: 16 << 20})
		publishAll(t, f, entities([]string{""}))
		const many = 10_000 // on one page
		start := time.Now()
		for range many {
			publishAll(t, f, entities([]string{""}))
		}
		if took := time.Since(start); took > many*roundTrip*103/100 {
			t.Errorf("%d commits took %v, want at most %d round trips plus 3%%", many, took, many)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}
