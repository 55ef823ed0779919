package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// maxCrawls is the maximum number of crawls if the page found is removed each time before it can be
// read.
const maxCrawls = 3

// locate returns the page with which the walk begins.
func (w *walk) locate() (*reading, error) {
	switch start := w.start; {
	case start.latest:
		r, err := w.request(w.url)
		return r, entryError(err)
	case start.position.ContentID != "" && start.position.Page != "":
		if r, err := w.revisit(start.position); r != nil || err != nil {
			return r, err
		}
	}
	for tries := 1; ; tries++ {
		r, err := w.find(w.seek.position.LastModified, tries < maxCrawls)
		var empty *emptyError
		if !gone(err) || errors.As(err, &empty) || tries == maxCrawls {
			return r, err
		}
	}
}

// find returns the first page, going back, that is strictly older than the given time, or else the
// oldest page. If jump is set, it uses links of the server that lead there directly.
func (w *walk) find(to time.Time, jump bool) (*reading, error) {
	entry, err := w.entryPoint()
	if err != nil {
		return nil, err
	}
	from := entry
	if !entry.reaches(to) {
		r, closer, err := w.approach(entry, to, jump)
		if r != nil || err != nil {
			return r, err
		}
		from = closer
	}
	p, err := w.crawl(from, to)
	if err != nil && from != entry && !Retryable(err) && !errors.Is(err, ErrTooLarge) && w.s.ctx.Err() == nil {
		w.s.config.Logger.WarnContext(w.s.ctx, "cannot search back from the page at which the search began, searching from the newest page", "error", err)
		w.recalled = false
		p, err = w.crawl(entry, to)
	}
	if err != nil {
		return nil, err
	}
	r, err := w.request(p.URL)
	if err == nil {
		err = sameTimeline(p, r.page)
	}
	return r, err
}

// reaches reports whether a crawl back to the given time ends with this page.
func (p *Page) reaches(to time.Time) bool { return p.Links.Prev == "" || p.LastModified.Before(to) }

func (w *walk) request(url string) (*reading, error) {
	r := w.s.newReading(url)
	return r, r.open()
}

// revisit returns the page of the position if it still has the entity of the position, which saves a
// crawl, or else nil.
func (w *walk) revisit(at feed.Position) (*reading, error) {
	r, err := w.request(at.Page)
	w.seek.retention = retentionOf(err)
	switch {
	case gone(err), errors.Is(err, ErrOrigin): // the feed has moved
		return nil, nil
	case err != nil:
		return nil, err
	}
	found := false
	err = r.each(func(e *Entity) bool {
		found = e.ContentID == at.ContentID && (at.Identity == "" || e.LastModified.Equal(at.LastModified))
		return !found
	})
	if gone(err) {
		err = nil // the page was removed while it was being read
	}
	if err != nil || !found {
		r.close()
		return nil, err
	}
	w.seek.active = false
	w.modified = r.last.lastModified
	return r, w.follows(r.page.URL, r.page.chain.Prev)
}

// crawl goes back from p, page by page, to the first page that is strictly older than the given
// time, or to the oldest page.
func (w *walk) crawl(p *Page, to time.Time) (*Page, error) {
	var loop cycle
	search := w.newSearch(p, to)
	defer search.end()
	for {
		if err := loop.visit(p.URL); err != nil {
			return nil, err
		}
		search.reached(p)
		if p.reaches(to) {
			return p, nil
		}
		if search.Pages == w.s.config.MaxPages {
			return nil, &PageError{URL: p.URL, Part: -1, Err: fmt.Errorf("crawl back from the entry point: %w of %d pages", ErrTooLarge, search.Pages)}
		}
		older, err := w.s.head(p.Links.Prev)
		if gone(err) {
			// The prev link may come from a stale cache.
			w.s.config.Logger.WarnContext(w.s.ctx, "older pages are gone", "error", err)
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		if err := checkNeighbours(older, p, p.Links.Prev, older.URL); err != nil {
			return nil, err
		}
		p = older
	}
}

// head requests a page without its body.
func (s *session) head(url string) (*Page, error) {
	resp, err := s.send(Request{URL: url, Head: true})
	if err != nil {
		return nil, s.explain(err)
	}
	resp.Body.Close()
	if resp.Answer != Whole {
		return nil, emptyAnswer(url)
	}
	return newFeedPage(resp)
}

// explain returns the error from a HEAD request together with the server's explanation. It makes a
// GET request, since the explanation is in the body of the response.
func (s *session) explain(err error) error {
	var status, why *StatusError
	if !errors.As(err, &status) || Retryable(err) {
		return err
	}
	resp, again := s.try(Request{URL: status.URL})
	if again == nil {
		resp.Body.Close()
	}
	if errors.As(again, &why) && why.StatusCode == status.StatusCode {
		return why
	}
	return err
}

// checkNeighbours checks two adjacent pages. One of them was found by following a link to url in the
// other; self is the self link of the page that was found.
func checkNeighbours(older, newer *Page, url, self string) error {
	violation := func(p *Page, err error) error { return &PageError{URL: p.URL, Part: -1, Err: err} }
	switch {
	case self != url:
		return &PageError{URL: url, Part: -1, Err: fmt.Errorf("%w: its self link is %s", ErrLinks, self)}
	case feed.Differ(older.chain.Identity.ID, newer.chain.Identity.ID):
		return &IdentityError{Page: older.URL, Got: older.chain.Identity.ID, Want: newer.chain.Identity.ID}
	case feed.Differ(older.chain.Self, newer.chain.Prev):
		return &TimelineError{Page: newer.URL, Other: older.URL}
	case older.Links.Next != newer.URL:
		return violation(older, fmt.Errorf("%w: next link is %q, but %s has it as prev link", ErrLinks, older.Links.Next, newer.URL))
	case newer.Links.Prev != "" && newer.Links.Prev != older.URL: // an old page may lose its prev link
		return violation(newer, fmt.Errorf("%w: prev link is %q, but %s has it as next link", ErrLinks, newer.Links.Prev, older.URL))
	case newer.LastModified.Before(older.LastModified):
		return violation(newer, fmt.Errorf("%w: from %s on %s to %s", ErrTimeOrder,
			feed.FormatTime(older.LastModified), older.URL, feed.FormatTime(newer.LastModified)))
	}
	return nil
}

// A cycle detects, in constant memory, that links lead back to a page visited before. Where prev and
// next links agree, this page can only be the first one, which is detected at once. For other loops,
// a second page is remembered, and replaced whenever the number of steps has doubled (Brent's
// algorithm).
type cycle struct {
	first string
	saved string
	steps int // since saved
	power int
}

func (c *cycle) visit(url string) error {
	if url == c.first || url == c.saved {
		return &PageError{URL: url, Part: -1, Err: ErrLoop}
	}
	if c.first == "" {
		c.first = url
	}
	if c.steps == c.power {
		c.saved, c.power, c.steps = url, max(1, 2*c.power), 0
	}
	c.steps++
	return nil
}
