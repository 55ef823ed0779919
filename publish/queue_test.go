package publish

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/feed"
)

func TestQueueTakesWhatIsThere(t *testing.T) {
	q := newQueue(limits{1, batchBytes}.memory())
	a, b := &feed.Entity{Body: []byte("a")}, &feed.Entity{Body: []byte("b")}
	q.add(t.Context(), a)
	q.add(t.Context(), b)
	batch, _, err := q.take(t.Context())
	if err != nil || len(batch) != 2 || batch[0] != a || batch[1] != b {
		t.Fatalf("took %v, %v", batch, err)
	}
	broken := errors.New("broken")
	q.add(t.Context(), a)
	q.close(broken)
	if batch, _, err := q.take(t.Context()); err != nil || len(batch) != 1 {
		t.Errorf("what came before the error is not given out: %v, %v", batch, err)
	}
	if batch, _, err := q.take(t.Context()); !errors.Is(err, broken) || batch != nil {
		t.Errorf("took %v, %v after the end", batch, err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(limits{1, batchBytes}.memory())
		added := 0
		go func() {
			for range 3 {
				q.add(t.Context(), &feed.Entity{Body: make([]byte, batchBytes)})
				added++
			}
		}()
		synctest.Wait()
		if added != 1 {
			t.Fatalf("%d entities of %d bytes fit", added, batchBytes)
		}
		batch, _, err := q.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if added != 2 {
			t.Errorf("taking makes room for %d entities", added-1)
		}
		var second []*feed.Entity
		go func() { second, _, _ = q.take(t.Context()) }()
		synctest.Wait()
		if second != nil {
			t.Error("more is taken than may be on its way")
		}
		q.published(batch)
		synctest.Wait()
		if len(second) != 1 {
			t.Errorf("publishing makes room for %d entities", len(second))
		}
	})
}

func TestQueueTakesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(limits{3, 3 * batchBytes}.memory())
		go func() {
			for range 9 {
				q.add(t.Context(), &feed.Entity{Body: make([]byte, batchBytes)})
			}
			q.close(nil)
		}()
		var batches [][]*feed.Entity
		go func() {
			for {
				batch, _, _ := q.take(t.Context())
				if len(batch) == 0 {
					return
				}
				batches = append(batches, batch)
			}
		}()
		for done := range 9 {
			synctest.Wait()
			if want := min(9, 3+done); len(batches) != want {
				t.Fatalf("%d batches were taken when %d were published, want %d", len(batches), done, want)
			}
			q.published(batches[done])
		}
	})
}

// What comes fast is taken in whole batches, and it is known whether there is more.
func TestQueueWaitsForTheReader(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(ctx context.Context, q *queue)
		more bool
	}{
		{"which waits for the input", func(_ context.Context, q *queue) { q.reads(false) }, false},
		{"which has found the end", func(_ context.Context, q *queue) { q.close(nil) }, false},
		{"which has one more than a batch", func(ctx context.Context, q *queue) {
			q.add(ctx, &feed.Entity{Body: make([]byte, batchBytes)})
			q.add(ctx, &feed.Entity{})
		}, true},
		{"which has a whole batch, and then waits for the input", func(ctx context.Context, q *queue) {
			q.add(ctx, &feed.Entity{Body: make([]byte, batchBytes)})
			q.reads(false)
		}, false},
		{"which has come to a stream", func(ctx context.Context, q *queue) {
			q.add(ctx, &feed.Entity{Stream: strings.NewReader("large")})
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				q := newQueue(4 << 20)
				q.watch(ctx)
				q.reads(true)
				q.add(ctx, &feed.Entity{})
				var batch []*feed.Entity
				var more bool
				go func() { batch, more, _ = q.take(ctx) }()
				synctest.Wait()
				if batch != nil {
					t.Error("taken while the reader is busy")
				}
				go c.then(ctx, q)
				synctest.Wait()
				if batch == nil || more != c.more {
					t.Errorf("took %d entities, more %v; want more %v", len(batch), more, c.more)
				}
				cancel()
			})
		})
	}
}

// The reader of a stream must not be asked for the next entity before it has
// been used up.
func TestQueueWaitsForStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(limits{1, batchBytes}.memory())
		added := false
		go func() {
			q.add(t.Context(), &feed.Entity{Body: []byte("first")})
			q.add(t.Context(), &feed.Entity{Stream: strings.NewReader("large")})
			added = true
		}()
		synctest.Wait()
		batch, _, _ := q.take(t.Context())
		synctest.Wait()
		if len(batch) != 2 || added {
			t.Fatalf("batch of %d, added %v: want 2, false", len(batch), added)
		}
		q.published(batch)
		synctest.Wait()
		if !added {
			t.Error("still waits after the stream was published")
		}
	})
}

func TestQueueEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := newQueue(limits{1, batchBytes}.memory())
		q.watch(ctx)
		var err error
		go func() { _, _, err = q.take(ctx) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("take returned %v", err)
		}
		ok := true
		go func() { ok = q.add(ctx, &feed.Entity{Stream: strings.NewReader("large")}) }()
		synctest.Wait()
		if ok {
			t.Error("add has taken another entity")
		}
	})
}

// Small pages make small batches, and few of them; large ones leave them as they are.
func TestQueueFit(t *testing.T) {
	for _, c := range []struct {
		pageEntities int
		pageBytes    int64
		batch, ahead limits
	}{
		{10_000, 1 << 20, limits{batchEntities, batchBytes}, limits{16 << 10, 8 << 20}},
		{20, 1 << 20, limits{320, batchBytes}, limits{320, 8 << 20}},
		{10_000, 64 << 10, limits{1024, 512 << 10}, limits{1024, 512 << 10}},
		{1, 1, limits{1, 8}, limits{1, 8}},
	} {
		q := newQueue(16 << 20)
		q.fit(c.pageEntities, c.pageBytes)
		if q.batch != c.batch || q.ahead != c.ahead {
			t.Errorf("pages of %d entities and %d bytes: batches of %v, %v ahead; want %v, %v",
				c.pageEntities, c.pageBytes, q.batch, q.ahead, c.batch, c.ahead)
		}
	}
}
