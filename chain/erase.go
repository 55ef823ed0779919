package chain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/storage"
)

// Errors of erasures, to be matched with [errors.Is].
var (
	// ErrErasing means that the feed cannot be published to for a moment, since its pages are being
	// replaced. The caller should try again.
	ErrErasing = errors.New("feed is being rewritten by \"feedctl erase\": publish again in a moment")
	// ErrFenceLost means that producers stopped waiting: the feed may have grown.
	ErrFenceLost = errors.New("producers removed the fence, since they had waited for too long")
	// ErrOvertaken means that the erasure can no longer be committed: another one has begun,
	// or the feed was deleted.
	ErrOvertaken = errors.New("another erasure of the feed was begun, or the feed was deleted")
	// ErrOutgrown means that the feed reached the numbers of the copies during the erasure.
	ErrOutgrown = errors.New("feed grew too much while it was rewritten, or another erasure was completed: try again")
)

const (
	// growth is the minimum number of pages by which a feed may grow while its pages are being copied.
	growth = 1024
	// fenceLimit is how long producers wait for an erasure that makes no progress. It is less than
	// the time for which they retry a commit.
	fenceLimit = 15 * time.Second
)

// An erasing is the part of a floor record about an [Erasure] that was begun and not committed.
type erasing struct {
	First int64 `json:"first"` // number of the first copy; no other erasure uses it
	End   int64 `json:"end"`   // all numbers of copies are less
	// Fence is not 0 while nothing may be added to the feed. It is a different number each time.
	Fence int `json:"fence,omitempty"`
}

// fenced reports whether nothing may be added to the feed because of an erasure.
func (r *floorRecord) fenced() bool { return r.Erasing != nil && r.Erasing.Fence > 0 }

// endErasing raises the floor of a record above the copies of an erasure that was not committed.
func (r *floorRecord) endErasing() {
	if r.Erasing != nil {
		r.Floor, r.Erasing = max(r.Floor, r.Erasing.End), nil
	}
}

// beforeCopies reports whether page n is below the copies of an erasure that was not committed.
func (r *floorRecord) beforeCopies(n int64) bool { return r.Erasing == nil || n < r.Erasing.First }

// An Erasure replaces all pages of a feed with copies that have other content. The caller writes the
// copies, with new numbers, while the feed is in use. The copies do not exist for any reader, since
// [Page.Floor] of each is above the floor. Then Fence stops producers, the caller copies what was added
// meanwhile, and Commit raises the floor to the first copy: with this one write, the copies become the
// feed, and the former pages cease to exist. The caller then deletes their objects.
//
// An abandoned Erasure does no harm. Its copies are removed, together with the former pages, when
// another erasure is committed. Producers wait a quarter of a minute for a fence; then they remove it,
// and the erasure can no longer be committed. Of several erasures, only the one that was begun last can
// be committed.
type Erasure struct {
	store  storage.Store
	feed   string
	reader *Reader
	base   int64 // page whose copy is the first
	mark   erasing
	record floorRecord // as Fence wrote it
	at     storage.Version
}

// BeginErasure begins an erasure. The error may match [ErrDeleting], or [ErrNoFeed] if there is no
// page.
func BeginErasure(ctx context.Context, store storage.Store, feed string) (*Erasure, error) {
	reader := NewReader(store, feed)
	for {
		r, version, err := readFloor(ctx, store, feed)
		if err == nil && r.Deleting {
			err = fmt.Errorf("feed %q: %w", feed, ErrDeleting)
		}
		if err != nil {
			return nil, err
		}
		newest, err := reader.Newest(ctx)
		if err != nil {
			return nil, err
		}
		room := 2*(newest.Number-r.Floor+1) + growth // for the feed, and as much for the copies
		first := r.Floor + room
		if r.Erasing != nil {
			first = max(first, r.Erasing.End)
		}
		e := &Erasure{store: store, feed: feed, reader: reader, base: r.Floor, mark: erasing{First: first, End: 2*first - r.Floor}}
		r.Erasing = &erasing{First: e.mark.First, End: e.mark.End}
		if _, err = writeFloor(ctx, store, version, r); !overtaken(err) {
			return e, err
		}
	}
}

// Copy returns the metadata of the copy of page p; before is the copy that precedes it, or nil if it is
// the first. The caller changes the fields that differ in the copy. The error may match [ErrOutgrown].
func (e *Erasure) Copy(p, before *Page) (*Page, error) {
	if err := e.checkRoom(p); err != nil {
		return nil, err
	}
	c := *p
	c.Number, c.Floor = e.number(p.Number), e.mark.First
	c.Settled = c.Number - 1
	c.Version, c.Modified = "", time.Time{}
	switch {
	case before != nil:
		c.Prev = before.Digest()
	case p.IsFirst():
		c.Prev = FirstPrev(e.feed, c.Number)
	default:
		c.Prev = noPrev(e.feed, c.Number)
	}
	return &c, nil
}

// checkRoom returns an error if producers may reach the copies, or the copies may reach those of a
// later erasure.
func (e *Erasure) checkRoom(newest *Page) error {
	if newest.Number+deleteGap >= e.mark.First {
		return fmt.Errorf("feed %q: %w", e.feed, ErrOutgrown)
	}
	return nil
}

func (e *Erasure) number(n int64) int64 { return n - e.base + e.mark.First }

// noPrev returns [Page.Prev] of page n if what was before it was pruned and then erased: a value that
// no page has as its digest.
func noPrev(feed string, n int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "feedctl erased feed %d\n%s\n%d\n", format, feed, n))
	return hex.EncodeToString(sum[:])
}

