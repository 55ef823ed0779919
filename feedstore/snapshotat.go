package feedstore

import (
	"cmp"
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
)

// SnapshotAt returns the ID of the newest snapshot with a name whose position in its feed is not later
// than t, in whole seconds as on the wire. Snapshots that were not made from a feed have no position, and are
// skipped. The error matches [ErrNoSnapshot] if there is none; it is a [*NoneEarlierError] if there is a
// later one. The indexes are searched in the order of their IDs, so only a few are read: 11 of 1,000.
func (r *Reader) SnapshotAt(ctx context.Context, name string, t time.Time) (string, error) {
	if layout.CheckName(name) != nil {
		return "", ErrNoSnapshot
	}
	ids, _, err := snapshots.List(ctx, r.store, name)
	if err != nil {
		return "", err
	}
	read := func(n int) (index *snapshot.Stored) {
		if err == nil {
			index, err = r.SnapshotIndex(ctx, name, ids[n])
		}
		return index
	}
	later := sort.Search(len(ids), func(n int) bool {
		index := read(n)
		return index == nil || ends(index).After(t)
	})
	for n := later - 1; n >= 0 && err == nil; n-- { // snapshots made at the same time may not be in order
		if index := read(n); index != nil && index.Feed != nil && !ends(index).After(t) {
			return ids[n], nil
		}
	}
	for n := later; n < len(ids) && err == nil; n++ {
		if index := read(n); index != nil && index.Feed != nil {
			return "", &NoneEarlierError{Name: name, At: t, Oldest: ends(index)}
		}
	}
	return "", cmp.Or(err, ErrNoSnapshot)
}

// A NoneEarlierError means that all snapshots with a name are later than a time.
type NoneEarlierError struct {
	Name   string
	At     time.Time
	Oldest time.Time // of the position of the oldest snapshot
}

func (e *NoneEarlierError) Error() string {
	return fmt.Sprintf("there is no snapshot %s of %s or before: the oldest is of %s", e.Name, e.At.UTC().Format(time.RFC3339), e.Oldest.UTC().Format(time.RFC3339))
}

// Is makes the error match [ErrNoSnapshot].
func (e *NoneEarlierError) Is(target error) bool { return target == ErrNoSnapshot }

// ends returns the time up to which a snapshot has the entities of its feed, in whole seconds.
func ends(index *snapshot.Stored) time.Time {
	if index.Feed == nil {
		return index.CreatedAt.Truncate(time.Second)
	}
	return index.Feed.LastModified.Truncate(time.Second)
}
