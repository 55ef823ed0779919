package producer_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A farStore is a store that takes 10 ms for each write and 1 ms for each read.
type farStore struct{ storage.Store }

const (
	farRead  = time.Millisecond
	farWrite = 10 * time.Millisecond
)

func (s farStore) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	time.Sleep(farWrite)
	return s.Store.Create(ctx, key, meta, body)
}

func (s farStore) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	time.Sleep(farWrite)
	return s.Store.Append(ctx, key, at, meta, tail)
}

func (s farStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	time.Sleep(farRead)
	return s.Store.Get(ctx, key, offset, length)
}

func (s farStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	time.Sleep(farRead)
	return s.Store.Stat(ctx, key)
}

// TestTurns: several producers with equal work write to one feed. None has to wait until another has
// finished.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := farStore{memory.New()}
		start := time.Now()
		took := make([]time.Duration, 4)
		var group sync.WaitGroup
		for n := range took {
			group.Go(func() {
				f, err := producer.Open(t.Context(), store, "f", producer.Config{})
				if err != nil {
					t.Error(err)
					return
				}
				for range 900 {
					if _, err := f.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentType: "text/plain", Body: []byte("x")}); err != nil {
						t.Error(err)
						break
					}
				}
				took[n] = time.Since(start)
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		first, last := took[0], took[0]
		for _, d := range took {
			first, last = min(first, d), max(last, d)
		}
		if 2*last > 5*first {
			t.Errorf("first done after %v, last after %v: %v", first, last, took)
		}
	})
}

// TestListLeftBehind: two producers publish to a feed whose list of turns is damaged, or contains
// only dead producers.
func TestListLeftBehind(t *testing.T) {
	const members = `{"format":1,"feed":"test","producers":[%s{"id":"dead"}]}`
	for name, test := range map[string]struct {
		list string
		most time.Duration
	}{
		"absent":       {"", time.Second},
		"damaged":      {`{"format":1,"feed":"test","prod`, time.Second},
		"other format": {`{"format":2,"feed":"test","producers":[{"id":"dead"}]}`, 4 * time.Second},
		"one dead":     {fmt.Sprintf(members, ""), 3 * time.Second},
		"21 dead":      {fmt.Sprintf(members, strings.Repeat(`{"id":"dead too"},`, 20)), 6 * time.Second},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := memory.New()
				if test.list != "" {
					if _, err := base.Create(t.Context(), layout.FeedTurns(testFeed), storage.Meta{Data: []byte(test.list)}, storage.Bytes()); err != nil {
						t.Fatal(err)
					}
				}
				start := time.Now()
				var group sync.WaitGroup
				for range 2 {
					f := open(t, farStore{base}, producer.Config{})
					group.Go(func() {
						for range 30 {
							publishAll(t, f, entities([]string{""}))
						}
						if err := f.Close(); err != nil {
							t.Error(err)
						}
					})
				}
				group.Wait()
				if took := time.Since(start); took > test.most {
					t.Errorf("took %v, want at most %v", took, test.most)
				}
				info, err := base.Stat(t.Context(), layout.FeedTurns(testFeed))
				if err != nil {
					t.Fatal(err)
				}
				if left := strings.Contains(string(info.Meta.Data), `"id"`); left != (name == "other format") {
					t.Errorf("in the end the list is %s", info.Meta.Data)
				}
			})
		})
	}
}
