package consumer

import (
	"time"

	"github.com/feedctl/feedctl/feed"
)

// A seek finds the start while walking forward (specification, section
// "Consumer Algorithm"): it skips what is older than the position, then
// through its Content-ID.
type seek struct {
	url      string // the feed's entry point, for errors
	position feed.Position
	latest   bool // skip all there is
	active   bool // the start has not been reached yet
	oldest   bool // the walk began on the oldest page there is
	first    time.Time
}

func newSeek(url string, start Start) *seek {
	return &seek{url: url, position: start.position, latest: start.latest,
		active: start.latest || !start.position.IsZero()}
}

// after reports whether e, the next entity, comes after the start.
func (k *seek) after(e *feed.Entity) (bool, error) {
	if !k.active {
		return true, nil
	}
	if k.latest {
		return false, nil
	}
	if k.first.IsZero() {
		k.first = e.LastModified
		if k.oldest && k.timed() && e.LastModified.After(k.position.LastModified) {
			return false, &NotOldEnoughError{URL: k.url, Position: k.position, Oldest: e.LastModified}
		}
	}
	switch {
	case k.position.ContentID == "":
		k.active = e.LastModified.Before(k.position.LastModified)
		return !k.active, nil
	case e.ContentID == k.position.ContentID:
		k.active = false
		return false, nil
	case k.timed() && e.LastModified.After(k.position.LastModified):
		return false, k.lost()
	}
	return false, nil
}

// end is told that the feed ends here for now.
func (k *seek) end() error {
	if k.active && k.position.ContentID != "" {
		return k.lost()
	}
	if k.latest {
		k.active = false
	}
	return nil
}

// timed reports whether it is known how far back the start is.
func (k *seek) timed() bool { return !k.position.LastModified.IsZero() }

func (k *seek) lost() error {
	return &ContentIDNotFoundError{URL: k.url, Position: k.position}
}
