package consumer

import (
	"time"

	"github.com/feedctl/feedctl/feed"
)

// A Start is where in a feed the reading begins. The zero Start is
// [Beginning].
type Start struct {
	latest   bool
	index    string // URL of a snapshot index
	position feed.Position
}

// Beginning starts with the oldest entity that the feed has. It costs a HEAD
// request for each page.
func Beginning() Start { return Start{} }

// Latest starts after the newest entity that is there when the reading begins.
func Latest() Start { return Start{latest: true} }

// Since starts with the first entity whose Last-Modified is t, rounded down to
// a whole second, or later. A consumer that stopped in the middle of that
// second gets some entities again: at least once.
func Since(t time.Time) Start { return After(feed.Position{LastModified: t}) }

// After starts after the entity that p names: exactly once. If p has no
// Content-ID it is [Since] its time; if p is in a snapshot, the rest of the
// snapshot and then the feed are read; the zero p is the beginning.
func After(p feed.Position) Start {
	if !p.LastModified.IsZero() {
		p.LastModified = feed.Truncate(p.LastModified)
	}
	return Start{position: p}
}

// FromSnapshot starts with a snapshot, given the URL of its index, and goes on
// in the feed where the snapshot ends: at the exact position if the index has
// one, otherwise at its creation time, so that what happened in the second of
// its creation may come again.
func FromSnapshot(indexURL string) Start { return Start{index: indexURL} }

// snapshot returns where in a snapshot s is, if it is.
func (s Start) snapshot() (feed.SnapshotPosition, bool) {
	switch {
	case s.index != "":
		return feed.SnapshotPosition{Index: s.index}, true
	case s.position.Snapshot != nil:
		return *s.position.Snapshot, true
	}
	return feed.SnapshotPosition{}, false
}
