package producer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/observe"
)

type writeKey struct{}

// TestObserve: each write of a page is observed, with the traces of its entities and its outcome, and
// the store receives the context that the observer returned.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		note := func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
		failed := false
		store := fault.Wrap(memory.New(), func(op fault.Op) fault.Outcome {
			if op.Verb == fault.Append && !failed {
				failed = true
				return fault.Lost
			}
			return fault.Pass
		})
		observed := observe.Wrap(store, func(ctx context.Context, o observe.Operation) {
			if ctx.Value(writeKey{}) != nil {
				note("%s in its context", o.Name)
			}
		})
		f := open(t, observed, producer.Config{Observe: func(ctx context.Context, w producer.PageWrite) (context.Context, func(error)) {
			note("page %d of %s: %d entities, %v", w.Page, w.Feed, w.Entities, w.Traces)
			return context.WithValue(ctx, writeKey{}, w), func(err error) { note("failed: %v", errors.Is(err, fault.ErrInjected)) }
		}})
		const one, two = "00-11111111111111111111111111111111-1111111111111111-01", "00-22222222222222222222222222222222-2222222222222222-01"
		ctx := feed.ContextWithTrace(t.Context(), feed.Trace{Parent: one})
		batch := entities([]string{"<a>", "<b>", "<c>"})
		batch[1].SetTrace(feed.Trace{Parent: two})
		if _, err := f.Publish(ctx, batch...); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Publish(t.Context(), entities([]string{"<d>"})...); err != nil {
			t.Fatal(err)
		}
		want := []string{
			fmt.Sprintf("page 1 of %s: 3 entities, [{%s } {%s }]", testFeed, one, two), "create in its context", "failed: false",
			fmt.Sprintf("page 1 of %s: 1 entities, []", testFeed), "append in its context", "failed: true",
			fmt.Sprintf("page 1 of %s: 1 entities, []", testFeed), "append in its context", "failed: false",
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Error(diff)
		}
	})
}
