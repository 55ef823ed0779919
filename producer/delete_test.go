package producer_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

// pagesLeft returns the numbers of the pages that are still in the store.
func pagesLeft(t *testing.T, store storage.Store) (numbers []int64) {
	t.Helper()
	for entry, err := range store.List(t.Context(), layout.FeedPages(testFeed), "") {
		if err != nil {
			t.Fatal(err)
		}
		n, err := layout.ParseFeedPage(testFeed, entry.Key)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func TestDelete(t *testing.T) {
	stores := map[string]storage.Store{"memory": memory.New()}
	dir, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stores["file"] = dir
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if _, err := producer.Delete(ctx, store, testFeed, false); !errors.Is(err, chain.ErrNoFeed) || errors.Is(err, chain.ErrDeleted) {
				t.Fatalf("delete of a feed that never existed: %v", err)
			}
			mustPublish(t, store, ids(1, 8))
			others := []string{layout.FeedAsidePage(testFeed, 2, "x"), layout.DigestRoot(testFeed, "x"), layout.DigestNode(testFeed, "x")}
			for _, key := range others {
				if _, err := store.Create(ctx, key, storage.Meta{}, storage.Bytes([]byte("other"))); err != nil {
					t.Fatal(err)
				}
			}
			old := chain.NewReader(store, testFeed)
			if _, err := old.Newest(ctx); err != nil {
				t.Fatal(err)
			}
			dry, err := producer.Delete(ctx, store, testFeed, true)
			if err != nil || dry.Pages != 3 || dry.Objects != 3 {
				t.Fatalf("dry run: %+v, %v", dry, err)
			}
			if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 8)) {
				t.Fatalf("after a dry run the feed has %v", got)
			}
			if report, err := producer.Delete(ctx, store, testFeed, false); err != nil || report != dry {
				t.Fatalf("deleted %+v, %v; the dry run said %+v", report, err, dry)
			}
			if left := pagesLeft(t, store); len(left) > 0 {
				t.Errorf("pages %v are left", left)
			}
			for _, key := range others {
				if _, err := store.Stat(ctx, key); !errors.Is(err, storage.ErrNotFound) {
					t.Errorf("%s: %v", key, err)
				}
			}
			for name, reader := range map[string]*chain.Reader{"earlier reader": old, "new reader": chain.NewReader(store, testFeed)} {
				if _, err := reader.Newest(ctx); !errors.Is(err, chain.ErrDeleted) || !errors.Is(err, chain.ErrNoFeed) {
					t.Errorf("%s: newest page: %v", name, err)
				}
				if _, err := reader.Stat(ctx, 3); !errors.Is(err, chain.ErrPruned) {
					t.Errorf("%s: page 3: %v", name, err)
				}
			}
			if _, err := producer.Delete(ctx, store, testFeed, false); !errors.Is(err, chain.ErrDeleted) {
				t.Errorf("delete again: %v", err)
			}
			mustPublish(t, store, ids(1, 50)) // the Content-IDs can be used again
			if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 50)) {
				t.Errorf("the new feed has %v", got)
			}
			if n := pagesLeft(t, store)[0]; n <= 3+2*chain.Ahead {
				t.Errorf("the new feed begins with page %d", n)
			}
			if p, err := old.Newest(ctx); err != nil || p.Number != pagesLeft(t, store)[0]+16 {
				t.Errorf("earlier reader: newest page %+v, %v", p, err)
			}
			if _, err := producer.Prune(ctx, store, testFeed, producer.PrunePolicy{KeepPages: 1}); err != nil {
				t.Errorf("prune: %v", err)
			}
		})
	}
}

// TestDeleteKilled kills a deletion at each of its operations while one publisher has the newest page
// open and another begins. Entities acknowledged to either publisher are in the feed until the
// deletion is completed. Entities published later begin a new feed.
func TestDeleteKilled(t *testing.T) {
	for _, outcome := range []fault.Outcome{fault.Lost, fault.Landed} {
		for _, first := range []int{2, 3} { // number of entities, so that the last page is open or closed
			for at, killed := 1, true; killed; at++ {
				synctest.Test(t, func(t *testing.T) { killed = deleteKilled(t, outcome, first, at) })
			}
		}
	}
}

func deleteKilled(t *testing.T, outcome fault.Outcome, first, at int) (killed bool) {
	ctx, store := t.Context(), memory.New()
	f, err := producer.Open(ctx, store, testFeed, producer.Config{MaxPageEntities: 3, RetryFor: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Publish(ctx, entities(ids(1, first))...); err != nil {
		t.Fatal(err)
	}
	broken := fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.N < at {
			return fault.Pass
		}
		killed = true
		if op.N == at {
			return outcome
		}
		return fault.Lost
	})
	_, deleted := producer.Delete(ctx, broken, testFeed, false)
	if killed != (deleted != nil) {
		t.Fatalf("operation %d: %v", at, deleted)
	}
	published := func(want []string) {
		t.Helper()
		got := strings.Join(visibleIDs(t, store), " ")
		for _, id := range want {
			if !strings.Contains(got, id) {
				t.Errorf("operation %d %v: %s was acknowledged, the feed has %s", at, outcome, id, got)
			}
		}
	}
	for n := 101; n < 105; n++ { // more entities than fit on the open page
		if _, err := f.Publish(ctx, entities(ids(n, n))...); err == nil {
			published(ids(n, n))
		} else if !errors.Is(err, chain.ErrDeleting) {
			t.Errorf("operation %d %v: publish: %v", at, outcome, err)
		}
	}
	if err := publishIDs(ctx, store, ids(201, 201)); err == nil {
		published(ids(201, 201))
	} else if !errors.Is(err, chain.ErrDeleting) {
		t.Errorf("operation %d %v: publish: %v", at, outcome, err)
	}
	if _, err := producer.Delete(ctx, store, testFeed, false); err != nil && !errors.Is(err, chain.ErrDeleted) {
		t.Fatalf("operation %d %v: complete: %v", at, outcome, err)
	}
	if left := pagesLeft(t, store); len(left) > 0 {
		t.Errorf("operation %d %v: pages %v are left", at, outcome, left)
	}
	if _, err := f.Publish(ctx, entities(ids(1, 7))...); err != nil {
		t.Fatalf("operation %d %v: publish: %v", at, outcome, err)
	}
	if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 7)) {
		t.Errorf("operation %d %v: the new feed has %v", at, outcome, got)
	}
	return killed
}

