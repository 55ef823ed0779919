// Package snapshots reads and writes the snapshots in a store: it writes entities as a snapshot,
// lists and deletes snapshots, reads their indexes, and removes what interrupted writes have left
// behind. To write a snapshot of a feed, use package snapshot/fold.
package snapshots

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
)

// Names yields the names of the snapshots that have objects in the store, beginning after the given
// name, which may be empty. The order and the cost are those of [storage.Names].
func Names(ctx context.Context, store storage.Store, after string) iter.Seq2[string, error] {
	return storage.Names(ctx, store, layout.SnapshotsPrefix, after)
}

// List returns the IDs of the snapshots with the given name, oldest first, and the keys of unknown
// objects among their indexes.
func List(ctx context.Context, store storage.Store, name string) (ids, unknown []string, err error) {
	if err := layout.CheckName(name); err != nil {
		return nil, nil, fmt.Errorf("list snapshots: %w", err)
	}
	for entry, err := range store.List(ctx, layout.SnapshotIndexes(name), "") {
		if err != nil {
			return nil, nil, fmt.Errorf("list snapshots %q: %w", name, err)
		}
		if id, err := layout.ParseSnapshotIndex(name, entry.Key); err == nil {
			ids = append(ids, id)
		} else {
			unknown = append(unknown, entry.Key)
		}
	}
	return ids, unknown, nil
}

// Newest returns the ID of the newest snapshot with the given name. If there is none, the error
// matches [storage.ErrNotFound].
func Newest(ctx context.Context, store storage.Store, name string) (string, error) {
	ids, _, err := List(ctx, store, name)
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("find snapshot %s: %w", name, storage.ErrNotFound)
	}
	return ids[len(ids)-1], nil
}

// Read reads and verifies the index of a snapshot, in bounded memory. If the snapshot does not
// exist, the error matches [storage.ErrNotFound]; other errors are those of [snapshot.ReadStored].
func Read(ctx context.Context, store storage.Store, name, id string) (_ *snapshot.Stored, err error) {
	if err := errors.Join(layout.CheckName(name), layout.CheckName(id)); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	object, err := store.Get(ctx, layout.SnapshotIndex(name, id), 0, -1)
	if err != nil {
		return nil, fmt.Errorf("read snapshot %s/%s: %w", name, id, err)
	}
	defer func() { err = errors.Join(err, object.Body.Close()) }()
	index, err := snapshot.ReadStored(id, object.Meta.Data, object.Body)
	if err != nil {
		return nil, fmt.Errorf("read snapshot %s/%s: %w", name, id, err)
	}
	return index, nil
}

// FeedPage returns the number of the feed page at which a consumer continues after a snapshot, and
// the snapshot's createdAt, the time at which a consumer that knows only the specification
// continues. The snapshot is given as NAME/ID, or as NAME for the newest one.
func FeedPage(ctx context.Context, store storage.Store, feed, spec string) (int64, time.Time, error) {
	name, id, _ := strings.Cut(spec, "/")
	if id == "" {
		var err error
		if id, err = Newest(ctx, store, name); err != nil {
			return 0, time.Time{}, err
		}
	}
	index, err := Read(ctx, store, name, id)
	if err != nil {
		return 0, time.Time{}, err
	}
	if index.Feed == nil {
		return 0, time.Time{}, fmt.Errorf("get feed position of snapshot %s/%s: it has none: make a snapshot with \"snapshot from-feed\"", name, id)
	}
	of, number, err := layout.ParseFeedPageURL(index.Feed.Page)
	if err == nil && of != feed {
		err = fmt.Errorf("it is a snapshot of feed %s, not of %s", of, feed)
	}
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("get feed position of snapshot %s/%s: %w", name, id, err)
	}
	return number, index.CreatedAt, nil
}

// Delete removes a snapshot: first the index, so that no reader begins with the snapshot, then the
// pages. If the snapshot does not exist, the error matches [storage.ErrNotFound].
func Delete(ctx context.Context, store storage.Store, name, id string) error {
	if err := errors.Join(layout.CheckName(name), layout.CheckName(id)); err != nil {
		return fmt.Errorf("delete snapshot: %w", err)
	}
	key := layout.SnapshotIndex(name, id)
	_, err := store.Stat(ctx, key)
	if err == nil {
		err = store.Delete(ctx, key)
	}
	if err == nil {
		err = deletePrefix(ctx, store, layout.SnapshotPages(name, id))
	}
	if err != nil {
		return fmt.Errorf("delete snapshot %s of %q: %w", id, name, err)
	}
	return nil
}

// deletePrefix deletes all objects whose keys have a prefix.
func deletePrefix(ctx context.Context, store storage.Store, prefix string) error {
	for entry, err := range store.List(ctx, prefix, "") {
		if err == nil {
			err = store.Delete(ctx, entry.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
