package producer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
)

// Snapshots returns the ids of the snapshots with this name, oldest first. What is among
// their indexes and is none is somebody else's, and passed over.
func Snapshots(ctx context.Context, store storage.Store, name string) ([]string, error) {
	if err := layout.CheckName(name); err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var ids []string
	for entry, err := range store.List(ctx, layout.SnapshotIndexes(name), "") {
		if err != nil {
			return nil, fmt.Errorf("list snapshots %q: %w", name, err)
		}
		if id, err := layout.ParseSnapshotIndex(name, entry.Key); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// SnapshotEntry returns where a consumer continues in a feed after the snapshot NAME, the newest,
// or NAME/ID: the number of the page of its position, and its createdAt for a consumer that knows
// only the specification. They are for Before and Entry of a [PrunePolicy].
func SnapshotEntry(ctx context.Context, store storage.Store, feedName, spec string) (int64, time.Time, error) {
	name, id, _ := strings.Cut(spec, "/")
	index, err := ReadSnapshot(ctx, store, name, id)
	if err != nil {
		return 0, time.Time{}, err
	}
	if index.Feed == nil {
		return 0, time.Time{}, fmt.Errorf("prune before snapshot %s/%s: it does not say where in a feed it was made: make one with \"snapshot from-feed\"", name, index.ID)
	}
	of, number, err := layout.ParseFeedPageURL(index.Feed.Page)
	if err == nil && of != feedName {
		err = fmt.Errorf("it is of feed %s, not of %s", of, feedName)
	}
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("prune before snapshot %s/%s: %w", name, index.ID, err)
	}
	return number, index.CreatedAt, nil
}

// ReadSnapshot reads the index of a snapshot in a store, the newest if id is empty. The error of
// one that does not exist matches [storage.ErrNotFound].
func ReadSnapshot(ctx context.Context, store storage.Store, name, id string) (_ *snapshot.Stored, err error) {
	if err := layout.CheckName(name); err != nil {
		return nil, err
	}
	if id == "" {
		ids, err := Snapshots(ctx, store, name)
		if err != nil {
			return nil, err
		}
		if len(ids) == 0 {
			return nil, fmt.Errorf("find snapshot %s: %w", name, storage.ErrNotFound)
		}
		id = ids[len(ids)-1]
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

// DeleteSnapshot removes a snapshot: its index first, so that nobody begins to
// read it, then its pages. The error of a snapshot that does not exist matches
// storage.ErrNotFound.
func DeleteSnapshot(ctx context.Context, store storage.Store, name, id string) error {
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

// CollectSnapshots removes pages that belong to no index: of snapshots whose
// writing was cut short at least minAge ago, or whose deletion was. It returns
// the number of pages removed.
func CollectSnapshots(ctx context.Context, store storage.Store, name string, minAge time.Duration) (int, error) {
	if err := layout.CheckName(name); err != nil {
		return 0, fmt.Errorf("collect snapshots: %w", err)
	}
	now, err := storeTime(ctx, store, nil)
	if err != nil {
		return 0, fmt.Errorf("collect snapshots %q: %w", name, err)
	}
	// The pages of one snapshot are next to each other in the listing. They are
	// removed together, once the youngest of them is old enough.
	c := collector{store: store, name: name, before: now.Add(-minAge)}
	for entry, err := range store.List(ctx, layout.SnapshotsPrefix+name+"/pages/", "") {
		if err == nil {
			err = c.see(ctx, entry)
		}
		if err != nil {
			return c.removed, fmt.Errorf("collect snapshots %q: %w", name, err)
		}
	}
	if err := c.finish(ctx); err != nil {
		return c.removed, fmt.Errorf("collect snapshots %q: %w", name, err)
	}
	return c.removed, nil
}

type collector struct {
	store    storage.Store
	name     string
	before   time.Time
	id       string // the snapshot whose pages are being seen
	pages    int
	youngest time.Time
	removed  int
}

func (c *collector) see(ctx context.Context, entry storage.Entry) error {
	id, _, isPage := strings.Cut(strings.TrimPrefix(entry.Key, layout.SnapshotsPrefix+c.name+"/pages/"), "/")
	if !isPage {
		return nil // somebody else's
	}
	if id != c.id {
		if err := c.finish(ctx); err != nil {
			return err
		}
		c.id, c.pages, c.youngest = id, 0, time.Time{}
	}
	c.pages++
	if entry.Modified.After(c.youngest) {
		c.youngest = entry.Modified
	}
	return nil
}

// finish removes the pages of the snapshot just seen, if it has no index.
func (c *collector) finish(ctx context.Context) error {
	if c.pages == 0 || c.youngest.After(c.before) {
		return nil
	}
	_, err := c.store.Stat(ctx, layout.SnapshotIndex(c.name, c.id))
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if err := deletePrefix(ctx, c.store, layout.SnapshotPages(c.name, c.id)); err != nil {
		return err
	}
	c.removed += c.pages
	return nil
}

// deletePrefix deletes all objects under a prefix.
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
