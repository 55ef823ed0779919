package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/feed"
)

func TestQueueTakesWhatIsThere(t *testing.T) {
	q := newQueue()
	a, b := &feed.Entity{Body: []byte("a")}, &feed.Entity{Body: []byte("b")}
	q.add(t.Context(), a)
	q.add(t.Context(), b)
	batch, err := q.take(t.Context())
	if err != nil || len(batch) != 2 || batch[0] != a || batch[1] != b {
		t.Fatalf("took %v, %v", batch, err)
	}
	broken := errors.New("broken")
	q.add(t.Context(), a)
	q.close(broken)
	if batch, err := q.take(t.Context()); err != nil || len(batch) != 1 {
		t.Errorf("what came before the error is not given out: %v, %v", batch, err)
	}
	if batch, err := q.take(t.Context()); !errors.Is(err, broken) || batch != nil {
		t.Errorf("took %v, %v after the end", batch, err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
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
		if _, err := q.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if added != 2 {
			t.Errorf("taking makes room for %d entities", added-1)
		}
		_, _ = q.take(t.Context())
	})
}

// Whoever reads a stream must not be asked for the next entity before it has
// been used up.
func TestQueueWaitsForStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		added := false
		go func() {
			q.add(t.Context(), &feed.Entity{Body: []byte("first")})
			q.add(t.Context(), &feed.Entity{Stream: strings.NewReader("large")})
			added = true
		}()
		synctest.Wait()
		batch, _ := q.take(t.Context())
		synctest.Wait()
		if len(batch) != 2 || added {
			t.Fatalf("batch of %d, added %v: want 2, false", len(batch), added)
		}
		q.published(2)
		synctest.Wait()
		if !added {
			t.Error("still waits after the stream was published")
		}
	})
}

func TestQueueEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := newQueue()
		q.watch(ctx)
		var err error
		go func() { _, err = q.take(ctx) }()
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
			t.Error("add goes on")
		}
	})
}
