package feedstore

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// An Entry summarizes a feed, or the newest snapshot with a name.
type Entry struct {
	Name     string
	Snapshot bool  // the entry is for a snapshot, not a feed
	Pages    int64 // the number of pages of the feed or the snapshot
	// For a feed, Entities, Bytes and Time are those of the newest page; Time is the Last-Modified of its
	// last entity. For a snapshot, Entities and Bytes are totals of all pages, and Time is when the snapshot
	// was created.
	Entities, Bytes int64
	Time            time.Time
	// Err is set if the feed or the snapshot is damaged. It matches [chain.ErrCorrupt] or
	// [storage.ErrLayout], and only Name and Snapshot are set.
	Err error
}

// List yields the feeds and then the snapshots whose names come after the given name, which may be empty, in
// the order of [chain.Feeds]. It makes a few requests for each entry.
func (r *Reader) List(ctx context.Context, after string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for name, err := range chain.Feeds(ctx, r.store, after) {
			if !r.list(ctx, Entry{Name: name}, err, r.listFeed, yield) {
				return
			}
		}
		for name, err := range snapshots.Names(ctx, r.store, after) {
			if !r.list(ctx, Entry{Name: name, Snapshot: true}, err, r.listSnapshot, yield) {
				return
			}
		}
	}
}

// list completes and yields an entry. It skips feeds and snapshots that do not exist.
func (r *Reader) list(ctx context.Context, e Entry, err error, complete func(context.Context, *Entry) error, yield func(Entry, error) bool) bool {
	if err == nil {
		err = complete(ctx, &e)
	}
	switch {
	case err == nil:
		return yield(e, nil)
	case errors.Is(err, chain.ErrNoFeed), errors.Is(err, ErrNoSnapshot):
		return true
	case errors.Is(err, chain.ErrCorrupt), errors.Is(err, storage.ErrLayout):
		return yield(Entry{Name: e.Name, Snapshot: e.Snapshot, Err: err}, nil)
	}
	yield(Entry{}, err)
	return false
}

func (r *Reader) listFeed(ctx context.Context, e *Entry) error {
	_, newest, floor, err := r.Look(ctx, e.Name)
	if err != nil {
		return err
	}
	e.Pages, e.Entities, e.Bytes, e.Time = newest.Number-floor+1, int64(newest.Entities), newest.Size, newest.Last
	return nil
}

func (r *Reader) listSnapshot(ctx context.Context, e *Entry) error {
	id, err := r.NewestSnapshot(ctx, e.Name)
	if err != nil {
		return err
	}
	index, err := r.SnapshotIndex(ctx, e.Name, id)
	if err != nil {
		return err
	}
	e.Pages, e.Entities, e.Time = int64(index.PageCount), index.Entities, index.CreatedAt
	for page, err := range r.store.List(ctx, layout.SnapshotPages(e.Name, id), "") {
		if err != nil {
			return err
		}
		e.Bytes += page.Size
	}
	return nil
}
