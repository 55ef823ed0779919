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
}

// readFloor returns the number of the oldest page that exists, and the version
// of the object that says so; 1 and "" if nothing has ever been pruned.
func readFloor(ctx context.Context, store storage.Store, feed string) (int64, storage.Version, error) {
	info, err := store.Stat(ctx, layout.FeedFloor(feed))
	if errors.Is(err, storage.ErrNotFound) {
		return 1, "", nil
	}
	if err != nil {
		return 0, "", fmt.Errorf("read floor of feed %q: %w", feed, err)
	}
	var r floorRecord
	if err := selfcheck.Verify(info.Meta.Data); err != nil {
		return 0, "", fmt.Errorf("%w: metadata of %s: %w", ErrCorrupt, info.Key, err)
	}
	if err := json.Unmarshal(info.Meta.Data, &r); err != nil || r.Format != format || r.Floor < 1 {
		return 0, "", fmt.Errorf("%w: %s is not a floor", ErrCorrupt, info.Key)
	}
	if r.Feed != "" && r.Feed != feed {
		return 0, "", fmt.Errorf("%w: %s is the floor of feed %q", ErrCorrupt, info.Key, r.Feed)
	}
	return r.Floor, info.Version, nil
}

// RaiseFloor makes n the oldest page of the feed, unless a later one is already,
// and returns the floor that is then in force. The caller makes sure that page n
// is a page of the feed, and that nothing that might still be published into is
// below it.
func RaiseFloor(ctx context.Context, store storage.Store, feed string, n int64) (int64, error) {
	for {
		floor, version, err := readFloor(ctx, store, feed)
		if err != nil || floor >= n {
			return floor, err
		}
		data, err := json.Marshal(floorRecord{Format: format, Feed: feed, Floor: n})
		if err != nil {
			return 0, fmt.Errorf("encode floor: %w", err)
		}
		meta := storage.Meta{ContentType: "application/octet-stream", Data: selfcheck.Add(data)}
		if version == "" {
			_, err = store.Create(ctx, layout.FeedFloor(feed), meta, storage.Bytes())
		} else {
			_, err = store.Append(ctx, layout.FeedFloor(feed), version, meta, storage.Bytes())
		}
		if err == nil {
			return n, nil
		}
		// Somebody else raised it: look again. Any other error may hide a success,
		// and a floor only rises, so reporting it is safe.
		if !errors.Is(err, storage.ErrExists) && !errors.Is(err, storage.ErrConflict) {
			return 0, fmt.Errorf("raise floor of feed %q to %d: %w", feed, n, err)
		}
	}
}
