package consumer

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
)

// A walk reads a feed from page to page, in order.
type walk struct {
	s     *session
	url   string // the feed's entry point
	start Start
	seek  *seek
	next  *fetch // the page after the current one, if it has been requested
	ahead *ahead // the pages after that

	loop     cycle
	modified time.Time     // of the entity before
	left     feed.Position // after the page before
	gone     error         // the current page no longer exists
	missing  int           // how many times in a row a page was missing
	quiet    int           // polls in a row without new entities
	held     bool          // the server held the last poll for a long time
	noRanges bool          // the server ignores Range
	recalled bool          // the walk began at a page that an earlier crawl had passed
	entry    *Page         // the newest page, requested when the walk began and not used yet
	doubt    *EpochError   // the error if a gap is found before the next entity; see recognize
	err      error         // ends the walk
}

// feedPages yields the pages of a feed from start on.
func (s *session) feedPages(url string, start Start) iter.Seq2[*Page, error] {
	return func(yield func(*Page, error) bool) {
		s.newWalk(url, start).run(yield)
	}
}

func (s *session) newWalk(url string, start Start) *walk {
	return &walk{s: s, url: url, start: start, seek: newSeek(url, start), ahead: newAhead(s)}
}

func (w *walk) run(yield func(*Page, error) bool) {
	r, err := w.begin()
	defer func() {
		if r != nil {
			r.close()
		}
		w.abandonNext()
	}()
	for err == nil && r != nil {
		w.prefetch(r)
		r.recognize = func(p *Page) error { return w.recognize(p, w.position(r)) }
		r.page.entities = entities(func(fn func(*Entity) bool) error { return w.read(r, fn) })
		r.page.last = func() mark { return r.last }
		r.page.before = func() feed.Position { return w.before(r) }
		if !yield(r.page, nil) {
			return
		}
		r, err = w.leave(r)
	}
	if err != nil {
		yield(nil, w.explain(err))
	}
}

// begin returns the first page, or nil if the feed is empty and the client does not
// follow. A server answers 204 for an empty feed, since a multipart document has at least
// one part (RFC 2046, section 5.1.1), and 404 for a feed that does not exist.
func (w *walk) begin() (*reading, error) {
	for try := 1; ; try++ {
		r, err := w.arrive()
		var empty *emptyError
		switch {
		case err == nil:
			return r, w.loop.visit(r.page.URL)
		case !errors.As(err, &empty):
			return r, withPosition(w.seek.position, err)
		case empty.missing() && (!w.s.follow || w.seek.position.ContentID != ""):
			return nil, empty.error
		case !w.s.follow || w.seek.position.ContentID != "":
			return nil, w.seek.end()
		}
		if missing := w.s.config.Missing; missing != nil && try == 1 && empty.missing() {
			missing(w.s.ctx)
		}
		w.s.idle()
		w.start, w.seek = Beginning(), newSeek(w.url, Beginning()) // read the feed from its beginning once it has entities
		pause := w.pollPause(try)
		w.s.config.Logger.InfoContext(w.s.ctx, "feed is empty, waiting", "url", w.url, "pause", pause)
		if err := backoff.Sleep(w.s.ctx, pause); err != nil {
			return nil, err
		}
	}
}

// An emptyError means that the entry point has no page.
type emptyError struct{ error }

func (e *emptyError) Unwrap() error { return e.error }
func (e *emptyError) missing() bool { return !errors.Is(e.error, errEmpty) }

// errEmpty means that the feed exists, but has no entity yet.
var errEmpty = errors.New("feed is empty")

// emptyAnswer returns the error for a response without a page.
func emptyAnswer(at string) error { return fmt.Errorf("get %s: %w", shown(at), errEmpty) }

// entryError returns err, the error of the entry point, as an [*emptyError] if it means
// that the feed has no page.
func entryError(err error) error {
	var status *StatusError
	if errors.As(err, &status) && status.StatusCode == http.StatusNotFound || errors.Is(err, ErrNotFound) || errors.Is(err, errEmpty) {
		return &emptyError{err}
	}
	return err
}

