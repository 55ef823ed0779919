package lintest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/lintest"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// feedLoad returns a load on a new feed, with its readers.
func feedLoad(t *testing.T, seed uint64, handles []storage.Store) (lintest.FeedLoad, []lintest.Reader) {
	t.Helper()
	name := fmt.Sprintf("seed-%d", seed)
	last := handles[len(handles)-1]
	served, err := lintest.NewConsumerReader(last, name)
	if err != nil {
		t.Fatal(err)
	}
	return lintest.FeedLoad{
			Seed: seed, Feed: name, Publishers: 4, Batches: 5,
			Config: producer.Config{MaxPageEntities: 8},
		}, []lintest.Reader{
			&lintest.ChainReader{Store: handles[0], Feed: name, Cold: true},
			&lintest.ChainReader{Store: last, Feed: name},
			served,
		}
}

// TestFeed checks feeds on each driver, with and without faults.
func TestFeed(t *testing.T) {
	for _, d := range drivers() {
		for _, rate := range []float64{0, 0.02} {
			t.Run(fmt.Sprintf("%s/faults=%v", d.name, rate), func(t *testing.T) {
				handles := d.handles(t, 3)
				for _, seed := range seeds(t, d.feeds) {
					chaos := newChaos(seed, rate)
					handles := chaos.wrap(handles)
					load, readers := feedLoad(t, seed, handles)
					load.Settle = chaos.settle
					if err := load.Check(t.Context(), handles, readers); err != nil {
						t.Fatalf("-seed %d: %v", seed, err)
					}
				}
			})
		}
	}
}

// TestFeedDetectsFaults: broken stores, publishers and readers are detected.
func TestFeedDetectsFaults(t *testing.T) {
	sometimes := func(seed uint64) func() bool {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(seed, 3<<32))
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(8) == 0
		}
	}
	for name, corrupt := range map[string]func(now func() bool, l *lintest.FeedLoad, handles []storage.Store, readers []lintest.Reader){
		"acknowledges without publishing": func(now func() bool, l *lintest.FeedLoad, _ []storage.Store, _ []lintest.Reader) {
			l.Publish = func(publish lintest.Publish) lintest.Publish {
				return func(ctx context.Context, entities ...*feed.Entity) (producer.Receipt, error) {
					if now() {
						return producer.Receipt{}, nil
					}
					return publish(ctx, entities...)
				}
			}
		},
		"stale reader": func(now func() bool, _ *lintest.FeedLoad, _ []storage.Store, readers []lintest.Reader) {
			readers[1] = &staleReader{reader: readers[1], now: now}
		},
		"reader with a hole": func(now func() bool, _ *lintest.FeedLoad, _ []storage.Store, readers []lintest.Reader) {
			readers[1] = &holeReader{reader: readers[1], now: now}
		},
		"store with two winners": func(_ func() bool, l *lintest.FeedLoad, handles []storage.Store, _ []lintest.Reader) {
			handles[0] = doubleWinner{&liar{Store: handles[0], random: rand.New(rand.NewPCG(l.Seed, 0))}}
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			for _, seed := range seeds(t, 20) {
				handles := []storage.Store{memory.New()}
				load, readers := feedLoad(t, seed, handles)
				corrupt(sometimes(seed), &load, handles, readers)
				if err := load.Check(t.Context(), handles, readers); err != nil {
					t.Logf("-seed %d: %.300s", seed, err)
					return
				}
			}
			t.Error("the fault was not detected")
		})
	}
}

// A staleReader occasionally returns its first result.
type staleReader struct {
	reader lintest.Reader
	now    func() bool
	first  []string
}

func (r *staleReader) Read(ctx context.Context) ([]string, error) {
	if len(r.first) > 0 && r.now() {
		return r.first, nil
	}
	ids, err := r.reader.Read(ctx)
	if len(r.first) == 0 {
		r.first = ids
	}
	return ids, err
}

// A holeReader occasionally omits an entity.
type holeReader struct {
	reader lintest.Reader
	now    func() bool
}

func (r *holeReader) Read(ctx context.Context) ([]string, error) {
	ids, err := r.reader.Read(ctx)
	if len(ids) > 1 && r.now() {
		ids = ids[1:]
	}
	return ids, err
}
