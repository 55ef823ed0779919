package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// An Until is a place in a feed at which a [Job] ends. The zero Until is the end of the feed.
type Until struct {
	time      time.Time // in whole seconds
	contentID string
}

// UntilTime ends after the last entity whose Last-Modified is t, rounded down to a whole second, or
// earlier: all entities of that second are included. By the clock of this machine, the second must be
// over, since otherwise more entities of that second may follow.
func UntilTime(t time.Time) Until { return Until{time: feed.Truncate(t)} }

// UntilContentID ends after the entity with this Content-ID. The feed is searched for the entity before
// anything is applied, so that a Job never goes past it. Therefore, entities after the start are read
// twice.
func UntilContentID(id string) Until { return Until{contentID: id} }

// IsZero reports whether u is the end of the feed.
func (u Until) IsZero() bool { return u == Until{} }

// Time returns the time of u in whole seconds, or the zero time if u is not a time.
func (u Until) Time() time.Time { return u.time }

// ContentID returns the Content-ID of u, or "" if u is not a Content-ID.
func (u Until) ContentID() string { return u.contentID }

// String returns the time in the format of RFC 3339, or the Content-ID.
func (u Until) String() string {
	if u.contentID != "" {
		return u.contentID
	}
	return u.time.UTC().Format(time.RFC3339)
}

// ErrNotOver means that the time of [Job.Until] is not over yet.
var ErrNotOver = errors.New("that time is not over: more entities with that time may follow")

// A PassedError means that the start of a [Job] is past [Job.Until]. Nothing was applied.
type PassedError struct {
	URL   string // the feed's entry point
	Until Until
	// Position is the position of the sink or, if Snapshot is not empty, of the snapshot at that URL.
	Position feed.Position
	Snapshot string
}

func (e *PassedError) Error() string {
	what := "the position"
	if e.Snapshot != "" {
		what = "snapshot " + shown(e.Snapshot)
	}
	return fmt.Sprintf("read %s until %s: %s is past it, at %s", e.URL, e.Until, what, feed.FormatTime(e.Position.LastModified))
}

// An UntilNotFoundError means that the feed has no entity with the Content-ID of [Job.Until]. Nothing
// was applied.
type UntilNotFoundError struct {
	URL       string // the feed's entry point
	ContentID string
}

func (e *UntilNotFoundError) Error() string {
	return fmt.Sprintf("read %s until Content-ID %q: the feed does not have it", e.URL, e.ContentID)
}

// Check returns an error that matches [ErrNotOver] if u is a time that is not over yet.
func (u Until) Check() error {
	if u.contentID == "" && time.Since(u.time) < time.Second {
		return fmt.Errorf("read until %s: %w", u, ErrNotOver)
	}
	return nil
}

// An ending describes how far a run has come towards its Until.
type ending struct {
	found   time.Time // Last-Modified of the entity with the Content-ID; zero until it has been found
	reached bool      // no further entities are to be applied
}

// checkUntil returns an error if Until cannot be combined with the other settings.
func (j *Job) checkUntil() error {
	switch {
	case j.Until.IsZero():
		return nil
	case j.Client.config.Follow:
		return errors.New("a Client that follows does not end: Until needs one without Follow")
	case j.NewestFirst:
		return errors.New("Until needs a feed that is read in order: not NewestFirst")
	case j.From.latest:
		return errors.New("Until is always before the newest entity: it needs a From other than Latest")
	}
	return j.Until.Check()
}

// errFilling means that the entities that the sink is still missing are before its position.
var errFilling = errors.New("the sink is being filled newest first: consume to the end first, without Until")

// latest returns the maximum time of the position of a snapshot with which the run may begin, or zero
// if there is no limit. If Until is a Content-ID, this is the second before the time of its entity,
// since a snapshot of the same second may include later entities.
func (r *run) latest(ctx context.Context) (time.Time, error) {
	if r.Until.contentID == "" {
		return r.Until.time, nil
	}
	if r.end.found.IsZero() {
		if found, err := r.search(ctx, Beginning(), r.Until.contentID); err != nil {
			return time.Time{}, err
		} else if !found {
			return time.Time{}, &UntilNotFoundError{URL: r.lag.url, ContentID: r.Until.contentID}
		}
	}
	return r.end.found.Add(-time.Second), nil
}

// checkStart checks that a position in the feed is not past Until, before anything after the position
// is applied. The parameter snapshot is the URL of the snapshot that ends at this position, or empty.
func (r *run) checkStart(ctx context.Context, at feed.Position, snapshot string) error {
	passed := &PassedError{URL: r.lag.url, Until: r.Until, Position: at, Snapshot: snapshot}
	id := r.Until.contentID
	switch {
	case r.Until.IsZero():
		return nil
	case id == "" && at.LastModified.After(r.Until.time), id != "" && !r.end.found.IsZero() && at.LastModified.After(r.end.found):
		return passed
	case id == "", at.LastModified.Before(r.end.found):
		return nil
	case at.ContentID == id:
		r.end.reached = true
		return nil
	}
	found, err := r.search(ctx, After(at), id)
	if err != nil || found {
		return err
	}
	if !at.IsZero() {
		if found, err = r.search(ctx, Beginning(), id); err != nil {
			return err
		} else if found {
			return passed
		}
	}
	return &UntilNotFoundError{URL: r.lag.url, ContentID: id}
}

// search reports whether the feed has an entity with the given Content-ID after start, and records its
// time.
func (r *run) search(ctx context.Context, start Start, contentID string) (bool, error) {
	found, err := r.Client.find(ctx, r.URL, start, contentID)
	if !found.IsZero() {
		r.end.found = found
	}
	return !found.IsZero(), err
}

// ends reports whether e, an entity of the feed or of a snapshot before it, comes after Until.
func (r *run) ends(e *Entity) bool {
	if e.index != "" {
		return false
	}
	if r.Until.contentID == "" && !r.Until.IsZero() && e.LastModified.After(r.Until.time) {
		r.end.reached = true
	}
	return r.end.reached
}

// applied records whether e, which has been applied, is the entity of Until.
func (r *run) applied(e *Entity) {
	if e.index == "" && r.Until.contentID != "" && e.ContentID == r.Until.contentID {
		r.end.reached = true
	}
}
