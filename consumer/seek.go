package consumer

import "github.com/feedctl/feedctl/feed"

// A seek finds the start during a walk (specification, section "Consumer Algorithm"): it skips the entities that
// are older than the position, and then the entities up to its Content-ID.
type seek struct {
	url      string // the feed's entry point, for errors
	position feed.Position
	latest   bool // skip all existing entities
	active   bool // the start has not been reached yet
	begun    bool // an entity has been seen
	// retention is what the server said about a page that no longer exists, for errors.
	retention Retention
	exact     bool // the entity of the position must also have the time of the position
}

func newSeek(url string, start Start) *seek {
	return &seek{url: url, position: start.position, latest: start.latest,
		active: start.latest || !start.position.IsZero(), exact: start.position.Identity != ""}
}

// after reports whether e, the next entity, comes after the start.
func (k *seek) after(e *feed.Entity) (bool, error) {
	if !k.active {
		return true, nil
	}
	if k.latest {
		return false, nil
	}
	newer := !k.position.LastModified.IsZero() && e.LastModified.After(k.position.LastModified)
	first := !k.begun
	k.begun = true
	switch {
	case first && newer: // otherwise the walk would have begun on an older page
		return false, &NotOldEnoughError{URL: k.url, Position: k.position, Oldest: e.LastModified, Retention: k.retention}
	case k.position.ContentID == "":
		k.active = e.LastModified.Before(k.position.LastModified)
		return !k.active, nil
	case e.ContentID == k.position.ContentID && (!k.exact || e.LastModified.Equal(k.position.LastModified)):
		k.active = false
		return false, nil
	case newer:
		return false, k.lost()
	}
	return false, nil
}

// end is called at the end of the feed. It returns an error if the start was not found.
func (k *seek) end() error {
	if k.active && k.position.ContentID != "" {
		return k.lost()
	}
	return nil
}

// left is called when a page has been read to its end. With latest, the start is at the end of the first page,
// which was the newest page when the walk began.
func (k *seek) left() {
	if k.latest {
		k.active = false
	}
}

func (k *seek) lost() error {
	return &ContentIDNotFoundError{URL: k.url, Position: k.position, Retention: k.retention}
}