// TestDeleteWhilePublishing: before each operation of a deletion, a publisher publishes to the feed.
func TestDeleteWhilePublishing(t *testing.T) {
	for at, more := 1, true; more; at++ {
		synctest.Test(t, func(t *testing.T) {
			ctx, store := t.Context(), memory.New()
			f, err := producer.Open(ctx, store, testFeed, producer.Config{MaxPageEntities: 3})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.Publish(ctx, entities(ids(1, 2))...); err != nil {
				t.Fatal(err)
			}
			more = false
			done := make(chan error, 1)
			beside := fault.Wrap(store, func(op fault.Op) fault.Outcome {
				if op.N == at {
					more = true
					go func() {
						_, err := f.Publish(ctx, entities(ids(11, 17))...)
						done <- err
					}()
					synctest.Wait() // wait until the publisher has published, or waits for the deletion
				}
				return fault.Pass
			})
			if _, err := producer.Delete(ctx, beside, testFeed, false); err != nil {
				t.Fatalf("operation %d: %v", at, err)
			}
			if !more {
				return
			}
			early := len(done) > 0
			if err := <-done; err != nil {
				t.Fatalf("operation %d: publish: %v", at, err)
			}
			_, err = chain.NewReader(store, testFeed).Newest(ctx)
			switch {
			case err == nil:
				// The first entity may have been on the open page that was deleted.
				if got := visibleIDs(t, store); !slices.Equal(got, ids(11, 17)) && !slices.Equal(got, ids(12, 17)) {
					t.Errorf("operation %d: the new feed has %v", at, got)
				}
			case !errors.Is(err, chain.ErrDeleted) || !early:
				t.Errorf("operation %d: publish after the deletion: %v", at, err)
			}
		})
	}
}

// TestDeleteAround: a publisher writes to the feed during a deletion, and its next write is paused
// until a later operation of the deletion. If the feed has been deleted by then, acknowledged
// entities are in the new feed.
func TestDeleteAround(t *testing.T) {
	for at, more := 1, true; more; at++ {
		for until, within := at+1, true; within; until++ {
			for stop, stopped := 1, true; stopped; stop++ {
				synctest.Test(t, func(t *testing.T) { more, within, stopped = deleteAround(t, at, until, stop) })
			}
		}
	}
}

func deleteAround(t *testing.T, at, until, stop int) (more, within, stopped bool) {
	ctx, store := t.Context(), memory.New()
	resume := make(chan struct{})
	var second atomic.Bool      // whether the publisher is at its second write
	var operations atomic.Int64 // number of operations of the second write
	f, err := producer.Open(ctx, fault.Wrap(store, func(fault.Op) fault.Outcome {
		if second.Load() && operations.Add(1) == int64(stop) {
			<-resume
		}
		return fault.Pass
	}), testFeed, producer.Config{MaxPageEntities: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Publish(ctx, entities(ids(1, 2))...); err != nil {
		t.Fatal(err)
	}
	published := make(chan error, 2)
	publish := func(first, last int) {
		go func() {
			_, err := f.Publish(ctx, entities(ids(first, last))...)
			published <- err
		}()
		synctest.Wait() // wait until the publisher has published, is paused, or waits for the deletion
	}
	gone := false // whether the feed had been deleted when the publisher continued
	_, err = producer.Delete(ctx, fault.Wrap(store, func(op fault.Op) fault.Outcome {
		switch op.N {
		case at:
			more = true
			publish(11, 13) // leaves an open page that was not there before
			second.Store(true)
			publish(21, 21)
			stopped = operations.Load() >= int64(stop)
			second.Store(stopped)
		case until:
			within = true
			_, err := chain.NewReader(store, testFeed).Newest(ctx)
			gone = errors.Is(err, chain.ErrDeleted) && stopped
			close(resume)
			synctest.Wait()
		}
		return fault.Pass
	}), testFeed, false)
	if err != nil {
		t.Fatal(err)
	}
	if !within {
		close(resume)
	}
	if !more {
		return false, false, false
	}
	if err := errors.Join(<-published, <-published); err != nil {
		t.Fatalf("publisher at %d and %d of a deletion, paused at operation %d: %v", at, until, stop, err)
	}
	if got := visibleIDs(t, store); gone && !slices.Contains(got, ids(21, 21)[0]) {
		t.Errorf("publisher at %d and %d of a deletion, paused at operation %d: the new feed has %v", at, until, stop, got)
	}
	return more, within, stopped
}
