package lintest_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/internal/lintest"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

var (
	firstSeed = flag.Uint64("seed", 0, "seed of the first history; 0 for a random one")
	longer    = flag.Int("longer", 1, "factor for the number of histories")
)

func seeds(t *testing.T, histories int) (all []uint64) {
	if *firstSeed == 0 {
		*firstSeed = rand.Uint64N(1 << 32)
	}
	t.Logf("-seed %d", *firstSeed)
	for n := range histories * *longer {
		all = append(all, *firstSeed+uint64(n))
	}
	return all
}

// A driver opens handles of a new store, as several processes would.
type driver struct {
	name      string
	histories int  // of objects
	feeds     int  // histories of feeds
	keep      bool // deletes of an object are not isolated from writes to it
	handles   func(t *testing.T, n int) []storage.Store
}

func drivers() []driver {
	return []driver{
		{"memory", 40, 2, false, func(_ *testing.T, n int) []storage.Store {
			store := memory.New()
			var handles []storage.Store
			for range n {
				handles = append(handles, store)
			}
			return handles
		}},
		{"file", 10, 1, false, func(t *testing.T, n int) []storage.Store {
			dir := filepath.Join(t.TempDir(), "store")
			var handles []storage.Store
			for range n {
				store, err := file.New(dir)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := store.Close(); err != nil {
						t.Error(err)
					}
				})
				handles = append(handles, store)
			}
			return handles
		}},
		{"s3", 3, 1, s3Keep(), func(t *testing.T, n int) []storage.Store { return s3Handles(t, n, nil) }},
	}
}

// chaos makes some operations return an error: they take no effect, or take effect at once or later.
type chaos struct {
	rate float64

	mu     sync.Mutex
	random *rand.Rand
	late   []*fault.Late
	failed int
}

func newChaos(seed uint64, rate float64) *chaos {
	return &chaos{rate: rate, random: rand.New(rand.NewPCG(seed, 1<<32))}
}

func (c *chaos) wrap(handles []storage.Store) (wrapped []storage.Store) {
	for _, store := range handles {
		wrapped = append(wrapped, fault.Wrap(store, c.decide))
	}
	return wrapped
}

func (c *chaos) decide(op fault.Op) fault.Outcome {
	c.mu.Lock()
	var land *fault.Late
	if n := len(c.late); n > 0 && c.random.IntN(4) == 0 {
		k := c.random.IntN(n)
		land = c.late[k]
		c.late = append(c.late[:k], c.late[k+1:]...)
	}
	outcome := c.outcome(op)
	c.mu.Unlock()
	if land != nil {
		_ = land.Release(context.Background()) // the client never sees the result
	}
	return outcome
}

func (c *chaos) outcome(op fault.Op) fault.Outcome {
	if c.random.Float64() >= c.rate {
		return fault.Pass
	}
	c.failed++
	if !op.Verb.Writes() {
		return fault.Lost
	}
	switch c.random.IntN(3) {
	case 0:
		return fault.Lost
	case 1:
		return fault.Landed
	}
	late := &fault.Late{}
	c.late = append(c.late, late)
	return late
}

// settle makes all pending operations take effect.
func (c *chaos) settle() {
	c.mu.Lock()
	late := c.late
	c.late = nil
	c.mu.Unlock()
	for _, l := range late {
		_ = l.Release(context.Background())
	}
}

func objectLoad(seed uint64) lintest.ObjectLoad {
	return lintest.ObjectLoad{Seed: seed, Prefix: fmt.Sprintf("seed/%d", seed), Keys: 2, Clients: 6, Operations: 30}
}

// TestObjects checks the contract of each driver, with and without faults.
func TestObjects(t *testing.T) {
	for _, d := range drivers() {
		for _, rate := range []float64{0, 0.1} {
			t.Run(fmt.Sprintf("%s/faults=%v", d.name, rate), func(t *testing.T) {
				handles := d.handles(t, 3)
				for _, seed := range seeds(t, d.histories) {
					load := objectLoad(seed)
					load.Keep = d.keep
					if err := load.Check(t.Context(), newChaos(seed, rate).wrap(handles)...); err != nil {
						t.Fatalf("-seed %d: %v", seed, err)
					}
				}
			})
		}
	}
}

// A liar is a store that occasionally violates the contract.
type liar struct {
	storage.Store
	mu     sync.Mutex
	random *rand.Rand
	seen   map[string]storage.Info
}

func (l *liar) now() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(8) == 0
}

// A stale store returns an earlier state.
type stale struct{ *liar }

func (s stale) Stat(ctx context.Context, key string) (storage.Info, error) {
	s.mu.Lock()
	before, ok := s.seen[key]
	s.mu.Unlock()
	if ok && s.now() {
		return before, nil
	}
	info, err := s.Store.Stat(ctx, key)
	if err == nil {
		s.mu.Lock()
		s.seen[key] = info
		s.mu.Unlock()
	}
	return info, err
}

// A doubleWinner reports success to the loser of a race.
type doubleWinner struct{ *liar }

func (s doubleWinner) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	if info, err := s.Store.Stat(ctx, key); err == nil && s.now() {
		at = info.Version
	}
	return s.Store.Append(ctx, key, at, meta, tail)
}

func (s doubleWinner) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if info, err := s.Store.Stat(ctx, key); err == nil && s.now() {
		at = info.Version
	}
	return s.Store.Replace(ctx, key, at, meta, body)
}

// A forgetter loses acknowledged writes.
type forgetter struct{ *liar }

func (s forgetter) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	version, err := s.Store.Create(ctx, key, meta, body)
	if err == nil && s.now() {
		err = s.Store.Delete(ctx, key)
	}
	return version, err
}

// A denier denies a successful write, like a client that mistakes the response to its retry for the
// response to its first attempt.
type denier struct{ *liar }

func (s denier) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	version, err := s.Store.Append(ctx, key, at, meta, tail)
	if err == nil && s.now() {
		return "", storage.ErrConflict
	}
	return version, err
}

// A tearer returns the metadata of one state with the body of another.
type tearer struct{ *liar }

func (s tearer) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	info, err := s.Store.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	for range 20 {
		runtime.Gosched()
	}
	o, err := s.Store.Get(ctx, key, offset, length)
	if err == nil {
		o.Info = info
	}
	return o, err
}

// A lister omits a key.
type lister struct{ *liar }

func (s lister) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for entry, err := range s.Store.List(ctx, prefix, after) {
			if err == nil && s.now() {
				continue
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

// TestObjectsDetectsFaults: stores that violate the contract are detected.
func TestObjectsDetectsFaults(t *testing.T) {
	for name, corrupt := range map[string]func(*liar) storage.Store{
		"stale reads":            func(l *liar) storage.Store { return stale{l} },
		"two winners":            func(l *liar) storage.Store { return doubleWinner{l} },
		"forgets what it stored": func(l *liar) storage.Store { return forgetter{l} },
		"denies what it stored":  func(l *liar) storage.Store { return denier{l} },
		"torn reads":             func(l *liar) storage.Store { return tearer{l} },
		"incomplete listings":    func(l *liar) storage.Store { return lister{l} },
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			store := memory.New()
			for _, seed := range seeds(t, 20) {
				l := &liar{Store: store, random: rand.New(rand.NewPCG(seed, 2<<32)), seen: map[string]storage.Info{}}
				if err := objectLoad(seed).Check(t.Context(), newChaos(seed, 0.1).wrap([]storage.Store{corrupt(l)})...); err != nil {
					t.Logf("-seed %d: %.300s", seed, err)
					return
				}
			}
			t.Error("the fault was not detected")
		})
	}
}
