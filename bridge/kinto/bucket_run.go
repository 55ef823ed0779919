package kinto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/kinto"
)

// A BucketError means that some collections of a bucket failed, and the others were published.
type BucketError struct {
	Failed []error
	Of     int // collections
}

// Error returns the first errors, one per line.
func (e *BucketError) Error() string {
	const most = 3
	text := fmt.Sprintf("%d of %d collections failed", len(e.Failed), e.Of)
	for _, err := range e.Failed[:min(len(e.Failed), most)] {
		text += "\n" + err.Error()
	}
	if more := len(e.Failed) - most; more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text
}

// Unwrap returns the errors of the collections.
func (e *BucketError) Unwrap() []error { return e.Failed }

// errUnread means that a collection was not read.
var errUnread = errors.New("not read: the server was unavailable for another collection")

// Run publishes the new changes of all collections: those that exist now or, with Follow, all until
// ctx ends. A collection that is gone and has a feed is treated as [Config.OnGone] says.
//
// A collection that fails does not affect the others. Without Follow, the error is a [*BucketError];
// if the server is unavailable for one collection, those that have not begun are skipped. With Follow, failures are
// logged and the collections are tried again; those that are gone are tried again only once they are listed again.
func (b *Bucket) Run(ctx context.Context) error {
	if err := b.Check(); err != nil {
		return fmt.Errorf("configure bridge: %w", err)
	}
	b.Log = cmp.Or(b.Log, slog.New(slog.DiscardHandler))
	id, err := resolve(ctx, b.Server, b.Bucket)
	if err != nil {
		return err
	}
	b.Bucket = id
	if b.Follow {
		return b.follow(ctx)
	}
	return b.once(ctx)
}

// all returns the collections that are listed, and the others for which the store has feeds.
func (b *Bucket) all(ctx context.Context) (listed, published []string, err error) {
	listed, err = b.listed(ctx)
	if err != nil && !errors.Is(err, ErrGone) {
		return nil, nil, err
	}
	published, failed := b.published(ctx, listed)
	switch {
	case failed != nil:
		return nil, nil, failed
	case len(published) > 0: // their bridges find out whether they are gone
		return listed, published, nil
	case len(listed) == 0 && err == nil:
		b.Log.Warn("no collection is selected", "bucket", b.Bucket, "patterns", b.Patterns)
	}
	return listed, nil, err
}

// once publishes the changes that exist.
func (b *Bucket) once(ctx context.Context) error {
	listed, published, err := b.all(ctx)
	if err != nil {
		return err
	}
	due := b.begin(listed, published)
	failed := make([]error, len(due))
	var unavailable atomic.Bool
	var running sync.WaitGroup
	room := make(chan struct{}, cmp.Or(b.AtOnce, 4))
	for i, m := range due {
		room <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-room }()
			if unavailable.Load() {
				failed[i] = errUnread
				b.ended(ctx, m, errUnread)
			} else if failed[i] = b.publish(ctx, m); away(failed[i]) {
				unavailable.Store(true)
			}
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := &BucketError{Of: len(due)}
	for _, err := range failed {
		if err != nil {
			e.Failed = append(e.Failed, err)
		}
	}
	if len(e.Failed) > 0 {
		return e
	}
	return nil
}

// follow publishes changes until ctx ends.
func (b *Bucket) follow(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	room := make(chan struct{}, cmp.Or(b.AtOnce, 4))
	for list := b.all; ; {
		listed, published, err := list(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case kinto.Retryable(err):
			b.Log.Warn("collections cannot be listed, retrying", "bucket", b.Bucket, "error", err)
		case errors.Is(err, ErrGone) && b.following():
		case err != nil:
			return err
		default:
			list = b.again
		}
		for _, m := range b.begin(listed, published) {
			running.Go(func() {
				select {
				case room <- struct{}{}:
				case <-ctx.Done():
					return
				}
				leave := sync.OnceFunc(func() { <-room })
				defer leave()
				m.job.waiting = leave
				if err := b.publish(ctx, m); err != nil && ctx.Err() == nil {
					b.Log.Warn("collection is not followed", "bucket", b.Bucket, "collection", m.Collection, "error", err)
				}
			})
		}
		if err := backoff.Sleep(ctx, cmp.Or(b.Interval, time.Minute)); err != nil {
			return context.Cause(ctx)
		}
	}
}

// again is called instead of [Bucket.all] after the first listing. It returns only the collections that are listed.
func (b *Bucket) again(ctx context.Context) (listed, published []string, err error) {
	listed, err = b.listed(ctx)
	return listed, nil, err
}
