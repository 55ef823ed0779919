package consumer

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
)

// TestObserve: each commit is observed, with its contents and its outcome.
func TestObserve(t *testing.T) {
	f := newFeed("a0 b1 | c1 d2")
	const parent = "00-11111111111111111111111111111111-1111111111111111-01"
	inWorld(t, f, func(t *testing.T, w *world) {
		var log []string
		broken := errors.New("broken")
		sink := &memorySink{t: t, commit: func() error {
			if len(log) > 2 {
				return broken
			}
			return nil
		}}
		job := Job{Client: w.newClient(Config{}), Sink: sink, BatchEntities: 3, Observe: func(ctx context.Context, c Commit) (context.Context, func(error)) {
			if c.Begun.IsZero() {
				t.Error("the commit does not say when its batch began")
			}
			log = append(log, fmt.Sprintf("%d entities, %d bytes, to %s, %v", c.Entities, c.Bytes, c.Page, c.Traces))
			return ctx, func(err error) { log = append(log, fmt.Sprint("failed: ", errors.Is(err, broken))) }
		}}
		f.pages[0].entities[0].SetTrace(feed.Trace{Parent: parent})
		if _, err := runJob(t, job); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		want := []string{
			"3 entities, 27 bytes, to " + pageURL + "2, [{" + parent + " }]", "failed: false",
			"1 entities, 9 bytes, to " + pageURL + "2, []", "failed: true",
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Error(diff)
		}
	})
}
