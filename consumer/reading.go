package consumer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// A reading reads the entities of one page. If a connection fails, it requests the
// page again and skips the entities already yielded. It can stop after any entity
// and continue later.
type reading struct {
	s      *session
	url    string // to request
	index  string // in a snapshot, the URL of its index
	number int    // in a snapshot, the number of the page
	// In a snapshot, created is the Last-Modified of entities that do not have one.
	created time.Time
	page    *Page // nil before the first response
	// recognize, if not nil, checks that a response belongs to the feed that is being read.
	recognize func(*Page) error

	ahead            bool       // the page was requested ahead, and the walk has not reached it
	body             *readAhead // nil if the page must be requested
	buffer           *[]byte    // of body
	pool             *sync.Pool // of buffer
	verified         bool       // body ends with an error if it is damaged
	from             int        // value of seen when body was opened
	unverifiedPrefix prefix     // prefix of a body that failed before it was verified
	fresh            bool       // the session's parser must be reset to body
	finished         bool       // the page was read to its end

	first  int       // index in the page of the first part in body
	base   int64     // offset in the page of the first part in body
	seen   int       // parts that were yielded, or that the caller already has
	oldest time.Time // Last-Modified of the first entity of the page
	last   mark      // the last part seen
	broken error     // the error returned to the reader of a stream
}

// A mark identifies the last part that was seen, for when the page is read again.
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

// start makes r read resp.
func (r *reading) start(resp *response) error {
	p, err := r.describe(resp)
	if err == nil && r.recognize != nil {
		err = r.recognize(p)
	}
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
		r.url = p.URL // the next time, the entry point may lead to another page
	}
	r.first, r.base = 0, 0
	if resp.Answer == Part {
		r.first, r.base = r.seen-1, r.last.offset
	}
	r.pool = &r.s.buffers
	if r.ahead {
		r.pool = &r.s.aheadBuffers
	}
	r.buffer = r.pool.Get().(*[]byte)
	r.verified, r.from = resp.Verified, r.seen
	r.body = newReadAhead(resp.Body, resp.cancel, *r.buffer)
	switch {
	case r.ahead:
		r.body.hold(r.s.config.ReadAhead)
	case r.verified:
		r.body.hold(r.s.config.MaxHeld)
	}
	if r.base == 0 && unchanged {
		r.body.expect = r.unverifiedPrefix
	}
	r.body.start()
	return nil
}

func (r *reading) describe(resp *response) (*Page, error) {
	switch {
	case resp.Answer == Empty:
		return nil, emptyAnswer(resp.URL)
	case resp.Answer == NotModified:
		return nil, &StatusError{URL: resp.URL, StatusCode: http.StatusNotModified} // for an unconditional request
	case r.index != "":
		return newPage(resp), nil
	}
	return newFeedPage(resp)
}

// kind returns the kind of the page.
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
	r.pool.Put(r.buffer)
	r.body, r.buffer = nil, nil
}

// each calls fn with each entity not seen before, until fn returns false. It returns nil when the
// page has been read to its end or fn has returned false.
func (r *reading) each(fn func(*Entity) bool) error {
	retry := r.s.newRetry()
	for !r.finished {
		seen, partial := r.seen, r.first > 0
		err := r.pass(fn)
		if err == nil {
			return nil
		}
		if r.unverified() {
			r.unverifiedPrefix = r.body.given
		}
		if r.broken != nil {
			return err
		}
		r.close()
		if r.unverifiedPrefix.size > 0 && errors.Is(err, ErrDamaged) {
			return &unverifiedError{err}
		}
		if partial {
			r.first = 0
			continue // the range was not as expected: get the whole page
		}
		if r.seen > seen {
			retry.progress()
		}
		if err := retry.pause(r.s.ctx, err); err != nil {
			if r.unverifiedPrefix.size > 0 && r.s.ctx.Err() == nil {
				return &unverifiedError{err}
			}
			return err
		}
	}
	return nil
}

// check reads all of a page that was damaged, and returns an error if the page is still damaged. It
// returns nil if the page does not exist: the walk that follows reports that.
func (s *session) check(r *reading) error {
	s.config.Logger.InfoContext(s.ctx, "page was damaged, verifying all of it before continuing", "page", shown(r.url))
	defer r.close()
	err := r.each(func(*Entity) bool { return true })
	if gone(err) || errors.Is(err, ErrOrigin) {
		return nil
	}
	return err
}

// pass calls fn with new entities until the page ends or fails.
func (r *reading) pass(fn func(*Entity) bool) error {
	if r.body == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	if r.fresh {
		if whole := r.body.take(); whole != nil {
			r.s.parser.ResetBytes(whole, r.page.boundary)
		} else {
			r.s.parser.Reset(r.body, r.page.boundary)
		}
		r.fresh = false
	}
	parts := r.seen // the number of parts if nothing is left to read
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

// part processes one part: it calls fn with the entity unless the part was seen before. It reports
// whether to continue.
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
	e.prev, e.origin, e.index, e.page = r.page.chain.Prev, r.s.origin, r.index, r.number
	r.seen = index + 1
	r.last = mark{e.Offset, e.ContentID, e.ContentLocation, e.LastModified}
	if e.Stream != nil {
		e.Stream = &entityStream{r, e.Stream}
	}
	more := fn(e)
	return more, r.broken
}

// unverified reports whether entities of body were yielded before body was verified.
func (r *reading) unverified() bool {
	return r.body != nil && r.verified && r.seen > r.from && !r.body.whole()
}

// verify reads body to its end if this verifies the body.
func (r *reading) verify() error {
	if !r.verified {
		return nil
	}
	if _, err := io.Copy(io.Discard, r.body); err != nil {
		return r.fault(err)
	}
	return nil
}

// unlessDamaged returns err or, if body turns out to be damaged, which may be the cause of err, the
// error that says so. To find out, it reads body to its end if this verifies the body.
func (r *reading) unlessDamaged(err error) error {
	if wrong := r.verify(); wrong != nil {
		return wrong
	}
	return err
}

// partError returns the error for an entity that cannot be read. The error names the place of the
// entity, so the wrapped error does not repeat it.
func (r *reading) partError(index int, offset int64, err error) error {
	var header *feed.HeaderError
	if errors.As(err, &header) {
		bare := *header
		bare.Part = -1
		err = &bare
	}
	return &PageError{URL: r.page.URL, Part: index, Offset: r.base + offset, Err: err}
}

// maxEpilogue is how many bytes are read after a page to reach the end of the
// response, so that its connection can be reused.
const maxEpilogue = 64 << 10

func (r *reading) finish() error {
	if err := r.verify(); err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, r.body, maxEpilogue) // ignore errors, since the page is complete
	r.close()
	r.finished = true
	return nil
}

// fault returns the error for a page of which the rest cannot be read.
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
	if errors.Is(err, page.ErrContentLength) && !(r.verified && r.body.whole()) { // otherwise the page was sent with a wrong length
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

// An entityStream is the body of an entity that is too large for memory. When it fails, its reader
// has already read part of it, so the page cannot be requested again without the reader noticing.
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
		if errors.Is(err, ErrDamaged) && b.r.seen > b.r.from+1 { // other entities were yielded before this one
			err = &unverifiedError{err}
		}
		b.r.broken = &streamError{err}
		err = b.r.broken
	}
	return n, err
}
