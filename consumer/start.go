package consumer

import (
	"time"

	"github.com/feedctl/feedctl/feed"
)

// A Start is where in a feed to begin reading. The zero Start is [Beginning].
type Start struct {
	latest   bool
	index    string // URL of a snapshot index
	replaces bool   // the snapshot replaces the data of the sink
	position feed.Position
}

// Beginning starts with the oldest entity of the feed. If the server has no link to the oldest
// page, this costs a HEAD request for each page.
func Beginning() Start { return Start{} }

// Latest starts after the entity that is the newest one when reading begins.
func Latest() Start { return Start{latest: true} }

// Since starts with the first entity whose Last-Modified is t, rounded down to
// a whole second, or later. A consumer that stopped in the middle of that
// second receives some entities again.
func Since(t time.Time) Start { return After(feed.Position{LastModified: t}) }

// After starts directly after the entity of p. If p has no Content-ID, After is the same as [Since]
// with the time of p; if p is in a snapshot, the rest of the snapshot is read and then the feed; if
// p is zero, After is the same as [Beginning].
func After(p feed.Position) Start {
	if !p.LastModified.IsZero() {
		p.LastModified = feed.Truncate(p.LastModified)
	}
	return Start{position: p}
}

// FromSnapshot starts with a snapshot, given the URL of its index, and continues in
// the feed where the snapshot ends: at the exact position if the index has one,
// otherwise at its creation time, so entities of that second may be read again.
func FromSnapshot(indexURL string) Start { return Start{index: indexURL} }

// snapshot returns the position in a snapshot at which s starts, if any.
func (s Start) snapshot() (feed.SnapshotPosition, bool) {
	switch {
	case s.index != "":
		return feed.SnapshotPosition{Index: s.index, Replaces: s.replaces}, true
	case s.position.Snapshot != nil:
		return *s.position.Snapshot, true
	}
	return feed.SnapshotPosition{}, false
}
