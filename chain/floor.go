package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/internal/selfcheck"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// floorRecord is the metadata of a feed's floor object, whose body is empty.
type floorRecord struct {
	Format int    `json:"format"`
	Feed   string `json:"feed,omitempty"` // older programs did not write it
	Floor  int64  `json:"floor"`
	// Deleting means that the feed is being deleted. It can be read but not published to.
	Deleting bool `json:"deleting,omitempty"`
	// Deleted means that the feed was deleted. If it is published to again, it begins
	// at the floor. There may be no page.
	Deleted bool `json:"deleted,omitempty"`
	// Identity is [feed.Identity.ID]. Older programs drop it and Epoch when they write the record.
	Identity string       `json:"identity,omitempty"`
	Epoch    *epochRecord `json:"epoch,omitempty"`
	// Erasing is not nil while an erasure is in progress, or after it was interrupted.
	Erasing *erasing `json:"erasing,omitempty"`
}

// readFloor returns the floor record of a feed and the version of its object; floor 1 and
// "" if the feed has never been pruned or deleted.
func readFloor(ctx context.Context, store storage.Store, feed string) (floorRecord, storage.Version, error) {
	info, err := store.Stat(ctx, layout.FeedFloor(feed))
	if errors.Is(err, storage.ErrNotFound) {
		return floorRecord{Format: format, Feed: feed, Floor: 1}, "", nil
	}
	if err != nil {
		return floorRecord{}, "", fmt.Errorf("read floor of feed %q: %w", feed, err)
	}
	var r floorRecord
	if err := selfcheck.Verify(info.Meta.Data); err != nil {
		return floorRecord{}, "", fmt.Errorf("%w: metadata of %s: %w", ErrCorrupt, info.Key, err)
	}
	if err := json.Unmarshal(info.Meta.Data, &r); err != nil || r.Format != format || r.Floor < 1 {
		return floorRecord{}, "", fmt.Errorf("%w: %s is not a floor", ErrCorrupt, info.Key)
	}
	if r.Feed != "" && r.Feed != feed {
		return floorRecord{}, "", fmt.Errorf("%w: %s is the floor of feed %q", ErrCorrupt, info.Key, r.Feed)
	}
	if !r.validIdentity() {
		return floorRecord{}, "", fmt.Errorf("%w: the identity in %s is damaged", ErrCorrupt, info.Key)
	}
	r.Feed = feed
	return r, info.Version, nil
}

// writeFloor replaces the floor if its version is still the given one, or creates it if that is "",
// and returns the new version. The error matches [storage.ErrExists] or [storage.ErrConflict] if
// another writer was first.
func writeFloor(ctx context.Context, store storage.Store, at storage.Version, r floorRecord) (storage.Version, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode floor: %w", err)
	}
	meta := storage.Meta{ContentType: "application/octet-stream", Data: selfcheck.Add(data)}
	if at == "" {
		at, err = store.Create(ctx, layout.FeedFloor(r.Feed), meta, storage.Bytes())
	} else {
		at, err = store.Append(ctx, layout.FeedFloor(r.Feed), at, meta, storage.Bytes())
	}
	if err != nil {
		return "", fmt.Errorf("write floor %d of feed %q: %w", r.Floor, r.Feed, err)
	}
	return at, nil
}

// overtaken reports whether a conditional write failed because another writer was first.
func overtaken(err error) bool {
	return errors.Is(err, storage.ErrExists) || errors.Is(err, storage.ErrConflict)
}

// RaiseFloor makes n the oldest page of the feed, unless the floor is already higher,
// and returns the resulting floor. The caller must ensure that n is a page of the feed,
// and that no page below it can still be published to.
func RaiseFloor(ctx context.Context, store storage.Store, feed string, n int64) (int64, error) {
	for {
		r, version, err := readFloor(ctx, store, feed)
		if err != nil || r.Floor >= n {
			return r.Floor, err
		}
		if !r.beforeCopies(n) {
			return 0, fmt.Errorf("raise floor of feed %q to page %d: an erasure left copies there: repeat \"feedctl erase\" to remove them", feed, n)
		}
		r.Floor, r.Deleted = n, false // a feed that has a page exists
		_, err = writeFloor(ctx, store, version, r)
		if err == nil {
			return n, nil
		}
		// Another writer raised the floor: read it again. After any other error the write may have
		// succeeded; the floor only rises, so the caller can repeat it.
		if !overtaken(err) {
			return 0, err
		}
	}
}
