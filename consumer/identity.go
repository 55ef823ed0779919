package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// Causes of errors, to be matched with [errors.Is].
var (
	// ErrOtherFeed means that a URL leads to a different feed than before. Every [IdentityError] matches
	// it.
	ErrOtherFeed = errors.New("it is another feed")
	// ErrEpoch means that the feed was restored to an older state, and that entities read before may no
	// longer be in it. Every [EpochError] matches it.
	ErrEpoch = errors.New("the feed was restored to an older state")
)

// An IdentityError means that a page does not belong to the feed of the position, or of the page read
// before: the feed was deleted and made again, or another feed is served at its URL.
type IdentityError struct {
	Page     string // its URL
	Got      string // [feed.Identity.ID] of the page
	Want     string // identity of the position, or of the page before
	Position feed.Position
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("read page %s: %v with the identity %s, not %s: the feed was deleted and made again, or another one is served at this URL: "+
		"correct the URL, or start over with an empty sink", shown(e.Page), ErrOtherFeed, e.Got, e.Want)
}

// Is makes e match [ErrOtherFeed].
func (e *IdentityError) Is(target error) bool { return target == ErrOtherFeed }

// An EpochError means that the epoch of the feed is not that of the position (see [feed.Epoch]), and
// that the position is not in the history that the two epochs have in common.
type EpochError struct {
	URL      string     // the feed's entry point
	Epoch    feed.Epoch // current epoch of the feed; zero if its store was restored to a state without epochs
	Position feed.Position
	Err      error // the error that revealed this; nil if the position is later than the end of the common history
}

func (e *EpochError) Error() string {
	what, since := "", ""
	if e.Epoch.Number > 0 {
		what = fmt.Sprintf(" (epoch %d)", e.Epoch.Number)
		since = " after " + feed.FormatTime(e.Epoch.Last)
	}
	text := fmt.Sprintf("resume %s: %v%s: it no longer has the position, Content-ID %q of %s: what was read%s may be gone: "+
		"start over with an empty sink, or replay and keep it",
		e.URL, ErrEpoch, what, e.Position.ContentID, feed.FormatTime(e.Position.LastModified), since)
	if e.Err != nil {
		text += fmt.Sprintf(" (%v)", e.Err)
	}
	return text
}

// Is makes e match [ErrEpoch].
func (e *EpochError) Is(target error) bool { return target == ErrEpoch }

// Unwrap returns the error that revealed the change of epoch, or nil.
func (e *EpochError) Unwrap() error { return e.Err }

// since returns the time from which the feed must be read again in order not to miss anything.
func (e *EpochError) since() time.Time {
	at := e.Position.LastModified
	if e.Epoch.Number > 0 && e.Epoch.Last.Before(at) {
		return e.Epoch.Last
	}
	return at
}

// An origin identifies a feed and its epoch, as recorded in positions; see [feed.Position]. The origin
// of a session is zero until the newest page has been seen, since only that page states the current
// epoch.
type origin struct{ identity, epoch string }

func originOf(i feed.Identity) origin { return origin{i.ID, i.Epoch.ID} }

// at returns p with the identity and the epoch of o.
func (o origin) at(p feed.Position) feed.Position {
	p.Identity, p.Epoch = o.identity, o.epoch
	return p
}

// arrive checks that the start belongs to the feed, and returns the page to begin with.
func (w *walk) arrive() (*reading, error) {
	if err := w.enter(); err != nil {
		return nil, err
	}
	r, err := w.locate()
	if err == nil {
		err = w.recognize(r.page, w.start.position)
	}
	return r, w.explain(err)
}

// enter checks the start against the feed's entry point, if both may have an identity: only the entry
// point states the current epoch of the feed.
func (w *walk) enter() error {
	w.s.origin, w.doubt, w.entry = origin{}, nil, nil
	if at := w.start.position; at.Identity == "" && at.Prev == "" {
		return nil
	}
	p, err := w.entryPoint()
	w.entry = p
	return err
}

// entryPoint returns the newest page. It does not request the page again if enter has just done so.
func (w *walk) entryPoint() (*Page, error) {
	if p := w.entry; p != nil {
		w.entry = nil
		return p, nil
	}
	p, err := w.s.head(w.url)
	if err != nil {
		return nil, entryError(err)
	}
	return p, w.recognize(p, w.start.position)
}

// recognize checks that p belongs to the feed of the position that the walk has reached. If p is the
// newest page, recognize also records the epoch.
//
// If the epoch differs from that of the position, the position must be in the history that both epochs
// have in common. A position later than the end of this history is not in it. Any other position is in
// it if its entity is found, with the same time and after the same page; until then, a gap is an
// [EpochError].
func (w *walk) recognize(p *Page, reached feed.Position) error {
	now := p.chain.Identity
	if now.ID == "" {
		return nil
	}
	if reached.Identity != "" && reached.Identity != now.ID {
		return &IdentityError{Page: p.URL, Got: now.ID, Want: reached.Identity, Position: reached}
	}
	if !p.Newest() || w.s.origin == originOf(now) {
		return nil
	}
	if reached.Epoch != now.Epoch.ID {
		changed := &EpochError{URL: w.url, Epoch: now.Epoch, Position: reached}
		switch {
		case now.Epoch.Kept:
			w.seek.position.Prev = "" // the page before was rewritten
		case reached.Identity != "" && now.Epoch.Number > 0 && reached.LastModified.After(now.Epoch.Last):
			return changed
		}
		if reached.ContentID != "" {
			w.doubt, w.seek.exact = changed, true
		}
	}
	w.s.origin = originOf(now)
	return nil
}

// explain returns the error that ends the walk: err or, if err is a gap that shows that the position is
// from an epoch that is gone, an [EpochError].
func (w *walk) explain(err error) error {
	var id *ContentIDNotFoundError
	if w.doubt == nil || errors.Is(err, ErrEpoch) || !errors.As(err, &id) && !errors.Is(err, ErrTimeline) && !errors.Is(err, ErrPageChanged) {
		return err
	}
	found := *w.doubt
	found.Err = err
	return &found
}
