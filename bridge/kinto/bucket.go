package kinto

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/storage"
)

// A Bucket publishes the collections of a bucket, each to a feed of its own. Server, Bucket, Store,
// Feeds and Job are required.
type Bucket struct {
	Server *kinto.Server
	Bucket string // its id, or "default"
	// Patterns select collections by name, in the syntax of [path.Match]: "blog-*". None: all. The
	// collection feedctl-positions of package sink/kinto must be named in full.
	Patterns []string
	Store    storage.Store
	Feeds    FeedNames
	// Job returns a job for a collection, with an index of its own. The bucket sets the Source, Store, Feed
	// and Follow of the job. If it tries a collection again, it calls Job again.
	Job func(collection, feed string) *Job
	// Follow waits for further changes, and also publishes collections that are created later.
	Follow bool
	// Interval is the time after which collections are listed again, and those whose bridge has
	// failed are tried again. Zero means 1 min.
	Interval time.Duration
	// AtOnce is how many collections are read at the same time. With Follow, a collection counts as being
	// read until it waits for the first time, for changes or for the server. Zero means 4.
	AtOnce int
	Log    *slog.Logger // nil: none

	mu      sync.Mutex
	members map[string]*member // by name
}

// Check returns an error if the names or patterns are invalid.
func (b *Bucket) Check() error {
	for _, pattern := range b.Patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	return b.Feeds.Check()
}

// positionsName is the name of the collection with the positions of sinks (package sink/kinto). It changes
// with each of their commits, and has no data.
const positionsName = "feedctl-positions"

// selects reports whether the patterns select a collection.
func (b *Bucket) selects(name string) bool {
	if name == positionsName {
		return slices.Contains(b.Patterns, name)
	}
	return len(b.Patterns) == 0 || slices.ContainsFunc(b.Patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // it was checked
		return ok
	})
}

// listed returns the names of the selected collections. If the bucket does not exist, there are none,
// and the error matches [ErrGone].
func (b *Bucket) listed(ctx context.Context) ([]string, error) {
	names, err := b.Server.Collections(ctx, b.Bucket)
	switch kinto.Status(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		err = fmt.Errorf("%w: %w", ErrRights, err)
	case http.StatusNotFound:
		err = fmt.Errorf("%w: %w", ErrGone, err)
	}
	if err != nil {
		return nil, fmt.Errorf("list the collections of bucket %q: %w", b.Bucket, err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !b.selects(name) }), nil
}

// published returns the names of the selected collections for which the store has feeds, except those that
// are listed. The collections returned no longer exist, or the user may not read them.
func (b *Bucket) published(ctx context.Context, listed []string) (names []string, err error) {
	for feed, err := range chain.Feeds(ctx, b.Store, "") {
		if err != nil {
			return nil, fmt.Errorf("list the feeds of bucket %q: %w", b.Bucket, err)
		}
		name, ok := b.Feeds.Collection(feed)
		if !ok || !b.selects(name) || slices.Contains(listed, name) {
			continue
		}
		newest, err := chain.NewReader(b.Store, feed).Newest(ctx)
		switch {
		case errors.Is(err, chain.ErrNoFeed):
			continue
		case err != nil:
			return nil, fmt.Errorf("read the source of feed %q: %w", feed, err)
		}
		at, err := bridge.ParseCheckpoint(newest.Checkpoint, kind, feed)
		if err == nil && at.Source == b.Server.Collection(b.Bucket, name).URL() {
			names = append(names, name)
		}
	}
	return names, nil
}
