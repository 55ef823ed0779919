package producer_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A heldStore delays the first append, and reads of the floor after a page was created, until the
// test releases them.
type heldStore struct {
	storage.Store
	created     bool
	floor, tail chan struct{}
}

func (s *heldStore) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	s.created = true
	return s.Store.Create(ctx, key, meta, body)
}

func (s *heldStore) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	<-s.tail
	return s.Store.Append(ctx, key, at, meta, tail)
}

func (s *heldStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	if s.created && key == layout.FeedFloor(testFeed) {
		<-s.floor
	}
	return s.Store.Stat(ctx, key)
}

// TestAppendBeforeFloor: a producer appends to a page that it created, before it knows that the
// page is not below the floor. The entity is acknowledged when the append has landed, not as soon
// as the floor has been read; here another producer's append lands first.
func TestAppendBeforeFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := memory.New()
		held := &heldStore{Store: base, floor: make(chan struct{}), tail: make(chan struct{})}
		f, rival := open(t, held, producer.Config{MaxPageEntities: 3}), open(t, base, producer.Config{})
		first, err := f.Begin(t.Context(), producer.Batch{Entities: entities(ids(1, 1))})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		second, err := f.Begin(t.Context(), producer.Batch{Entities: entities(ids(2, 4))})
		if err != nil {
			t.Fatal(err)
		}
		published := make(chan error, 1)
		go func() {
			_, err := second.Wait()
			published <- err
		}()
		synctest.Wait()
		close(held.floor)
		synctest.Wait()
		if _, err := first.Wait(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-published:
			t.Errorf("acknowledged before the append has landed: %v", err)
		default:
		}
		if _, err := rival.Publish(t.Context(), entities(ids(5, 5))...); err != nil {
			t.Fatal(err)
		}
		close(held.tail)
		if _, err := second.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := visibleIDs(t, base); !slices.Equal(got, append(ids(1, 1), append(ids(5, 5), ids(2, 4)...)...)) {
			t.Errorf("the feed has %v", got)
		}
		for _, f := range []*producer.Feed{f, rival} {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
