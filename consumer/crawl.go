package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// maxCrawls is how many crawls are made if the page found is removed before it can
// be read.
const maxCrawls = 3

// locate returns the page to begin the walk with.
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
		p, err := w.crawl(w.seek.position.LastModified)
		if err != nil {
			return nil, err
		}
		r, err := w.request(p.URL)
		if err == nil {
			err = sameTimeline(p, r.page)
		}
		if !gone(err) || tries == maxCrawls {
			return r, err
		}
	}
}

func (w *walk) request(url string) (*reading, error) {
	r := w.s.newReading(url)
	return r, r.open()
}

// revisit returns the page of the position if it still has the entity, which saves a
// crawl, or else nil.
func (w *walk) revisit(at feed.Position) (*reading, error) {
	r, err := w.request(at.Page)
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
		err = nil // removed while it was read
	}
	if err != nil || !found {
		r.close()
		return nil, err
	}
	w.seek.active = false
	w.modified = r.last.lastModified
	return r, w.follows(r.page.URL, r.page.chain.Prev)
}

// crawlReport is how many pages a crawl goes back between log messages, which show a
// feed whose prev links never end.
const crawlReport = 10_000

// crawl goes back from the entry point, page by page, to the first page that
// is strictly older than a time, or to the oldest page.
func (w *walk) crawl(to time.Time) (*Page, error) {
	var loop cycle
	var newer *Page
	url := w.url
	for pages := 1; ; pages++ {
		if pages%crawlReport == 0 {
			w.s.config.Logger.InfoContext(w.s.ctx, "searching for the start of the feed", "pages", pages, "at", redact(url))
		}
		p, err := w.s.head(url)
		if newer != nil && gone(err) {
			// The prev link may come from a stale cache.
			w.s.config.Logger.WarnContext(w.s.ctx, "older pages are gone", "error", err)
			return newer, nil
		}
		switch {
		case err != nil && newer == nil:
			return nil, entryError(err)
		case err != nil:
			return nil, err
		case newer != nil:
			if err := checkNeighbours(p, newer, url, p.URL); err != nil {
				return nil, err
			}
		}
		if err := loop.visit(p.URL); err != nil {
			return nil, err
		}
		if p.Links.Prev == "" || p.LastModified.Before(to) {
			return p, nil
		}
		if pages == w.s.config.MaxPages {
			return nil, &PageError{URL: p.URL, Part: -1, Err: fmt.Errorf("%w of %d pages back from the entry point, and there are older pages", ErrTooLarge, pages)}
		}
		newer, url = p, p.Links.Prev
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

// explain returns err, the error of a HEAD request, with the server's explanation,
// which is in the body of a GET response only.
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

// checkNeighbours checks two adjacent pages. One of them was found by a link of the
// other to url, and its self link is self.
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

// A cycle detects, in constant memory, that links lead back to a page visited before.
// Where prev and next links agree, that can only be the first page, which is detected
// at once. Otherwise a second page is remembered, and replaced after each doubling of
// the number of steps (Brent's algorithm).
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
