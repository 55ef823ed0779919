package snapshots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// Collect removes the pages of snapshots without an index, which interrupted writes and deletions
// have left behind, if even the newest page of the snapshot is at least minAge old. It returns the
// number of pages removed.
func Collect(ctx context.Context, store storage.Store, name string, minAge time.Duration) (int, error) {
	removed, err := collect(ctx, store, name, minAge)
	if err != nil {
		return removed, fmt.Errorf("collect snapshots %q: %w", name, err)
	}
	return removed, nil
}

func collect(ctx context.Context, store storage.Store, name string, minAge time.Duration) (int, error) {
	if err := layout.CheckName(name); err != nil {
		return 0, err
	}
	now, err := storage.Now(ctx, store, time.Now)
	if err != nil {
		return 0, err
	}
	c := collector{store: store, name: name, before: now.Add(-minAge)}
	prefix := layout.SnapshotsPrefix + name + "/pages/"
	for entry, err := range store.List(ctx, prefix, "") {
		if err != nil {
			return c.removed, err
		}
		id, _, isPage := strings.Cut(strings.TrimPrefix(entry.Key, prefix), "/")
		if !isPage {
			continue
		}
		if id != c.id {
			if err := c.finish(ctx); err != nil {
				return c.removed, err
			}
			c.id, c.pages, c.newest = id, 0, time.Time{}
		}
		c.pages++
		if entry.Modified.After(c.newest) {
			c.newest = entry.Modified
		}
	}
	return c.removed, c.finish(ctx)
}

// A collector receives listed pages, one snapshot after another, and removes those that were left
// behind.
type collector struct {
	store   storage.Store
	name    string
	before  time.Time
	id      string // of the current snapshot
	pages   int
	newest  time.Time
	removed int
}

// finish removes the pages of the current snapshot if the snapshot has no index and all its pages
// are old enough.
func (c *collector) finish(ctx context.Context) error {
	if c.pages == 0 || c.newest.After(c.before) {
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
