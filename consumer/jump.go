package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// maxJumps is how many attempts are made to follow a link while the error may be temporary. If all of them
// fail, the client waits for the server, and then makes as many more, since a crawl may take much longer
// than the pauses between attempts.
const maxJumps = 4

// errJump means that a link of the server leads to a wrong page.
var errJump = errors.New("server's link leads to the wrong page")

// approach shortens a crawl from the entry point to a time. If jump is set, it follows a link of the entry
// point that leads to where the crawl would end: to the oldest page, or to the page of the given time (RFC
// 7089). If a crawl would end with that page, approach returns it as a reading. Otherwise it returns the
// page to crawl back from: the page of the link if it belongs to the feed, a page that an earlier crawl
// has passed, or the entry point. Thus a wrong link costs time, but no entity is lost.
func (w *walk) approach(entry *Page, to time.Time, jump bool) (*reading, *Page, error) {
	q := Request{URL: entry.Links.First}
	if !to.IsZero() {
		q = Request{URL: entry.Links.Timegate, At: to}
	}
	if q.URL == "" || !jump {
		return nil, w.remembered(entry, to), nil
	}
	r, err := w.land(q, entry)
	if Retryable(err) {
		r.close()
		if _, away := w.s.head(w.url); away != nil { // waits for the server
			return nil, nil, away
		}
		r, err = w.land(q, entry)
	}
	switch ended := w.s.ctx.Err(); {
	case ended != nil:
		return r, nil, ended
	case gone(err): // the page was pruned after the link was made
		return r, nil, err
	case err != nil:
		w.s.config.Logger.WarnContext(w.s.ctx, "cannot jump to the start of the feed, searching for it page by page", "error", err)
		r.close()
		return nil, w.remembered(entry, to), nil
	case r.page.reaches(to):
		return r, nil, nil
	}
	r.close()
	return nil, r.page, nil
}

// land requests the page that a link leads to, and checks that it belongs to the feed.
func (w *walk) land(q Request, entry *Page) (*reading, error) {
	r := w.s.newReading(q.URL)
	resp, err := w.s.sendSome(q, maxJumps)
	if err != nil {
		return r, err
	}
	at := resp.URL
	if err := r.start(resp); err != nil {
		return r, err
	}
	p := r.page
	switch {
	case p.URL != q.URL && q.At.IsZero(), p.URL != at && at != q.URL:
		err = fmt.Errorf("%w: %s leads to %s, whose self link is %s", errJump, shown(q.URL), shown(at), shown(p.URL))
	case !p.sameFeed(entry):
		err = fmt.Errorf("%w: nothing shows that %s, which %s leads to, belongs to the feed", errJump, shown(p.URL), shown(q.URL))
	case p.LastModified.After(entry.LastModified):
		err = fmt.Errorf("%w: %s, which %s leads to, is newer than the newest page", errJump, shown(p.URL), shown(q.URL))
	default:
		err = sameTimeline(entry, p)
	}
	return r, err
}

// sameFeed reports whether p and other are known to belong to the same feed, by the feed's identity or by
// the link to its entry point.
func (p *Page) sameFeed(other *Page) bool {
	id, last := other.chain.Identity.ID, other.Links.Last
	return !p.otherFeed(other) && (id != "" && p.chain.Identity.ID == id || last != "" && p.Links.Last == last)
}

// otherFeed reports whether p and other are known to belong to different feeds.
func (p *Page) otherFeed(other *Page) bool {
	return feed.Differ(p.chain.Identity.ID, other.chain.Identity.ID) || feed.Differ(p.Links.Last, other.Links.Last)
}

// remembered returns the page to crawl back from. Of the pages that earlier crawls have passed, it is the
// oldest one that is not older than the given time and still exists; if there is none, it is the entry
// point.
func (w *walk) remembered(entry *Page, to time.Time) *Page {
	stones, found := w.s.way(w.url).since(to), entry
	for low, next, high := 0, 0, len(stones); low < high; next = low + (high-low)/2 {
		m := stones[next]
		p, err := w.s.head(m.URL)
		switch {
		case gone(err): // the page was pruned, like all pages before it
			low = next + 1
		case err != nil || p.URL != m.URL || p.Newest() || p.LastModified.After(entry.LastModified) || p.otherFeed(entry):
			return found // no longer a page of the feed
		default:
			found, high = p, next
		}
	}
	w.recalled = found != entry
	return found
}

// checkArrival checks, at the end of a walk that began at a remembered page, that the walk has reached the
// entry point: the server may still have pages of a feed that was replaced by another.
func (w *walk) checkArrival(end *Page) error {
	if !w.recalled {
		return nil
	}
	newest, err := w.s.head(w.url)
	if err != nil {
		return err
	}
	own, err := w.s.head(end.URL)
	if err == nil && newest.URL != end.URL && own.Newest() {
		w.s.way(w.url).forget()
		return &TimelineError{Page: end.URL, Other: w.url}
	}
	w.recalled = err != nil
	return nil
}
