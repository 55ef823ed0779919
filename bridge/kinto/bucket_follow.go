package kinto

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/kinto"
)

// listEvery is how many intervals there are between two lists of the collections, and between two
// attempts to read one that fails.
const listEvery = 6

// follow publishes changes until ctx ends. A collection is read as without Follow, and then asked for
// its stamp until it is due again, so that only those that change need memory.
func (b *Bucket) follow(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	room := make(chan struct{}, b.AtOnce)
	for list, round := b.all, 0; ; round++ {
		var listed, published []string
		if round%listEvery == 0 {
			var err error
			listed, published, err = list(ctx)
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
		}
		for _, m := range b.begin(listed, published) {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			running.Go(func() {
				defer func() { <-room }()
				b.visit(ctx, m)
			})
		}
		if err := backoff.Sleep(ctx, b.Interval); err != nil {
			return context.Cause(ctx)
		}
	}
}

// again returns the collections that are listed, after the first time.
func (b *Bucket) again(ctx context.Context) (listed, published []string, err error) {
	listed, err = b.listed(ctx)
	return listed, nil, err
}

// visit publishes the changes of a collection if there may be any.
func (b *Bucket) visit(ctx context.Context, m *member) {
	defer b.note(func() { m.busy = false })
	missing := false
	if m.failed {
		if time.Now().Before(m.due) {
			return
		}
	} else if !m.due.IsZero() {
		head, err := b.Server.Collection(b.Bucket, m.Collection).Head(ctx, kinto.Query{IfNoneMatch: m.stamp})
		if kinto.Retryable(err) || ctx.Err() != nil {
			return
		}
		if err == nil && !m.changed(head) {
			b.note(func() { m.LastPoll = time.Now() })
			return
		}
		missing = errors.Is(err, kinto.ErrNotFound)
	}
	err := b.publish(ctx, m)
	m.failed = err != nil
	switch {
	case ctx.Err() != nil:
		return
	case m.failed:
		b.Log.Warn("collection is not followed", "bucket", b.Bucket, "collection", m.Collection, "error", err)
		m.due = time.Now().Add(listEvery * b.Interval)
		return
	case missing: // its records were deleted from the feed
		b.note(func() { m.gone = true })
	}
	m.quiet++
	if stamp := m.newest(); stamp != m.stamp {
		m.stamp, m.quiet = stamp, 0
	}
	// It is read again twice, a window apart, for records whose stamp is of the past.
	m.due = time.Now().Add(m.window)
	if m.quiet >= 2 {
		m.due = time.Now().Add(m.period)
	}
}

// changed reports whether a collection must be read, given its head.
func (m *member) changed(head kinto.Page) bool {
	switch {
	case head.NotModified || head.Stamp == m.stamp:
		m.lower = time.Time{}
		return !time.Now().Before(m.due)
	case head.Stamp > m.stamp:
		m.lower = time.Time{}
		return true
	case m.lower.IsZero(): // a replica may lag behind
		m.lower = time.Now()
	}
	return time.Since(m.lower) >= m.window
}
