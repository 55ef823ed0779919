package consumer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// A reading reads the entities of one page, in spite of connections that
// break: it requests the page again and skips what it has given out already.
// It can stop after any entity and go on later.
type reading struct {
	s      *session
	url    string // asked for
	index  string // in a snapshot, the URL of its index
	number int    // in a snapshot, the number of the page
	// In a snapshot, the time of an entity that has none.
	created time.Time
	page    *Page // nil before the first response

	body     *readAhead // nil if the page has to be requested (again)
	buffer   *[]byte    // of body
	verified bool       // the end of body is an error if it is not as it was sent
	from     int        // what seen was when body was new
	doubt    prefix     // of a body that broke before it was known whether it is as it was sent
	fresh    bool       // the session's parser has to be set to body
	finished bool       // the page was read to its end

	first  int       // index in the page of the first part in body
	base   int64     // offset in the page of the first part in body
	seen   int       // parts that were given out, or that the caller has by other means
	oldest time.Time // of the first entity of the page
	last   mark      // the part seen last
	broken error     // of a stream whose reader has been told
}

// A mark is by what the part that was seen last is known again.
type mark struct {
	offset       int64
	contentID    string
	location     string
	lastModified time.Time
}

func (m mark) matches(e *feed.Entity) bool {
	return m.contentID == e.ContentID && m.location == e.ContentLocation && m.lastModified.Equal(e.LastModified)
}

func (s *session) newReading(url string) *reading { return &reading{s: s, url: url} }

// open requests the page.
func (r *reading) open() error {
	resp, err := r.s.send(Request{URL: r.url, Kind: r.kind()})
	if err != nil {
		return err
	}
	return r.start(resp)
}

// start makes resp what is read.
func (r *reading) start(resp *response) error {
	p, err := r.describe(resp)
	if err == nil && r.page != nil {
		err = sameTimeline(r.page, p)
	}
	if err != nil {
		resp.Body.Close()
		return err
	}
	r.close()
	unchanged := r.page != nil && p.etag != "" && p.etag == r.page.etag
	r.page, r.fresh, r.finished = p, true, false
	if r.index == "" {
		r.url = p.URL // the entry point may lead to another page the next time
	}
	r.first, r.base = 0, 0
	if resp.Answer == Part {
		r.first, r.base = r.seen-1, r.last.offset
	}
	r.buffer = r.s.buffers.Get().(*[]byte)
	r.verified, r.from = resp.Verified, r.seen
	r.body = newReadAhead(resp.Body, resp.cancel, *r.buffer)
	if r.verified {
		r.body.hold(r.s.config.MaxHeld)
	}
	if r.base == 0 && unchanged {
		r.body.expect = r.doubt
	}
	r.body.start()
	return nil
}

func (r *reading) describe(resp *response) (*Page, error) {
	switch {
	case resp.Answer == Empty:
		return nil, emptyAnswer(resp.URL)
	case resp.Answer == NotModified:
		return nil, &StatusError{URL: resp.URL, StatusCode: http.StatusNotModified} // it was not asked for
	case r.index != "":
		return newPage(resp), nil
	}
	return newFeedPage(resp)
}

// kind returns what the page is one of.
func (r *reading) kind() Kind {
	if r.index != "" {
		return SnapshotPage
	}
	return FeedPage
}

// close ends the request, if there is one.
func (r *reading) close() {
	if r.body == nil {
		return
	}
	r.body.Close()
	*r.buffer = r.body.buf // it may have grown
	r.s.buffers.Put(r.buffer)
	r.body, r.buffer = nil, nil
}

// each calls fn with each entity that it was not called with before, until it
// returns false. It returns nil when the page has been read to its end, or fn
// has returned false.
func (r *reading) each(fn func(*Entity) bool) error {
	retry := r.s.newRetry()
	for !r.finished {
		seen, partial := r.seen, r.first > 0
		err := r.pass(fn)
		if err == nil {
			return nil
		}
		if r.unverified() {
			r.doubt = r.body.given
		}
		if r.broken != nil {
			return err
		}
		r.close()
		if r.doubt.size > 0 && errors.Is(err, ErrDamaged) {
			return &unverifiedError{err}
		}
		if partial {
			r.first = 0
			continue // a range was not what it should be: get the whole page
		}
		if r.seen > seen {
			retry.progress()
		}
		if err := retry.pause(r.s.ctx, err); err != nil {
			if r.doubt.size > 0 && r.s.ctx.Err() == nil {
				return &unverifiedError{err}
			}
			return err
		}
	}
	return nil
}

// check reads a page that was damaged to its end, and returns the error that it still is. A
// page that is not there is none to check: what comes next finds out what that means.
func (s *session) check(r *reading) error {
	s.config.Logger.InfoContext(s.ctx, "page was damaged, reading it to its end before it is delivered again", "page", shown(r.url))
	defer r.close()
	err := r.each(func(*Entity) bool { return true })
	if gone(err) || errors.Is(err, ErrOrigin) {
		return nil
	}
	return err
}

