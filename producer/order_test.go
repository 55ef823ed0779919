package producer_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestInOrder begins many batches, each with After set to the previous batch, on a remote store that
// loses some requests or responses.
func TestInOrder(t *testing.T) {
	for _, outcome := range []fault.Outcome{fault.Pass, fault.Lost, fault.Landed} {
		synctest.Test(t, func(t *testing.T) {
			base := memory.New()
			var faults atomic.Int64
			faulty := fault.Wrap(&distant{Store: base}, func(op fault.Op) fault.Outcome {
				if op.N%150 == 7 {
					faults.Add(1)
					return outcome
				}
				return fault.Pass
			})
			f := open(t, faulty, producer.Config{MaxPageEntities: 3, MaxPageBytes: 1500, MaxWaiting: 40_000})
			const batches, each = 400, 2
			var begun []*producer.Publication
			var after *producer.Publication
			for n := range batches {
				p, err := f.Begin(t.Context(), producer.Batch{Entities: entities(ids(each*n+1, each*n+each)), After: after, More: n%5 > 0})
				if err != nil {
					t.Fatal(err)
				}
				begun, after = append(begun, p), p
			}
			for n, p := range begun {
				if r, err := p.Wait(); err != nil || r.Published != each {
					t.Fatalf("%v, batch %d: %+v, %v", outcome, n, r, err)
				}
			}
			if got := visibleIDs(t, base); !slices.Equal(got, ids(1, batches*each)) {
				t.Errorf("%v: the feed has %v", outcome, got)
			}
			if err := f.Close(); err != nil || faults.Load() == 0 {
				t.Errorf("%d faults, %v", faults.Load(), err)
			}
		})
	}
}

// TestAfterFailure begins batches whose After is a batch that cannot be published, because of its
// checkpoint, or because the store is full for a while.
func TestAfterFailure(t *testing.T) {
	t.Run("checkpoint", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			f := open(t, &distant{Store: store}, producer.Config{MaxPageEntities: 3})
			first, err := f.Begin(t.Context(), producer.Batch{Entities: entities(ids(1, 2)), Checkpoint: []byte("two"), Previous: []byte("elsewhere")})
			if err != nil {
				t.Fatal(err)
			}
			waitAfter(t, f, first, producer.ErrCheckpoint)
			if got := visibleIDs(t, store); len(got) != 0 {
				t.Errorf("the feed has %v", got)
			}
		})
	})
	t.Run("full", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			base := &refusing{Store: memory.New(), err: storage.ErrFull}
			f := open(t, &distant{Store: base}, producer.Config{MaxPageEntities: 3})
			first, err := f.Begin(t.Context(), producer.Batch{Entities: entities(ids(1, 2))})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := first.Wait(); !errors.Is(err, storage.ErrFull) {
				t.Fatalf("publish to a full store: %v", err)
			}
			base.err = nil
			waitAfter(t, f, first, storage.ErrFull)
			if got := visibleIDs(t, base); len(got) != 0 {
				t.Errorf("the feed has %v", got)
			}
		})
	})
}

// waitAfter begins batches whose After is a batch that fails, and checks that they fail with the same
// error.
func waitAfter(t *testing.T, f *producer.Feed, first *producer.Publication, want error) {
	t.Helper()
	begun := []*producer.Publication{first}
	for n := range 30 {
		p, err := f.Begin(t.Context(), producer.Batch{Entities: entities([]string{fmt.Sprintf("<after-%d@test>", n)}), After: begun[n]})
		if err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			time.Sleep(roundTrip)
		}
		begun = append(begun, p)
	}
	for n, p := range begun {
		if r, err := p.Wait(); !errors.Is(err, want) || r.Published > 0 {
			t.Errorf("batch %d: %+v, %v", n, r, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
