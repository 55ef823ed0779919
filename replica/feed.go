package replica

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"

	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// ErrDiverged means that the target has something that is missing from the source or different there. Nothing
// was overwritten.
var ErrDiverged = errors.New("target has diverged from the source")

// Stats counts what was written to the target.
type Stats struct {
	Pages    int64 // created
	Entities int64 // of feeds
	Bytes    int64 // of bodies
}

func (s *Stats) add(more Stats) {
	s.Pages += more.Pages
	s.Entities += more.Entities
	s.Bytes += more.Bytes
}

// A Feed copies one feed. Its methods must not be called concurrently.
type Feed struct {
	from, to storage.Store
	name     string
	source   *chain.Reader

	memory *semaphore.Weighted
	reader *reader     // of pages after at, or nil
	at     *chain.Page // the newest page of the target; nil if there is none, or unknown
	known  bool        // at is known
	hash   hash.Hash   // of the body of at, if that is open
	floor  int64       // of the target
	stats  Stats
	// identity is the identity of the source that was last copied to the target.
	identity feed.Identity

	quarantine quarantine
}

// NewFeed returns a Feed that copies between two stores. It makes no requests.
func NewFeed(from, to storage.Store, name string) *Feed {
	return &Feed{from: from, to: to, name: name, source: chain.NewReader(from, name), memory: newMemory(defaultMemory)}
}

// Sync brings the target to a state that the source had at the time of the call or later. After an error,
// Sync may be called again and continues, unless the error concerns the feed itself, as [ErrDiverged] and
// [chain.ErrCorrupt] do. The error matches [chain.ErrNoFeed] if the feed does not exist, and
// [chain.ErrPruned] if the target needs pages that were pruned.
func (f *Feed) Sync(ctx context.Context) error {
	if err := layout.CheckName(f.name); err != nil {
		return fmt.Errorf("copy feed: %w", err)
	}
	if err := f.sync(ctx); err != nil {
		f.known, f.quarantine.before = false, nil // the outcome of the last write is unknown
		return fmt.Errorf("copy feed %q: %w", f.name, err)
	}
	return nil
}

