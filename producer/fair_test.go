package producer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A rivalStore is a farStore used by one of several producers. All producers together can write one
// page every 5 ms.
type rivalStore struct {
	farStore
	disk    chan struct{}
	noTurns bool         // whether the producer does not use the list of turns, like those of older versions
	left    atomic.Int64 // number of writes until the producer is killed; negative: it is never killed
}

func (s *rivalStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	if s.noTurns && key == layout.FeedTurns(testFeed) {
		return storage.Info{}, storage.ErrPermission
	}
	return s.farStore.Stat(ctx, key)
}

// killed reports whether the producer has been killed. In that case it returns only when ctx ends,
// so that no further write happens.
func (s *rivalStore) killed(ctx context.Context) bool {
	switch n := s.left.Load(); {
	case n < 0:
		return false
	case n == 0:
		<-ctx.Done()
		return true
	}
	s.left.Add(-1)
	return false
}

func (s *rivalStore) transfer(key string) {
	if strings.HasPrefix(key, layout.FeedPages(testFeed)) {
		s.disk <- struct{}{}
		time.Sleep(5 * time.Millisecond)
		<-s.disk
	}
}

func (s *rivalStore) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if s.killed(ctx) {
		return "", ctx.Err()
	}
	s.transfer(key)
	return s.farStore.Create(ctx, key, meta, body)
}

func (s *rivalStore) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	if s.killed(ctx) {
		return "", ctx.Err()
	}
	s.transfer(key)
	return s.farStore.Append(ctx, key, at, meta, tail)
}

// TestFairness: several producers begin to publish to a feed at the same time. All have the same
// amount of work, which is too much for one turn. They end at about the same time, and do not wait
// for each other longer than they write.
func TestFairness(t *testing.T) {
	const pages = 6 * 4 // for each producer
	bulk := func(ctx context.Context, f *producer.Feed) error {
		w := f.Writer(producer.WriterOptions{MaxEntities: 5, Ahead: 16})
		for range 3 * pages {
			e := entities([]string{""})[0]
			e.Body = make([]byte, 300)
			if err := w.Add(ctx, e); err != nil {
				return errors.Join(err, w.Close())
			}
		}
		return errors.Join(w.Wait(ctx), w.Close())
	}
	single := func(ctx context.Context, f *producer.Feed) error {
		for range 2 * pages {
			if _, err := f.Publish(ctx, entities([]string{""})...); err != nil {
				return err
			}
		}
		return nil
	}
	for _, test := range []struct {
		name      string
		work      func(context.Context, *producer.Feed) error
		producers int
		killed    int64 // number of writes until the first producer is killed; 0: it is never killed
		old       int   // number of producers that do not use the list of turns
		most      time.Duration
	}{
		{"many pages", bulk, 20, 0, 0, 8 * time.Second},
		{"many pages, two producers", bulk, 2, 0, 0, time.Second},
		{"many pages, one is killed", bulk, 20, 8, 0, 10 * time.Second},
		{"many pages, some do not take turns", bulk, 20, 0, 2, 8 * time.Second},
		{"many small commits", single, 20, 0, 0, 22 * time.Second},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base, disk := memory.New(), make(chan struct{}, 1)
				took, start := make([]time.Duration, test.producers), time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				var group, dead sync.WaitGroup
				for n := range took {
					store := &rivalStore{farStore: farStore{base}, disk: disk, noTurns: n >= test.producers-test.old}
					store.left.Store(-1)
					f := open(t, store, smallPages)
					if n == 0 && test.killed > 0 {
						store.left.Store(test.killed)
						dead.Go(func() {
							if err := test.work(ctx, f); err == nil {
								t.Error("the first producer was not killed")
							}
						})
						context.AfterFunc(ctx, f.Abort)
						continue
					}
					group.Go(func() {
						if err := errors.Join(test.work(ctx, f), f.Close()); err != nil {
							t.Error(err)
						}
						took[n] = time.Since(start)
					})
				}
				group.Wait()
				cancel()
				dead.Wait()
				ended := slices.DeleteFunc(slices.Clone(took[:test.producers-test.old]), func(d time.Duration) bool { return d == 0 })
				first, last := slices.Min(ended), slices.Max(took)
				newest, err := chain.NewReader(base, testFeed).Newest(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("first %v, last %v, %d pages", first, last, newest.Number)
				if 2*slices.Max(ended) > 3*first {
					t.Errorf("first done after %v, last after %v: %v", first, slices.Max(ended), took)
				}
				if last > test.most {
					t.Errorf("took %v, want at most %v", last, test.most)
				}
			})
		})
	}
}
