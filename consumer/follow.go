package consumer

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
)

// await waits until the newest page r may have more: entities or a next link.
//
// A server that knows "Prefer: wait" (RFC 7240) holds the request until there
// is something new, and is asked again at once. One that answers soon, and
// twice in a row with nothing new, is asked again after a pause that grows.
func (w *walk) await(r *reading) error {
	for {
		if w.quiet > 1 && !w.held {
			if err := backoff.Sleep(w.s.ctx, w.pollPause(w.quiet-1)); err != nil {
				return err
			}
		}
		w.quiet++
		news, err := w.poll(r)
		if news || err != nil {
			return err
		}
	}
}

// pollPause returns how long to wait before the nth poll, from 1.
func (w *walk) pollPause(n int) time.Duration {
	c := &w.s.config
	return backoff.Backoff{Min: min(c.Retry.Min, c.PollInterval), Max: c.PollInterval}.After(n)
}

// poll asks once whether there is news, and makes it what r reads.
func (w *walk) poll(r *reading) (news bool, err error) {
	q := request{method: http.MethodGet, url: r.page.URL, etag: r.page.etag(), wait: w.s.config.Wait}
	if q.etag != "" && !w.noRanges {
		q.offset = r.last.offset // only what comes after what is known, and that to know it again
	}
	begun := time.Now()
	resp, err := w.s.send(q)
	var status *StatusError
	if errors.As(err, &status) && status.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return true, r.open() // which finds out what became of the page
	}
	if err != nil {
		return false, err
	}
	w.held = time.Since(begun) >= q.wait/2
	if resp.status == http.StatusNotModified {
		resp.body.Close()
		return w.linked(r, resp)
	}
	w.noRanges = w.noRanges || q.offset > 0 && resp.status == http.StatusOK
	if err := r.start(resp); err != nil && resp.status == http.StatusPartialContent {
		return true, r.open() // the whole page may say what a part does not
	} else if err != nil {
		return false, err
	}
	return true, nil
}

// linked looks whether a page that has not changed has a next link now: it is
// part of the response and not of the page, so that an entity tag need not tell.
func (w *walk) linked(r *reading, resp *response) (bool, error) {
	var next string
	if len(resp.header.Values("Link")) > 0 {
		links, err := feed.ParseLinks(resp.url, resp.header)
		if err != nil {
			return false, &PageError{URL: r.page.URL, Part: -1, Err: fmt.Errorf("%w: %w", ErrLinks, err)}
		}
		next = links.Next
	} else {
		p, err := w.s.head(r.page.URL)
		if err != nil {
			return false, err
		}
		next = p.Links.Next
	}
	if next == "" {
		return false, nil
	}
	return true, r.open()
}