// Fence stops all producers, and returns the newest page, which does not change before Commit,
// Release, or the loss of the fence. The error may match [ErrOvertaken] or [ErrOutgrown].
//
// First the floor object is marked. From then on no producer confirms a page that it creates, or
// appends to a page that it reads, as if the feed were being deleted. Then the newest page is rewritten
// if it is open, so that no append to a version read before succeeds. If it is closed, an object is put
// in the place of the page after it, so that no page can be created there; a producer that wants to
// replace the object reads the floor first.
func (e *Erasure) Fence(ctx context.Context) (*Page, error) {
	e.mark.Fence++
	for {
		r, version, err := readFloor(ctx, e.store, e.feed)
		if err != nil {
			return nil, err
		}
		if r.Deleting || r.Erasing == nil || r.Erasing.First != e.mark.First {
			return nil, fmt.Errorf("feed %q: %w", e.feed, ErrOvertaken)
		}
		mark := e.mark
		r.Erasing = &mark
		if version, err = writeFloor(ctx, e.store, version, r); overtaken(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		e.record, e.at = r, version
		return e.freeze(ctx)
	}
}

// freeze makes sure that nothing more can be added to the feed, and returns its newest page.
func (e *Erasure) freeze(ctx context.Context) (*Page, error) {
	for {
		newest, err := e.reader.Newest(ctx)
		if err != nil {
			return nil, err
		}
		if err := e.checkRoom(newest); err != nil {
			return nil, err
		}
		if newest.Closed {
			err = e.block(ctx, newest)
		} else {
			newest.Version, err = e.rewrite(ctx, newest)
		}
		if err == nil || !overtaken(err) && !errors.Is(err, storage.ErrNotFound) {
			return newest, err
		}
	}
}

// rewrite gives an open page a new version.
func (e *Erasure) rewrite(ctx context.Context, p *Page) (storage.Version, error) {
	meta, err := p.Meta()
	if err != nil {
		return "", err
	}
	version, err := e.store.Append(ctx, key(e.feed, p.Number), p.Version, meta, storage.Bytes())
	if err != nil {
		return "", fmt.Errorf("rewrite page %d of feed %q: %w", p.Number, e.feed, err)
	}
	return version, nil
}

// block puts an object that is not a page in the place of the page after p. The error matches
// [storage.ErrExists] if that page exists.
func (e *Erasure) block(ctx context.Context, p *Page) error {
	none := sha256.Sum256(nil)
	b := Page{
		Feed: e.feed, Number: p.Number + 1, Boundary: p.Boundary, Entities: 1, First: p.Last, Last: p.Last,
		SHA256: hex.EncodeToString(none[:]), Prev: noPrev(e.feed, p.Number+1), Floor: e.mark.First,
	}
	meta, err := b.Meta()
	if err != nil {
		return err
	}
	there, err := e.reader.read(ctx, b.Number)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		_, err = e.store.Create(ctx, key(e.feed, b.Number), meta, storage.Bytes())
	case err != nil:
	case p.leadsTo(there):
		err = storage.ErrExists
	case there.Floor == 0 && there.ProvesLoss(p):
		err = NewLostError(e.feed, p, []*Page{there}, "")
	default:
		_, err = e.store.Replace(ctx, key(e.feed, b.Number), there.Version, meta, storage.Bytes())
	}
	if err != nil {
		return fmt.Errorf("block page %d of feed %q: %w", b.Number, e.feed, err)
	}
	return nil
}

// Commit makes the feed consist of the copies; last is the copy of the newest page. It returns the new
// floor. The feed begins another epoch, in which positions of consumers stay valid. The error matches
// [ErrFenceLost] if producers have removed the fence, or pages were pruned; in both cases there may be
// more to copy.
func (e *Erasure) Commit(ctx context.Context, last *Page) (int64, error) {
	r := e.record
	whole := r.Floor == 1 || r.Deleted
	r.begin(last, true)
	r.Floor, r.Deleted, r.Erasing = e.number(r.Floor), whole, nil // a feed that is whole begins at the floor
	_, err := writeFloor(ctx, e.store, e.at, r)
	if overtaken(err) {
		return 0, fmt.Errorf("feed %q: %w: %w", e.feed, ErrFenceLost, err)
	}
	return r.Floor, err
}

// Release lets producers continue without a commit. An error may be ignored: producers then continue
// soon on their own.
func (e *Erasure) Release(ctx context.Context) error { return unfence(ctx, e.store, e.feed, e.mark) }

// unfence removes the fence of an erasure.
func unfence(ctx context.Context, store storage.Store, feed string, mark erasing) error {
	r, version, err := readFloor(ctx, store, feed)
	if err != nil || r.Erasing == nil || *r.Erasing != mark {
		return err
	}
	mark.Fence = 0
	r.Erasing = &mark
	if _, err = writeFloor(ctx, store, version, r); overtaken(err) {
		return nil
	}
	return err
}

// passFence returns nil if a producer may write although the floor was marked by an erasure: it
// removes the mark if it has seen the same mark for fenceLimit.
func (r *Reader) passFence(ctx context.Context, mark erasing) error {
	r.mu.Lock()
	if r.fence != mark {
		r.fence, r.fenceSeen = mark, time.Now()
	}
	abandoned := time.Since(r.fenceSeen) >= fenceLimit
	r.mu.Unlock()
	if abandoned {
		if err := unfence(ctx, r.store, r.feed, mark); err != nil {
			return err
		}
	}
	// The next attempt finds out that the mark was removed, or finds a later mark.
	return fmt.Errorf("feed %q: %w", r.feed, ErrErasing)
}