// entities returns an iterator over the entities with which read calls fn.
func entities(read func(fn func(*Entity) bool) error) func(yield func(*Entity, error) bool) {
	return func(yield func(*Entity, error) bool) {
		more := true
		err := read(func(e *Entity) bool {
			more = yield(e, nil)
			return more
		})
		if err != nil && more {
			yield(nil, err)
		}
	}
}

// read calls fn with the new entities of a page that come after the start, and
// returns the error that ends the walk.
func (w *walk) read(r *reading, fn func(*Entity) bool) error {
	if w.err != nil || w.gone != nil {
		return w.err
	}
	err := r.each(func(e *Entity) bool {
		var wanted bool
		if wanted, w.err = w.pass(e); w.err != nil {
			return false
		}
		return !wanted || fn(e)
	})
	if gone(err) && !w.position(r).IsZero() {
		w.gone, err = err, nil // leave handles it
	}
	if w.err == nil {
		w.err = err
	}
	w.err = w.explain(withPosition(w.position(r), w.err))
	return w.err
}

// pass checks that e is not older than the entity before it, and reports whether e comes after the
// start.
func (w *walk) pass(e *Entity) (bool, error) {
	if e.LastModified.Before(w.modified) {
		return false, &PageError{URL: e.Page, Part: e.Part, Offset: e.Offset, Err: fmt.Errorf("%w: from %s to %s",
			ErrTimeOrder, feed.FormatTime(w.modified), feed.FormatTime(e.LastModified))}
	}
	w.modified = e.LastModified
	w.quiet = 0
	sought := w.seek.active
	wanted, err := w.seek.after(&e.Entity)
	if err == nil && sought && !w.seek.active && !wanted { // e is the entity of the position
		err = w.follows(e.Page, e.prev)
	}
	if wanted {
		w.missing, w.doubt = 0, nil
	}
	return wanted, err
}

// leave reads the rest of a page, and returns the page with which to continue: the next page, the
// same page once it has grown, or nil at the end of the feed.
func (w *walk) leave(r *reading) (*reading, error) {
	if err := w.read(r, func(*Entity) bool { return true }); err != nil {
		return r, err
	}
	if missing := w.gone; missing != nil {
		w.gone = nil
		return w.resume(r, missing)
	}
	w.seek.left()
	if r.page.Newest() {
		if err := w.seek.end(); err != nil {
			return r, err
		}
		if err := w.checkArrival(r.page); err != nil {
			return r, withPosition(w.position(r), err)
		}
		if !w.s.follow {
			return nil, nil
		}
		err := w.await(r)
		if gone(err) {
			return w.resume(r, err)
		}
		return r, withPosition(w.position(r), err)
	}
	w.prefetch(r) // needed if the next link is new
	asked := r.page.Links.Next
	if !w.next.ready() {
		w.ahead.waited()
	}
	next, err := w.next.wait()
	w.next = nil
	if gone(err) {
		return w.resume(r, err)
	}
	if err != nil {
		return next, err
	}
	if err := checkNeighbours(r.page, next.page, asked, next.page.URL); err != nil {
		return next, withPosition(w.position(r), err)
	}
	if err := w.recognize(next.page, w.position(r)); err != nil {
		return next, err
	}
	w.left = w.position(r)
	return next, w.loop.visit(next.page.URL)
}

// prefetch requests the page after r, if there is one, and further pages ahead.
func (w *walk) prefetch(r *reading) {
	if r.page.Newest() {
		w.ahead.end()
		return
	}
	if w.next == nil {
		if w.next = w.ahead.take(r.page.Links.Next); w.next == nil {
			w.next = w.s.fetch(w.s.newReading(r.page.Links.Next))
		}
	}
	w.ahead.extend(r.page, w.next.url)
}

func (w *walk) abandonNext() {
	if w.next != nil {
		w.s.cancel() // nothing else is needed
		w.next.abandon()
	}
	w.ahead.drop()
}
