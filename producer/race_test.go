package producer_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestLostRaceReads: a producer loses a race after another has written many pages. It reads these pages
// only if they may contain the entity that it publishes: because the caller set the Content-ID, or
// because an earlier write of this producer had an unknown outcome.
func TestLostRaceReads(t *testing.T) {
	const none = ""
	for _, test := range []struct {
		name, id   string
		outcome    fault.Outcome // of the first write
		reads      bool
		duplicates int
		pages      int64 // number of pages in the feed, each with one entity
	}{
		{"generated", none, fault.Pass, false, 0, 11},
		{"given", "<own@test>", fault.Pass, true, 0, 11},
		{"given, published by the other", "<5@test>", fault.Pass, true, 1, 10},
		{"generated, lost", none, fault.Lost, true, 0, 2},
		{"generated, landed", none, fault.Landed, true, 0, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := memory.New()
			var reads, faults atomic.Int64
			armed := false
			store := fault.Wrap(base, func(op fault.Op) fault.Outcome {
				if op.Verb == fault.Get {
					reads.Add(1)
				}
				if armed && op.Verb == fault.Create && faults.Add(1) == 1 {
					return test.outcome
				}
				return fault.Pass
			})
			config := producer.Config{MaxPageEntities: 1}
			f, rival := open(t, store, config), open(t, base, config)
			if _, err := f.Publish(t.Context(), entities([]string{"<0@test>"})...); err != nil {
				t.Fatal(err)
			}
			if test.outcome == fault.Pass {
				publishEach(t, rival, ids(1, 9))
			}
			armed = true
			reads.Store(0)
			receipt, err := f.Publish(t.Context(), entities([]string{test.id})...)
			if err != nil || receipt.Duplicates != test.duplicates || receipt.Published != 1-test.duplicates {
				t.Errorf("published %+v, %v", receipt, err)
			}
			if got := reads.Load() > 0; got != test.reads {
				t.Errorf("%d bodies were read", reads.Load())
			}
			newest, err := chain.NewReader(base, testFeed).Newest(t.Context())
			if err != nil || newest.Number != test.pages {
				t.Errorf("the feed has %d pages, want %d: %v", newest.Number, test.pages, err)
			}
			for _, f := range []*producer.Feed{f, rival} {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func publishEach(t *testing.T, f *producer.Feed, ids []string) {
	t.Helper()
	for _, id := range ids {
		if _, err := f.Publish(t.Context(), entities([]string{id})...); err != nil {
			t.Fatal(fmt.Errorf("publish %s: %w", id, err))
		}
	}
}
