package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// checkNewestFirst returns an error if the job cannot read newest first as configured.
func (j *Job) checkNewestFirst() error {
	if !j.NewestFirst {
		return nil
	}
	if _, ok := j.Sink.(Backfiller); !ok {
		return ErrNoBackfill
	}
	if j.From.latest || !j.From.position.IsZero() {
		return errors.New("newest first must start from the beginning or a snapshot")
	}
	return nil
}

// copyTail returns a copy of t, or nil if t is nil.
func copyTail(t *feed.TailPosition) *feed.TailPosition {
	if t == nil {
		return nil
	}
	tail := *t
	if t.Snapshot != nil {
		snapshot := *t.Snapshot
		tail.Snapshot = &snapshot
	}
	return &tail
}

// unfollowed opens another session, which does not wait at the end of the feed.
func (r *run) unfollowed(ctx context.Context) (*session, string, error) {
	s, url, err := r.Client.open(ctx, r.URL)
	if err == nil {
		s.follow = false
		s.trust(r.From.index)
	}
	return s, url, err
}

// backfill reads the tail to its end. It then sets r.tail to nil, and r.head to the position after
// which to continue, or to zero if the feed is empty.
func (r *run) backfill(ctx context.Context) error {
	s, url, err := r.unfollowed(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	b := &backward{run: r, s: s, url: url, polled: time.Now(), spool: spool{limit: s.config.MaxHeld}}
	defer b.spool.reset()
	r.batch.at = r.head
	if at := r.head.Damaged; at != "" {
		err = s.check(s.newReading(at))
	}
	if err == nil {
		err = b.read(ctx)
	}
	if r.batch.partial {
		return errors.Join(err, r.batch.rollback(ctx))
	}
	if err == nil {
		r.tail = nil
		if !r.head.IsZero() {
			r.batch.move(r.head)
		}
	}
	// Otherwise the batch contains only complete entities, so it is committed although reading failed.
	if lost := r.commit(ctx); lost != nil {
		return errors.Join(err, lost)
	}
	return err
}

// A backward is a reader of the tail of a feed: of the pages back from the newest, and then of the
// snapshot, if there is one.
type backward struct {
	run    *run
	s      *session // for the pages of the feed
	url    string   // the feed's entry point
	index  *index   // of the snapshot, or nil
	floor  string   // Content-ID of the entity before the snapshot's end, if there is one
	spool  spool
	next   *fetch // the page before the current one, if it has been requested
	loop   cycle
	pages  int
	polled time.Time // when the head of the feed was last read
	newest *Page     // the newest page at the time polled
}

func (b *backward) read(ctx context.Context) error {
	if err := b.findSnapshot(); err != nil {
		return err
	}
	r, err := b.begin(ctx)
	for err == nil && r != nil {
		r, err = b.page(ctx, r)
	}
	if b.next != nil {
		b.s.cancel() // nothing else is needed
		b.next.abandon()
	}
	if err != nil {
		return err
	}
	return b.end(ctx)
}

// findSnapshot requests the index of the snapshot to read back to, if there is one.
func (b *backward) findSnapshot() (err error) {
	tail, from := b.run.tail, b.run.From.index
	switch {
	case tail.Snapshot != nil:
		from = tail.Snapshot.Index
	case !b.run.head.IsZero() || from == "":
		return nil
	}
	b.s.trust(from)
	if b.index, err = b.s.index(from, time.Time{}); err != nil {
		return err
	}
	if b.floor = b.index.handOff(b.url).ContentID; b.floor == "" {
		return indexError(from, errors.New("it does not name the last entity of the feed that it covers, which reading newest first needs"))
	}
	if tail.Snapshot == nil {
		tail.Snapshot = &feed.SnapshotPosition{Index: b.index.position}
	}
	return nil
}

// begin returns the page to begin with, or nil if no page of the feed is left to read.
func (b *backward) begin(ctx context.Context) (*reading, error) {
	if b.run.head.IsZero() {
		r := b.s.newReading(b.url)
		err := entryError(r.open())
		var empty *emptyError
		if errors.As(err, &empty) {
			return nil, nil // the run continues in order and handles the empty feed
		}
		return r, err
	}
	if err := b.s.newWalk(b.url, After(b.run.head)).enter(); err != nil {
		return nil, err
	}
	if b.run.tail.ContentID == "" {
		return nil, nil // the feed has been read back to the snapshot
	}
	at, err := b.locate(ctx)
	if err != nil {
		return nil, err
	}
	r := b.s.newReading(at)
	return r, r.open()
}

// locate returns the URL of the page that has the entity of the tail's position.
func (b *backward) locate(ctx context.Context) (at string, err error) {
	s, url, err := b.run.unfollowed(ctx)
	if err != nil {
		return "", err
	}
	defer s.close()
	tail := b.run.tail
	head := b.run.head
	start := After(origin{head.Identity, head.Epoch}.at(feed.Position{LastModified: tail.LastModified, ContentID: tail.ContentID, Page: tail.Page, Prev: tail.Prev}))
	w := s.newWalk(url, start)
	w.run(func(p *Page, wrong error) bool {
		if err = wrong; err != nil {
			return false
		}
		for _, wrong := range p.Entities() {
			err = wrong
			break // the first entity comes after the position
		}
		if err == nil && !w.seek.active {
			at = p.URL
		}
		return err == nil && at == ""
	})
	return at, err
}

// page reads and applies the entities of a page that come before the tail's position, and then the new
// entities of the feed. It returns the previous page, or nil if there is none or the end of the
// snapshot was reached.
func (b *backward) page(ctx context.Context, r *reading) (*reading, error) {
	defer r.close()
	if err := b.visit(r); err != nil {
		return nil, err
	}
	if prev := r.page.Links.Prev; prev != "" && b.next == nil {
		b.next = b.s.fetch(b.s.newReading(prev))
	}
	run, first := b.run, b.run.head.IsZero()
	reached, err := b.fill(r)
	if gone(err) && !first {
		err = &TailError{URL: b.url, Page: run.tail.Page, err: err}
	}
	if err != nil {
		return nil, err
	}
	if first {
		run.head = originOf(r.page.chain.Identity).at(feed.Position{LastModified: r.last.lastModified, ContentID: r.last.contentID, Page: r.page.URL, Prev: r.page.chain.Prev})
		run.batch.move(run.head)
	}
	run.lag.page = r.page
	if err := run.applyBack(ctx, &b.spool, r.page); err != nil {
		return nil, err
	}
	if first {
		if err := run.commit(ctx); err != nil { // so that the newest data can be used
			return nil, err
		}
	}
	if err := b.poll(ctx); err != nil || reached {
		return nil, err
	}
	return b.before(r.page)
}

// visit checks that the prev links do not form a loop, and that there are not too many of them.
func (b *backward) visit(r *reading) error {
	if b.pages++; b.pages > b.s.config.MaxPages {
		return &PageError{URL: r.page.URL, Part: -1, Err: fmt.Errorf("read back from the entry point: %w of %d pages", ErrTooLarge, b.s.config.MaxPages)}
	}
	return b.loop.visit(r.page.URL)
}

// fill spools the entities of a page that come before the tail's position and after the snapshot. It
// reports whether the end of the snapshot was reached. Since the whole page is read before entities
// are applied, it is also verified.
func (b *backward) fill(r *reading) (reached bool, err error) {
	b.spool.reset()
	var modified time.Time
	past := false // the tail's position
	var wrong error
	err = r.each(func(e *Entity) bool {
		if e.LastModified.Before(modified) {
			wrong = &PageError{URL: e.Page, Part: e.Part, Offset: e.Offset, Err: fmt.Errorf("%w: from %s to %s",
				ErrTimeOrder, feed.FormatTime(modified), feed.FormatTime(e.LastModified))}
			return false
		}
		modified = e.LastModified
		past = past || b.run.tail.ContentID != "" && e.ContentID == b.run.tail.ContentID
		switch {
		case b.floor != "" && e.ContentID == b.floor:
			b.spool.reset()
			reached = true
		case !past:
			if wrong = b.run.setKey(e); wrong == nil {
				wrong = b.spool.add(e)
			}
		}
		return wrong == nil
	})
	if err == nil {
		err = wrong
	}
	return reached, err
}

// before returns the page before p, or nil if p is the first page of the feed.
func (b *backward) before(p *Page) (*reading, error) {
	if p.Links.Prev == "" {
		if p.chain.Prev != "" && !p.chain.First || b.floor != "" {
			return nil, &TailError{URL: b.url, Page: p.URL}
		}
		return nil, nil
	}
	r, err := b.next.wait()
	b.next = nil
	if gone(err) {
		return nil, &TailError{URL: b.url, Page: p.URL, err: err}
	}
	if err != nil {
		return nil, err
	}
	if err := checkNeighbours(r.page, p, p.Links.Prev, r.page.URL); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// end reads the snapshot, if there is one, after the feed has been read back to it.
func (b *backward) end(ctx context.Context) error {
	run := b.run
	if run.head.IsZero() {
		return nil
	}
	if b.index != nil {
		t := run.tail
		t.LastModified, t.ContentID, t.Page, t.Prev = time.Time{}, "", "", ""
		run.batch.changed = true
		if err := b.snapshot(ctx); err != nil {
			return err
		}
	}
	if run.tail.Held > 0 {
		return &TailError{URL: b.url, Held: run.tail.Held}
	}
	return nil
}

// snapshot applies the entities of the snapshot whose keys are unknown. A position in the snapshot is
// always at the start of a page. If entities are read again, they are not applied again, since their
// keys are known.
func (b *backward) snapshot(ctx context.Context) error {
	s, _, err := b.run.unfollowed(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	s.trust(b.index.position)
	at := b.run.tail.Snapshot
	for p, err := range s.snapshotPages(b.index, feed.SnapshotPosition{Index: at.Index, Page: at.Page}) {
		if err != nil {
			return err
		}
		b.spool.reset()
		for e, err := range p.Entities() {
			if err != nil {
				return err
			}
			if err := b.run.setKey(e); err != nil {
				return err
			}
			if err := b.spool.add(e); err != nil {
				return err
			}
		}
		if err := b.run.applyBack(ctx, &b.spool, p); err != nil {
			return err
		}
		at.Page++
		b.run.batch.changed = true
		if err := b.poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// poll applies new entities of the feed, oldest first, if about a PollInterval has passed since the
// last poll.
func (b *backward) poll(ctx context.Context) error {
	if time.Since(b.polled) < b.s.config.PollInterval {
		return nil
	}
	b.polled = time.Now()
	run := b.run
	newest, err := run.s.head(b.url)
	if err != nil {
		return err
	}
	if n := b.newest; n != nil && n.URL == newest.URL && n.etag == newest.etag && n.etag != "" {
		return nil
	}
	if err := run.commit(ctx); err != nil {
		return err
	}
	s, url, err := b.run.unfollowed(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	page := run.lag.page
	if err := run.drain(ctx, s.feedPages(url, After(run.head)), false); err != nil {
		return err
	}
	run.lag.page = page
	run.head = run.batch.at
	run.head.Tail = nil
	b.newest = newest
	return nil
}