func (f *Feed) sync(ctx context.Context) (err error) {
	q := &f.quarantine
	first := q.before == nil
	if first {
		if q.before, err = f.listQuarantine(ctx, f.from); err != nil {
			return err
		}
	}
	newest, err := f.source.Newest(ctx)
	if !f.known || errors.Is(err, chain.ErrDeleted) || f.at != nil && f.at.Number < f.source.SeenFloor() {
		if err := f.copyDeletion(ctx); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	q.newest, q.covered, q.now = newest, nil, nil
	err = f.copyPages(ctx, newest)
	if err == nil && first { // the quarantine may have changed since the last run, even if no page has
		err = f.cover(ctx, newest)
	}
	if err == nil {
		err = f.release(ctx)
	}
	if err == nil {
		err = f.raiseFloor(ctx)
	}
	return err
}

// copyPages copies pages until the target has everything up to newest.
func (f *Feed) copyPages(ctx context.Context, newest *chain.Page) error {
	defer f.stopReader()
	for {
		if !f.known {
			if err := f.look(ctx, newest); err != nil {
				return err
			}
		}
		if now := f.source.Identity(); now != f.identity { // copied before any pages that belong to it
			if err := f.source.CopyIdentity(ctx, f.to); err != nil {
				return err
			}
			f.identity = now
		}
		var done bool
		var err error
		switch {
		case f.at == nil || f.at.Closed && f.at.Number < newest.Number:
			err = f.add(ctx, newest.Number)
		case f.at.Closed:
			return nil
		default:
			done, err = f.grow(ctx)
		}
		if done || err != nil {
			return err
		}
	}
}

func (f *Feed) stopReader() {
	if f.reader != nil {
		f.reader.stop()
		f.reader = nil
	}
}

// copyDeletion deletes the feed in the target if it was deleted in the source after the
// contents of the target were published.
func (f *Feed) copyDeletion(ctx context.Context) error {
	deleted, err := chain.CopyDeletion(ctx, f.from, f.to, f.name)
	if err != nil || !deleted {
		return err
	}
	f.known = false
	f.floor, err = chain.NewReader(f.to, f.name).Floor(ctx)
	if err == nil {
		err = f.sweep(ctx)
	}
	if err == nil {
		f.quarantine.before, f.quarantine.now = keys{}, keys{} // to remove everything
		err = f.release(ctx)
	}
	return err
}

// look finds the newest page of the target and checks that it is a page of the source, or
// the beginning of one.
func (f *Feed) look(ctx context.Context, newest *chain.Page) error {
	target := chain.NewReader(f.to, f.name)
	at, err := target.Newest(ctx)
	switch {
	case errors.Is(err, chain.ErrDeleted):
		at = nil
	case errors.Is(err, chain.ErrNoFeed), errors.Is(err, chain.ErrCorrupt):
		// If a copy has only raised the floor, the target has no page.
		for _, listErr := range f.to.List(ctx, layout.FeedPages(f.name), "") {
			switch {
			case listErr != nil:
				return listErr
			case errors.Is(err, chain.ErrNoFeed):
				// Not ErrNoFeed, which means that the source has nothing to copy.
				return fmt.Errorf("%w: another program added pages to it", ErrDiverged)
			}
			return err
		}
		at = nil
	case err != nil:
		return err
	}
	if f.floor, err = target.Floor(ctx); err != nil {
		return err
	}
	f.at, f.hash = at, nil
	if at != nil {
		if err := f.compare(ctx, newest); err != nil {
			return err
		}
		if err := storage.Sync(ctx, f.to, layout.FeedPage(f.name, at.Number)); err != nil {
			return err
		}
	}
	f.known = true
	if f.floor > 1 {
		return f.sweep(ctx) // remains of an interrupted copy
	}
	return nil
}

// compare returns an error unless the newest page of the target is the source's page, or
// the beginning of it.
func (f *Feed) compare(ctx context.Context, newest *chain.Page) error {
	if f.at.Number > newest.Number {
		return fmt.Errorf("%w: it has %d pages, the source has %d", ErrDiverged, f.at.Number, newest.Number)
	}
	p, _, err := f.page(ctx, f.at.Number)
	if err != nil {
		return err
	}
	other := fmt.Errorf("%w: page %d is different", ErrDiverged, p.Number)
	if f.at.Closed {
		if !p.Closed || p.Digest() != f.at.Digest() {
			return other
		}
		return nil
	}
	if p.Boundary != f.at.Boundary || p.Prev != f.at.Prev || p.Entities < f.at.Entities || p.Size < f.at.Size {
		return other
	}
	beginning := &body{ctx: ctx, store: f.from, key: layout.FeedPage(f.name, p.Number), size: f.at.Size, want: f.at.SHA256}
	if err := beginning.discard(); errors.Is(err, errDigest) {
		return other
	} else if err != nil {
		return err
	}
	f.hash = beginning.read
	return nil
}

// page returns the current state of a page of the source.
func (f *Feed) page(ctx context.Context, n int64) (*chain.Page, storage.Meta, error) {
	info, err := f.from.Stat(ctx, layout.FeedPage(f.name, n))
	if err != nil {
		return nil, storage.Meta{}, f.missing(ctx, n, err)
	}
	p, err := chain.Decode(f.name, n, info)
	return p, info.Meta, err
}

// missing returns the error for the feed after reading page n of the source failed with err.
func (f *Feed) missing(ctx context.Context, n int64, err error) error {
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	floor, floorErr := f.source.Floor(ctx)
	switch {
	case floorErr != nil:
		return floorErr
	case n < floor:
		return fmt.Errorf("page %d, which the target needs next: %w: start over with a new target", n, chain.ErrPruned)
	}
	return fmt.Errorf("%w: %w", chain.ErrCorrupt, err)
}

// add creates the page after the newest one of the target. The pages after that one, up to last, are read
// concurrently.
func (f *Feed) add(ctx context.Context, last int64) (err error) {
	n := int64(0)
	if f.at != nil {
		n = f.at.Number + 1
	} else if n, err = f.begin(ctx); err != nil {
		return err
	}
	if f.reader == nil || n != f.reader.next || n > f.reader.last {
		f.stopReader()
		f.reader = f.read(ctx, n, max(n, last))
	}
	l := f.reader.take()
	if l == nil {
		return ctx.Err()
	}
	defer l.release()
	if err := l.err; err != nil {
		if err = f.missing(ctx, n, err); f.at == nil && errors.Is(err, chain.ErrPruned) {
			return nil // pruned: continue with the next one
		}
		return err
	}
	if f.at != nil && l.page.Prev != f.at.Digest() {
		return fmt.Errorf("%w: page %d of the source does not continue page %d of the target", ErrDiverged, n, f.at.Number)
	}
	if err := f.cover(ctx, l.page); err != nil {
		return err
	}
	version, err := f.to.Create(ctx, l.source.key, l.meta, l.content)
	if err == nil {
		f.stats.Pages++
	}
	return f.written(ctx, l.page, l.source, version, 0, err)
}

// grow appends to the newest page of the target what the source has added to it. It reports
// done if there is nothing to append.
func (f *Feed) grow(ctx context.Context) (done bool, err error) {
	p, meta, err := f.page(ctx, f.at.Number)
	if err != nil || p.Entities == f.at.Entities && p.Closed == f.at.Closed {
		return err == nil, err
	}
	key, size := layout.FeedPage(f.name, p.Number), f.at.Size
	source := &body{ctx: ctx, store: f.from, key: key, offset: size, size: p.Size - size, before: f.hash, want: p.SHA256}
	content, err := source.content()
	if err != nil {
		return false, err
	}
	if err := f.cover(ctx, p); err != nil {
		return false, err
	}
	version, err := f.to.Append(ctx, key, f.at.Version, meta, content)
	return false, f.written(ctx, p, source, version, f.at.Entities, err)
}

// written records the result of writing page p; before is the number of entities that the page had before.
func (f *Feed) written(ctx context.Context, p *chain.Page, source *body, version storage.Version, before int, err error) error {
	if errors.Is(err, storage.ErrExists) || errors.Is(err, storage.ErrConflict) {
		return f.again(ctx, p.Number) // another copy is running, or the target is published to
	}
	if err != nil {
		return err
	}
	f.stats.Entities += int64(p.Entities - before)
	f.stats.Bytes += source.size
	next := *p
	next.Version = version
	f.at, f.hash = &next, source.read
	return nil
}

// begin returns the number of the first page of the copy. It writes the floor first, so that
// pages below it do not count as missing.
func (f *Feed) begin(ctx context.Context) (int64, error) {
	floor, err := f.source.Floor(ctx)
	if err != nil || floor <= f.floor {
		return f.floor, err
	}
	f.floor, err = chain.RaiseFloor(ctx, f.to, f.name, floor)
	return f.floor, err
}

// again reads the target again after another program has written page n.
func (f *Feed) again(ctx context.Context, n int64) error {
	was := f.at
	newest, err := f.source.Newest(ctx)
	if err != nil {
		return err
	}
	if err := f.look(ctx, newest); err != nil {
		return err
	}
	if f.at == nil || was != nil && f.at.Version == was.Version {
		return fmt.Errorf("%w: it has a page %d that does not belong to the feed", ErrDiverged, n)
	}
	return nil
}

// raiseFloor raises the floor of the target to that of the source, but not beyond the target's newest page,
// and deletes the pages below.
func (f *Feed) raiseFloor(ctx context.Context) error {
	floor, err := f.source.Floor(ctx)
	if err != nil {
		return err
	}
	if floor = min(floor, f.at.Number); floor <= f.floor {
		return nil
	}
	if f.floor, err = chain.RaiseFloor(ctx, f.to, f.name, floor); err != nil {
		return err
	}
	return f.sweep(ctx)
}

// sweep deletes the pages of the target that are below its floor.
func (f *Feed) sweep(ctx context.Context) error {
	for entry, err := range f.to.List(ctx, layout.FeedPages(f.name), "") {
		if err != nil {
			return err
		}
		n, err := layout.ParseFeedPage(f.name, entry.Key)
		if err != nil {
			continue // not a page
		}
		if n >= f.floor {
			return nil
		}
		if err := f.to.Delete(ctx, entry.Key); err != nil {
			return err
		}
	}
	return nil
}

// newHash returns a copy of the hash before, or a new hash if before is nil.
func newHash(before hash.Hash) (hash.Hash, error) {
	if before == nil {
		return sha256.New(), nil
	}
	cloner, ok := before.(hash.Cloner)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return cloner.Clone() //nolint:wrapcheck // it never fails for SHA-256
}
