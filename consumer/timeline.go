package consumer

import (
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/feed"
)

// ErrTimeline means that a server, or a cache in front of it, returns pages of more than
// one timeline of the feed. Every [TimelineError] matches it.
var ErrTimeline = errors.New("pages are from two timelines of the feed")

// A TimelineError means that two pages do not follow each other although they should: the feed's
// store was restored to an older state, and a cache or a server still has pages from before the
// restore. Entities that were read may no longer be in the feed, and entities that replaced them
// may have been missed.
type TimelineError struct {
	Page string // URL of the page that does not fit
	// Other is the URL of the page that contradicts Page. It is empty if Page no longer follows the
	// same page as when the position was recorded.
	Other string
	// Position that was reached, or zero.
	Position feed.Position
}

func (e *TimelineError) Error() string {
	why := "follows a different page than when the position was recorded"
	switch e.Other {
	case "":
	case e.Page:
		why = "exists in two versions"
	default:
		why = fmt.Sprintf("does not belong with page %s", shown(e.Other))
	}
	return fmt.Sprintf("read page %s: %v: it %s: the feed was restored to an older state: "+
		"restart its servers and purge the caches in front of them, then replay or start over from a snapshot", shown(e.Page), ErrTimeline, why)
}

// Is makes e match [ErrTimeline].
func (e *TimelineError) Is(target error) bool { return target == ErrTimeline }

// sameTimeline checks that two responses for the same page are from one timeline.
func sameTimeline(before, now *Page) error {
	if before.URL == now.URL && before.chain.Contradicts(now.chain) {
		return &TimelineError{Page: now.URL, Other: before.URL}
	}
	return nil
}

// follows checks that the page with the entity of the start position still follows the same page as
// it did when the position was recorded.
func (w *walk) follows(page, prev string) error {
	if feed.Differ(w.seek.position.Prev, prev) {
		return &TimelineError{Page: page}
	}
	return nil
}

// checkEnd returns a [TimelineError] if the newest page has a next link when requested at its own
// URL, but not at the URL of the feed. The response at its own URL then comes from a cache, and the
// page to which it links no longer belongs to the feed.
func (w *walk) checkEnd() error {
	newest, err := w.s.head(w.url)
	if err != nil || !newest.Newest() {
		return nil
	}
	own, err := w.s.head(newest.URL)
	if err != nil || own.Newest() {
		return nil
	}
	if again, err := w.s.head(w.url); err != nil || !again.Newest() || again.URL != newest.URL {
		return nil // the newest page now has a next page
	}
	return &TimelineError{Page: own.URL, Other: w.url}
}

// withPosition adds a position to err if that is a [TimelineError] without one.
func withPosition(position feed.Position, err error) error {
	var timeline *TimelineError
	if errors.As(err, &timeline) && timeline.Position.IsZero() {
		timeline.Position = position
	}
	return err
}
