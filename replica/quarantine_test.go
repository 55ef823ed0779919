package replica_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/replica"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// A bridge publishes and quarantines entities. The checkpoint of the feed counts the
// entities that it has processed.
type bridge struct {
	store storage.Store
	n     int
}

// publish publishes the next entity.
func (b *bridge) publish(ctx context.Context) error {
	b.n++
	return b.commit(ctx, b.n)
}

func (b *bridge) commit(ctx context.Context, n int) error {
	f, err := producer.Open(ctx, b.store, "a", producer.Config{MaxPageEntities: 2})
	if err != nil {
		return err
	}
	previous, err := f.Checkpoint(ctx)
	if err == nil {
		_, err = f.PublishBatch(ctx, producer.Batch{
			Entities: []*producer.Entity{entity(n)}, Checkpoint: fmt.Append(nil, b.n, " ", n), Previous: previous,
		})
	}
	return errors.Join(err, f.Close())
}

func entry(n int) string { return layout.FeedQuarantine("a") + fmt.Sprint(n) }

// reject quarantines the next entity and publishes the one after it.
func (b *bridge) reject(ctx context.Context) error {
	b.n++
	if _, err := b.store.Create(ctx, entry(b.n), storage.Meta{}, storage.Bytes(fmt.Append(nil, b.n))); err != nil {
		return err
	}
	return b.publish(ctx)
}

// retry publishes the quarantined entities.
func (b *bridge) retry(ctx context.Context, n int) error {
	if err := b.commit(ctx, n); err != nil {
		return err
	}
	return b.store.Delete(ctx, entry(n))
}

// lacks returns the entities that the checkpoint counts, but that are neither in the store's feed nor in its
// quarantine.
func lacks(t *testing.T, store storage.Store) (missing []int) {
	t.Helper()
	checkpoint, err := producer.ReadCheckpoint(t.Context(), store, "a")
	check(t, err)
	n := 0
	if len(checkpoint) > 0 {
		_, err = fmt.Sscan(string(checkpoint), &n)
		check(t, err)
	}
	all := objects(t, store)
	var pages strings.Builder
	for key, text := range all {
		if strings.HasPrefix(key, layout.FeedPages("a")) {
			pages.WriteString(text)
		}
	}
	for i := 1; i <= n; i++ {
		_, there := all[entry(i)]
		if !there && !strings.Contains(pages.String(), fmt.Sprintf("<%d@test>", i)) {
			missing = append(missing, i)
		}
	}
	return missing
}

// TestQuarantine copies a feed while a bridge publishes to it, quarantines entities and releases them, at
// every second operation of the copy, or every eighth with -short. Wherever the copy is cut off, it must
// have everything that a bridge needs to continue from it. The next copy must complete it.
func TestQuarantine(t *testing.T) {
	step := 2 * int(steps(4))
	beside := map[string]func(context.Context, *bridge) error{
		"put":           func(ctx context.Context, b *bridge) error { return b.reject(ctx) },
		"taken out":     func(ctx context.Context, b *bridge) error { return b.retry(ctx, 4) },
		"taken and put": func(ctx context.Context, b *bridge) error { return errors.Join(b.retry(ctx, 4), b.reject(ctx)) },
	}
	for name, change := range beside {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, more := range []int{0, 1} { // with 0 or 1 more entities, the newest page is open or closed
				for at, reached := 1+rand.IntN(step), true; reached; at += step {
					for kill, killed := at, true; killed; kill += 13 {
						reached, killed = quarantineBeside(t, change, more, at, kill)
					}
				}
			}
		})
	}
}

// quarantineBeside changes the source at one operation of a copy and ends the copy at
// another.
func quarantineBeside(t *testing.T, change func(context.Context, *bridge) error, more, at, kill int) (reached, killed bool) {
	ctx := t.Context()
	b, to := &bridge{store: memory.New()}, memory.New()
	check(t, b.publish(ctx))
	check(t, b.reject(ctx))
	check(t, b.reject(ctx))
	check(t, replica.NewFeed(b.store, to, "a").Sync(ctx))
	check(t, b.retry(ctx, 2))
	check(t, b.reject(ctx))
	for range more {
		check(t, b.publish(ctx))
	}
	var mu sync.Mutex
	n := 0
	decide := func(fault.Op) fault.Outcome {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == at {
			reached = true
			check(t, change(ctx, b))
		}
		if killed = n >= kill; killed {
			return fault.Lost
		}
		return fault.Pass
	}
	err := replica.NewFeed(fault.Wrap(b.store, decide), fault.Wrap(to, decide), "a").Sync(ctx)
	if !killed {
		check(t, err)
	}
	if missing := lacks(t, to); len(missing) > 0 {
		t.Errorf("changed at %d, ended at %d: the copy lacks %v", at, kill, missing)
	}
	check(t, replica.NewFeed(b.store, to, "a").Sync(ctx))
	equal(t, b.store, to)
	return reached, killed
}

// TestQuarantineFollow: a follower that has ended has copied the quarantine, even if no
// page has changed.
func TestQuarantineFollow(t *testing.T) {
	b, to := &bridge{store: memory.New()}, memory.New()
	check(t, b.publish(t.Context()))
	check(t, b.reject(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	copied, done := make(chan struct{}, 1), make(chan error)
	c := replica.New(b.store, to, replica.Config{Follow: true, Progress: func(r replica.Report) {
		if r.Feeds > 0 {
			select {
			case copied <- struct{}{}:
			default:
			}
		}
	}})
	go func() { done <- c.Run(ctx) }()
	<-copied
	check(t, b.store.Delete(t.Context(), entry(2)))
	stop()
	check(t, <-done)
	equal(t, b.store, to)
}