// pass calls fn with new entities until the page ends or breaks.
func (r *reading) pass(fn func(*Entity) bool) error {
	if r.body == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	if r.fresh {
		r.s.parser.Reset(r.body, r.page.boundary)
		r.fresh = false
	}
	parts := r.seen // if nothing was left to read
	for p, err := range r.s.parser.Parts() {
		if err != nil {
			return r.unlessDamaged(r.fault(err))
		}
		parts = r.first + p.Index + 1
		if more, err := r.part(p, fn); err != nil || !more {
			return err
		}
	}
	if parts < r.seen {
		return r.changed(-1, 0, fmt.Errorf("it has %d entities and had %d", parts, r.seen))
	}
	return r.finish()
}

// part looks at one part: a new one is parsed and given to fn, which says
// whether to go on.
func (r *reading) part(p *page.Part, fn func(*Entity) bool) (bool, error) {
	e, index := &r.s.entity, r.first+p.Index
	switch {
	case r.s.ctx.Err() != nil:
		return false, r.s.ctx.Err()
	case index < r.seen-1:
		return true, nil
	}
	if err := feed.Parse(&e.Entity, p, r.index == ""); err != nil {
		return false, r.unlessDamaged(r.partError(index, p.Offset, err))
	}
	if e.LastModified.IsZero() {
		r.s.warnUndated(r.index)
		e.LastModified = r.created
	}
	if index == r.seen-1 {
		if !r.last.matches(&e.Entity) {
			return false, r.changed(index, r.base+p.Offset, fmt.Errorf("entity %q is where %q was", e.ContentID, r.last.contentID))
		}
		r.last.offset = r.base + p.Offset
		return true, nil
	}
	if e.Stream == nil && r.s.parser.Last() {
		if err := r.verify(); err != nil {
			return false, err
		}
	}
	if index == 0 {
		r.oldest = e.LastModified
	}
	e.Page, e.Part, e.Offset = r.page.URL, index, r.base+p.Offset
	e.prev, e.index, e.page = r.page.chain.Prev, r.index, r.number
	r.seen = index + 1
	r.last = mark{e.Offset, e.ContentID, e.ContentLocation, e.LastModified}
	if e.Stream != nil {
		e.Stream = &entityStream{r, e.Stream}
	}
	more := fn(e)
	return more, r.broken
}

// unverified reports whether entities of body were given out, and it is not known yet
// whether they are as they were sent.
func (r *reading) unverified() bool {
	return r.body != nil && r.verified && r.seen > r.from && !r.body.whole()
}

// verify reads body to its end, if that says whether it is as it was sent.
func (r *reading) verify() error {
	if !r.verified {
		return nil
	}
	if _, err := io.Copy(io.Discard, r.body); err != nil {
		return r.fault(err)
	}
	return nil
}

// unlessDamaged reads body to its end, if that says whether it is as it was sent, and returns
// the error that says that it is not: what else is wrong may come of that. Otherwise it
// returns err.
func (r *reading) unlessDamaged(err error) error {
	if wrong := r.verify(); wrong != nil {
		return wrong
	}
	return err
}

// partError makes the error of an entity that cannot be read. It says itself
// where the entity is, so the cause need not.
func (r *reading) partError(index int, offset int64, err error) error {
	var header *feed.HeaderError
	if errors.As(err, &header) {
		bare := *header
		bare.Part = -1
		err = &bare
	}
	return &PageError{URL: r.page.URL, Part: index, Offset: r.base + offset, Err: err}
}

// maxEpilogue is how much is read after a page to get to the end of the
// response, so that its connection can be used again.
const maxEpilogue = 64 << 10

func (r *reading) finish() error {
	if err := r.verify(); err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, r.body, maxEpilogue) // the page is whole, whatever comes after it
	r.close()
	r.finished = true
	return nil
}

// fault makes the error of a page that cannot be read on.
func (r *reading) fault(err error) error {
	if ended := r.s.ctx.Err(); ended != nil {
		return ended
	}
	fault := &PageError{URL: r.page.URL, Part: -1, Err: err}
	var at *page.Error
	if errors.As(err, &at) {
		fault.Err = at.Err
		fault.Offset = r.base + at.Offset
		if at.Part >= 0 {
			fault.Part = r.first + at.Part
		}
	}
	if errors.Is(err, page.ErrContentLength) && !(r.verified && r.body.whole()) { // else it is as it was sent
		fault.Err = fmt.Errorf("%w: %w", ErrDamaged, fault.Err)
	}
	if errors.Is(err, page.ErrPartTooLarge) || errors.Is(err, page.ErrHeaderTooLarge) {
		fault.Err = fmt.Errorf("%w: %w", ErrTooLarge, fault.Err)
	}
	return fault
}

func (r *reading) changed(part int, offset int64, why error) error {
	return &PageError{URL: r.page.URL, Part: part, Offset: offset, Err: fmt.Errorf("%w: %w", ErrPageChanged, why)}
}

// An entityStream is the body of an entity that is too large to be held. When
// it breaks, its reader has had a part of it, so the page cannot be requested
// again behind the reader's back.
type entityStream struct {
	r   *reading
	src io.Reader
}

func (b *entityStream) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if err == io.EOF && b.r.s.parser.Last() {
		if wrong := b.r.verify(); wrong != nil {
			err = wrong
		}
	}
	if err != nil && err != io.EOF {
		err = b.r.fault(err)
		if errors.Is(err, ErrDamaged) && b.r.seen > b.r.from+1 { // there were others before it
			err = &unverifiedError{err}
		}
		b.r.broken = &streamError{err}
		err = b.r.broken
	}
	return n, err
}
