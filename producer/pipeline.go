package producer

import (
	"context"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/storage"
)

// A pipeline writes the items of a batch, and of requests that join it, as consecutive pages. It
// writes several pages at the same time: up to chain.Ahead pages beyond the last one known to be in
// the store. Each write goes through these states:
//
//	planned    its metadata is complete, with the digest of the page before
//	landed     the store has it; if all before it have landed, it is on the chain
//	confirmed  the floor was read after it had landed, and is not above it
//
// Items are removed from the batch, and their requests end, in order: as soon as their page and all
// pages before it are confirmed. After an error, no more writes are planned, and the pipeline waits
// for those under way.
type pipeline struct {
	feed    *Feed
	batch   *batch
	planner planner
	writes  []*write // planned but not yet confirmed in order, oldest first
	planned int      // number of items of the batch in these writes
	top     int64    // number of the last page that has landed together with all pages before it
	settled int64    // number of the last closed page up to top
	checked int64    // number of the last page for which the floor was read, or is being read
	running int      // number of goroutines that have yet to report
	reports chan report
	failed  error // why no more writes are planned, other than a failed write
	broken  bool  // whether a write failed
}

// A report is the result of a write or, if floor is true, of reading the floor after all writes up
// to this one had landed.
type report struct {
	write *write
	floor bool
	err   error
}

// advance writes the items of the batch and removes them from it. After an error, some of the items
// may have been written and removed.
func (f *Feed) advance(ctx context.Context, b *batch) error {
	if len(b.items) == 0 {
		return nil
	}
	t := &f.tail
	b.checkpointAfter = b.checkpointAt() + 1
	f.turn.planned = f.turn.written
	p := &pipeline{
		feed: f, batch: b, top: t.number(), reports: make(chan report, 1),
		planner: planner{feed: f, end: t.newest, first: t.number() + 1, hash: t.hash, orphan: t.orphan, checkpoint: t.checkpoint()},
	}
	if t.newest != nil {
		p.settled = t.newest.LastClosed()
	}
	p.fill(ctx)
	for p.running > 0 {
		select {
		case r := <-p.reports:
			p.note(r)
			p.confirm(ctx)
		case <-p.more():
		}
		p.fill(ctx)
	}
	f.trimBuffers()
	return p.outcome()
}

// fill plans as many pages as may be under way, and begins to write them.
func (p *pipeline) fill(ctx context.Context) {
	for p.free() && p.begins() {
		p.feed.lookAround(ctx)
		w, err := p.plan(ctx)
		if err != nil {
			p.failed = err
			return
		}
		p.writes = append(p.writes, w)
		p.running++
		go p.perform(ctx, w)
	}
}

// begins reports whether to begin a page, if necessary with items from the queue. Items from the
// queue that do not fill a page are better left to the next commit, which more publishers may join.
// The same holds for the rest of a batch that is followed by another, as long as writes are under
// way.
func (p *pipeline) begins() bool {
	for { // repeats if all items that joined were already in the feed
		rest := p.batch.items[p.planned:]
		if n := len(rest); n > 0 && (len(p.writes) == 0 || !rest[n-1].request.more) {
			return true
		}
		lacking := amount{p.feed.config.MaxPageBytes, p.feed.config.MaxPageEntities}
		for n := range rest {
			if lacking = lacking.minus(amount{rest[n].load, 1}); (amount{}).reaches(lacking) {
				return true
			}
		}
		if !p.feed.join(p.batch, lacking) {
			return false
		}
	}
}

// supply reports whether there is an item to plan. If necessary, it takes items from the queue.
func (p *pipeline) supply() bool {
	for p.planned == len(p.batch.items) { // repeats if all items that joined were already in the feed
		if !p.feed.join(p.batch, amount{}) {
			return false
		}
	}
	return true
}

// free reports whether another page may be written now. No page may be written after an open page,
// which is going to change, or after a page that replaces an orphan, because there may be more
// orphans.
func (p *pipeline) free() bool {
	if p.failed != nil || p.broken || len(p.writes) >= 2*chain.Ahead {
		return false
	}
	if len(p.writes) == 0 {
		return true
	}
	// Pages after a write that loses a race are useless, and hinder other producers.
	if t := &p.feed.turn; !t.ours && (!p.feed.tail.ours || t.shared()) && !p.writes[0].landed {
		return false
	}
	last := p.writes[len(p.writes)-1]
	if !last.landed && (!last.Closed || last.replaces()) {
		return false
	}
	return last.page.Number < p.top+chain.Ahead
}

// more returns a channel that receives a value when requests are waiting. It returns nil if they
// could not join now.
func (p *pipeline) more() <-chan struct{} {
	if p.free() {
		return p.feed.queue.wake
	}
	return nil
}

// plan returns the next write. It takes requests from the queue until the page is full.
func (p *pipeline) plan(ctx context.Context) (*write, error) {
	w, err := p.planner.begin(ctx)
	if err != nil {
		return nil, err
	}
	w.page.Settled = p.settled
	full := false
	for !full && p.supply() {
		fits, err := p.planner.add(w, p.batch.items[p.planned])
		if err != nil {
			return nil, err
		}
		if fits {
			p.planned++
		}
		if fits && p.planned == p.batch.checkpointAfter {
			w.page.Checkpoint = p.batch.checkpointed.checkpoint
		}
		full = !fits
	}
	if last := p.feed.turn.plan(w.Added()); last && w.Size() >= p.feed.config.MaxPageBytes/2 {
		full = true // the page is closed, so that the next producer need not read it
	}
	return w, p.planner.finish(w, full)
}

