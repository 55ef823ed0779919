package consumer

import (
	"errors"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
)

// await waits until the newest page r may have more entities or a next link.
//
// A server that supports "Prefer: wait" (RFC 7240) holds the request until there is something new,
// and is polled again at once. If a server responds early twice in a row although there is nothing
// new, it is polled again after a growing pause.
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
		w.s.idle()
	}
}

// pollPause returns how long to wait before poll n, counting from 1.
func (w *walk) pollPause(n int) time.Duration {
	c := &w.s.config
	return backoff.Backoff{Min: min(c.Retry.Min, c.PollInterval), Max: c.PollInterval}.After(n)
}

// poll polls once, and makes r read the response if the page has changed.
func (w *walk) poll(r *reading) (news bool, err error) {
	q := Request{URL: r.page.URL, ETag: r.page.etag, Wait: w.s.config.Wait}
	if q.ETag != "" && !w.noRanges {
		q.Offset = r.last.offset // request the last entity read, to recognize it, and the bytes after it
	}
	if w.quiet == 1 && w.s.config.Idle != nil {
		q.Wait = 0 // after new entities, find out at once whether there are more
	}
	begun := time.Now()
	resp, err := w.s.send(q)
	var status *StatusError
	if errors.As(err, &status) && status.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return true, r.open() // the page may have been replaced by a shorter one
	}
	if err != nil {
		return false, err
	}
	w.held = time.Since(begun) >= q.Wait/2
	if resp.Answer == NotModified {
		resp.Body.Close()
		return w.linked(r, resp)
	}
	w.noRanges = w.noRanges || q.Offset > 0 && resp.Answer == Whole
	if err := r.start(resp); err != nil && resp.Answer == Part {
		return true, r.open() // perhaps the whole page can be read
	} else if err != nil {
		return false, err
	}
	return true, nil
}

// linked reports whether an unchanged page now has a next link. The link is part of the
// response, not of the page, so it need not change the entity tag.
func (w *walk) linked(r *reading, resp *response) (bool, error) {
	next := resp.Links.Next
	if resp.Links == (feed.Links{}) {
		p, err := w.s.head(r.page.URL)
		if err != nil {
			return false, err
		}
		next = p.Links.Next
	}
	if next == "" {
		return false, w.recognize(&Page{URL: r.page.URL, chain: resp.Chain}, w.position(r))
	}
	return true, r.open()
}

func (s *session) idle() {
	if s.config.Idle != nil {
		s.config.Idle()
	}
}
