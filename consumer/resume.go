package consumer

import (
	"time"

	"github.com/feedctl/feedctl/feed"
)

// maxMissing is how many times the position is searched for again without progress, when a page is
// missing although the feed still has the entities before that page.
const maxMissing = 3

// position returns the position that the walk has reached, or the zero position.
func (w *walk) position(r *reading) feed.Position {
	switch {
	case w.seek.active:
		return w.seek.position
	case r.seen > 0:
		return w.s.origin.at(feed.Position{LastModified: r.last.lastModified, ContentID: r.last.contentID, Page: r.page.URL, Prev: r.page.chain.Prev})
	}
	return w.left
}

// before returns a position from which the current page, marked as damaged, is read again from its
// first entity or from the start of the walk. If the walk did not reach the page from the previous
// one, the position is a time, so other entities of the same second may be read again, too.
func (w *walk) before(r *reading) feed.Position {
	before, start := w.s.origin.at(feed.Position{LastModified: r.oldest}), w.start.position
	switch {
	case !w.left.IsZero() && w.left.Page != r.page.URL:
		before = w.left
	case start.ContentID == "" && start.LastModified.After(r.oldest):
		before = start
	}
	before.Damaged = r.page.URL
	return before
}

// resume searches from the entry point for the position that the walk has reached. It is called
// after a request for r or for the next page failed with the error missing. If the position cannot
// be found, entities may have been missed, and the search ends with an error that says so. If it is
// found, either the server's answer was wrong or the page has moved: the walk continues, unless
// this has happened too often.
func (w *walk) resume(r *reading, missing error) (*reading, error) {
	reached := w.position(r)
	if d := w.doubt; d != nil { // no entity has shown yet that the position is also in the current epoch
		reached.Identity, reached.Epoch = d.Position.Identity, d.Position.Epoch
	}
	if w.missing++; reached.IsZero() || w.missing > maxMissing {
		if timeline := w.checkEnd(); timeline != nil {
			return r, withPosition(reached, timeline)
		}
		return r, missing
	}
	w.s.config.Logger.WarnContext(w.s.ctx, "page is missing, searching for the position again", "error", missing)
	if w.missing > 1 {
		if err := w.s.config.Retry.backoff().Wait(w.s.ctx, w.missing-1); err != nil {
			return r, err
		}
	}
	r.close()
	if w.next != nil {
		w.next.abandon()
		w.next = nil
	}
	w.ahead.drop()
	w.seek, w.left = newSeek(w.url, After(reached)), reached
	w.seek.retention = retentionOf(missing)
	reached.Page = "" // find the position by the chain, not by its page
	w.start = After(reached)
	w.loop, w.modified = cycle{}, time.Time{}
	return w.begin()
}
