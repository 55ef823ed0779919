package kinto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/kinto"
)

// A Bucket publishes the collections of a bucket, each to a feed of its own.
type Bucket struct {
	Server *kinto.Server
	Bucket string // its id
	// Pattern selects collections by name, as in [path.Match]: "blog-*". Empty: all.
	Pattern string
	// Configure returns the configuration of the bridge of a collection, with a feed and an index of
	// its own. A collection's name is a valid name for a feed. Source is set afterwards.
	Configure func(collection string) Config
	// Follow also follows the collections, and those that are created later.
	Follow bool
	// Interval is the time after which collections are listed again, and those are tried again whose
	// bridge has failed. 0: 1 min.
	Interval time.Duration
	// AtOnce is how many collections are read at the same time without Follow. 0: 4.
	AtOnce int
	Log    *slog.Logger // nil: none
}

// Collections returns the names of the collections that Pattern selects, in order.
func (b *Bucket) Collections(ctx context.Context) (names []string, err error) {
	if _, err := path.Match(b.Pattern, ""); err != nil {
		return nil, fmt.Errorf("pattern %q: %w", b.Pattern, err)
	}
	all, err := b.Server.Collections(ctx, b.Bucket)
	if err != nil {
		return nil, fmt.Errorf("list collections of bucket %q: %w", b.Bucket, err)
	}
	for _, name := range all {
		if ok, _ := path.Match(cmp.Or(b.Pattern, "*"), name); ok { // it was checked
			names = append(names, name)
		}
	}
	return names, nil
}

// Run publishes the new changes of all collections: those that exist now or, with Follow, all until
// ctx ends. A collection that fails does not affect the others: without Follow, the error has those
// of all that failed, and with Follow they are logged and tried again. A collection that is not
// listed any more is not read.
func (b *Bucket) Run(ctx context.Context) error {
	if b.Follow {
		return b.follow(ctx)
	}
	names, err := b.Collections(ctx)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	room := make(chan struct{}, cmp.Or(b.AtOnce, 4))
	failed := make([]error, len(names))
	for i, name := range names {
		room <- struct{}{}
		running.Go(func() {
			defer func() { <-room }()
			failed[i] = b.publish(ctx, name)
		})
	}
	running.Wait()
	return errors.Join(failed...)
}

func (b *Bucket) publish(ctx context.Context, name string) error {
	c := b.Configure(name)
	c.Source, c.Follow = b.Server.Collection(b.Bucket, name), b.Follow
	_, err := (&Job{Config: c}).Run(ctx)
	return err
}

func (b *Bucket) follow(ctx context.Context) error {
	log := cmp.Or(b.Log, slog.New(slog.DiscardHandler))
	var running sync.WaitGroup
	defer running.Wait()
	var known sync.Map // names of the collections that are being followed
	for {
		names, err := b.Collections(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case kinto.Retryable(err):
			log.Warn("collections cannot be listed, retrying", "bucket", b.Bucket, "error", err)
		case err != nil:
			return err
		}
		for _, name := range names {
			if _, following := known.LoadOrStore(name, true); following {
				continue
			}
			running.Go(func() {
				defer known.Delete(name)
				if err := b.publish(ctx, name); err != nil && ctx.Err() == nil {
					log.Warn("collection is not followed, retrying", "bucket", b.Bucket, "collection", name, "error", err)
				}
			})
		}
		if err := backoff.Sleep(ctx, cmp.Or(b.Interval, time.Minute)); err != nil {
			return context.Cause(ctx)
		}
	}
}
