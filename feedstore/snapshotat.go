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

// SnapshotAt returns the ID of the newest snapshot with the given name whose position in its feed is not
// later than t. Times are compared in whole seconds, as on the wire. Snapshots that were not made from a feed
// have no position, and are skipped. If there is no such snapshot, the error matches [ErrNoSnapshot]; if
// there is a later one, it is a [*NoneEarlierError]. SnapshotAt makes a binary search in the order of the
// IDs, so it reads only a few indexes: 11 of 1,000.
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

// A NoneEarlierError means that all snapshots with the given name are later than the given time.
type NoneEarlierError struct {
	Name   string
	At     time.Time
	Oldest time.Time // the time of the position of the oldest snapshot
}

func (e *NoneEarlierError) Error() string {
	return fmt.Sprintf("there is no snapshot %s from %s or earlier: the oldest is from %s", e.Name, e.At.UTC().Format(time.RFC3339), e.Oldest.UTC().Format(time.RFC3339))
}

// Is makes the error match [ErrNoSnapshot].
func (e *NoneEarlierError) Is(target error) bool { return target == ErrNoSnapshot }

// ends returns the time, in whole seconds, up to which a snapshot includes the entities of its feed.
func ends(index *snapshot.Stored) time.Time {
	if index.Feed == nil {
		return index.CreatedAt.Truncate(time.Second)
	}
	return index.Feed.LastModified.Truncate(time.Second)
}