// perform performs a write and reports the result.
func (p *pipeline) perform(ctx context.Context, w *write) {
	version, err := p.feed.put(ctx, w)
	w.version = version
	if err == nil && w.replaces() && w.Closed {
		// After an orphan there may be another. If that cannot be determined, or if the other orphan
		// must not be replaced, the next write will fail.
		w.orphan, _ = p.feed.chain.Orphan(ctx, &w.page)
	}
	p.reports <- report{write: w, err: err}
}

// confirm reads the floor once, for all pages that have landed in order since the floor was last
// read.
func (p *pipeline) confirm(ctx context.Context) {
	var first, last *write
	for _, w := range p.writes {
		if !w.landed {
			break
		}
		if !w.confirmed && w.page.Number > p.checked {
			if first == nil {
				first = w
			}
			last = w
		}
	}
	if first == nil {
		return
	}
	p.checked = last.page.Number
	p.running++
	go func() {
		if err := p.feed.checkFloor(ctx, first.page.Number); err != nil {
			p.reports <- report{write: first, floor: true, err: err}
			return
		}
		p.reports <- report{write: last, floor: true}
	}()
}

// checkFloor returns an error if page n, which was read or created, is below the floor, or if the
// feed is being deleted. A page can be below the floor if this process was suspended for a long
// time, or if the feed was deleted.
func (f *Feed) checkFloor(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, f.config.RetryFor)
	defer cancel()
	floor, err := f.chain.WritableFloor(ctx)
	if err != nil {
		return err
	}
	if n < floor {
		return fmt.Errorf("write page %d: %w", n, chain.ErrPruned)
	}
	return nil
}

func (w *write) replaces() bool { return !w.grow && w.at != "" }

// note updates the pipeline according to a report.
func (p *pipeline) note(r report) {
	p.running--
	w := r.write
	switch {
	case r.err != nil:
		w.err, p.broken = r.err, true
	case r.floor:
		for _, before := range p.writes {
			// An append to the page may have begun since the floor was read, so the page is
			// confirmed only if it has landed.
			before.confirmed = before.confirmed || before.landed && before.page.Number <= w.page.Number
		}
	default:
		w.landed, w.confirmed = true, w.grow
		w.page.Version, w.page.Modified = w.version, p.feed.clock.reference()
		if w.orphan != nil && p.feed.isOld(w.orphan, &w.page) {
			w.orphan = nil
		}
		if p.planner.end == &w.page {
			p.planner.orphan = w.orphan
		}
		p.feed.release(w.Release())
	}
	n := 0
	for n < len(p.writes) && p.writes[n].confirmed {
		n++
	}
	if n > 0 {
		p.take(p.writes[:n])
		p.writes = p.writes[n:]
	}
	for _, w := range p.writes {
		if !w.landed {
			break
		}
		p.top, p.settled = w.page.Number, w.page.LastClosed()
	}
}

// take makes the last of these writes the known end of the feed, and completes the items of all of
// them.
func (p *pipeline) take(done []*write) {
	f, last := p.feed, done[len(done)-1]
	newest := last.page
	f.tail.newest, f.tail.hash, f.tail.orphan, f.tail.ours = &newest, last.Hash, last.orphan, true
	if newest.Number >= p.top {
		p.top, p.settled = newest.Number, newest.LastClosed()
	}
	f.chain.Remember(&newest)
	if f.config.Committed != nil {
		f.config.Committed(&newest)
	}
	f.tail.recent.trim(f.keep())
	for _, w := range done {
		f.turn.written += w.page.Size - w.Base
		f.take(p.batch, w)
		p.planned -= w.items
	}
}

// outcome returns the error of the first write that failed; the writes after that one are beyond the
// end of the chain.
func (p *pipeline) outcome() error {
	n := 0
	for _, w := range p.writes {
		for range w.items {
			if w.landed || w.err != nil && !final(w.err) && !lostRace(w.err) {
				p.batch.markTried(n)
			}
			n++
		}
	}
	for _, w := range p.writes {
		if w.err != nil {
			return w.err
		}
	}
	return p.failed
}

// slowest is the lowest rate, in bytes per second, at which a streamed body may be sent to the
// store. The drivers detect stores that do not respond at all.
const slowest = 128 << 10

// put performs the conditional write that w describes.
func (f *Feed) put(ctx context.Context, w *write) (version storage.Version, err error) {
	limit := f.config.RetryFor
	if w.Spool != nil {
		limit += time.Duration(w.Spool.Size()/slowest) * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	meta, err := w.page.Meta()
	if err != nil {
		return "", err
	}
	if f.config.Observe != nil {
		var done func(error)
		ctx, done = f.config.Observe(ctx, PageWrite{Feed: f.name, Page: w.page.Number, Entities: w.items, Traces: w.traces})
		defer func() { done(err) }()
	}
	key := f.key(w.page.Number)
	switch {
	case w.grow:
		version, err = f.store.Append(ctx, key, w.at, meta, w.Body())
	case w.at != "":
		version, err = f.store.Replace(ctx, key, w.at, meta, w.Body())
	default:
		version, err = f.store.Create(ctx, key, meta, w.Body())
	}
	if err != nil {
		return "", fmt.Errorf("write page %d: %w", w.page.Number, err)
	}
	return version, nil
}
