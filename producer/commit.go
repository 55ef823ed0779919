package producer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/storage"
)

// tail holds the committing goroutine's knowledge about the end of the feed.
type tail struct {
	read   bool        // whether the feed has been read before
	known  bool        // whether the other fields describe the store as it was last read
	newest *chain.Page // nil if the feed has no pages
	first  int64       // number that the first page gets if the feed has no pages
	hash   hash.Cloner // of the body of newest, if newest is open
	orphan *chain.Page // the page with the number after newest, if any
	ours   bool        // whether newest was last written by this producer
	recent recent
	// timeline is the value of [chain.Reader.Timeline] when the store was last read.
	timeline int

	// pending is a checkpoint that was not stored because all entities of its batch were already in the
	// feed. It follows the stored checkpoint pendingOn, and is stored by the next commit.
	pending, pendingOn []byte
}

// checkpoint returns the checkpoint from which the next batch continues.
func (t *tail) checkpoint() []byte {
	stored := t.stored()
	if t.pending != nil && bytes.Equal(stored, t.pendingOn) {
		return t.pending
	}
	return stored
}

func (t *tail) stored() []byte {
	if t.newest == nil {
		return nil
	}
	return t.newest.Checkpoint
}

// precedes reports whether a batch may continue from the checkpoint previous. This may be the checkpoint
// that waits for the next commit, or the stored one, from which publishers begin again.
func (t *tail) precedes(previous []byte) bool {
	return bytes.Equal(previous, t.checkpoint()) || bytes.Equal(previous, t.stored())
}

// postpone makes a checkpoint wait for the next commit.
func (t *tail) postpone(checkpoint []byte) {
	t.pending, t.pendingOn = checkpoint, t.stored()
}

// run commits batch after batch until the queue is closed and empty.
func (f *Feed) run(ctx context.Context) {
	defer close(f.closed)
	f.turn.turns, f.turn.quota = newTurns(f.store, f.name), turnPages*f.config.MaxPageBytes
	publishers, took := 0, time.Duration(0)
	for open := true; open; open = f.queue.rearm() {
		f.idle(ctx, took)
		f.awaitTurn(ctx)
		// The publishers of the last write are likely to publish again, and one commit for all of them
		// costs little more than a commit for one of them. A single publisher never waits.
		if publishers > 1 {
			f.queue.await(publishers, min(took/16, f.config.Linger))
		}
		b := &batch{}
		f.queue.take(b, amount{}, f.config.MaxPageBytes, func(r *request) bool { return r.checkpoint == nil || b.checkpointed == nil })
		if len(b.items) == 0 {
			continue
		}
		f.turn.begin(took)
		f.commit(ctx, b)
		publishers, took = b.publishers, b.took
		f.pause(ctx, took)
	}
	f.recordSettled(ctx)
	f.leave(ctx)
}

// commit publishes all items of the batch, or ends their requests with an error. Meanwhile, other
// requests may join the batch.
func (f *Feed) commit(ctx context.Context, b *batch) {
	retry := newRetry(f.config.RetryFor)
	check := b.mayBeInFeed()
	lost := 0      // consecutive races that were lost
	var from int64 // the first page that may contain items of the batch; 0: not known yet
	if r := b.checkpointed; r != nil && !f.tail.precedes(r.previous) {
		f.tail.known = false // the publisher may have seen what others have written since the tail was read
	}
	for len(b.items) > 0 {
		remembered := f.tail.known
		err := f.refresh(ctx)
		if err == nil && from == 0 {
			from = max(f.reach(b.bytes, len(b.items), b.spools), min(b.known(), f.tail.number()))
		}
		if err == nil && check {
			err = f.tail.recent.fill(ctx, f.chain, f.tail.newest, from)
		}
		if err == nil && check && slices.ContainsFunc(b.items, f.tail.recent.has) {
			err = f.stillThere(ctx, remembered)
		}
		taken := b.taken
		if err == nil {
			f.settle(b, check)
			check = false
			err = f.advance(ctx, b)
		}
		if b.taken > taken {
			lost = 0
			// The remaining items were not in the feed when those before them were written.
			retry, from = newRetry(f.config.RetryFor), f.tail.number()
		} else if lostRace(err) && !b.tried() {
			from = 0 // others may have written many pages since the tail was read
		}
		if err == nil {
			continue
		}
		// Some write may have landed, or may still land, unless the first write lost a race. If it lost,
		// the only items that may be in the feed are those whose publishers chose their Content-IDs.
		f.tail.known, check = false, !lostRace(err) || b.mayBeInFeed()
		if !check {
			b.ids = nil
		}
		if lostRace(err) {
			f.turn.compete()
			if lost++; lost > 1 || f.turn.ended.IsZero() {
				f.queueUp(ctx)
			}
			continue
		}
		if final(err) {
			b.fail(err)
			return
		}
		f.config.Logger.Warn("store did not confirm a commit, retrying", "feed", f.name, "error", err)
		if !retry.wait(ctx) {
			b.fail(err)
			return
		}
	}
}

// join moves waiting requests into the current commit if together they provide what is lacking. If pages
// must be read for a request, that request and those after it wait for the next commit.
func (f *Feed) join(b *batch, lacking amount) bool {
	if f.turn.over() {
		return false
	}
	first := len(b.items)
	joined := f.queue.take(b, lacking, f.config.MaxPageBytes, func(r *request) bool {
		return r.checkpoint == nil && (!r.given || b.ids != nil && !slices.ContainsFunc(r.items, f.tail.recent.has) && f.reach(r.bytes, len(r.items), r.spools) >= f.tail.recent.first)
	})
	b.dropFollowers(first)
	if b.ids != nil {
		f.settleDuplicates(b, first)
	}
	return joined
}

// span returns the number of pages that a published batch of this size may take up: pages other than the
// last are at least half full, and a streamed body gets a page of its own, for which the page before it
// is closed.
func (f *Feed) span(bytes int64, entities, spools int) int64 {
	return 2*bytes/f.config.MaxPageBytes + int64(entities/f.config.MaxPageEntities) + 2*int64(spools) + 1
}

// reach returns the oldest page that must be searched to find out whether a request of this size was
// published before. It extends the window by the pages that the request itself may take up.
func (f *Feed) reach(bytes int64, entities, spools int) int64 {
	return max(1, min(f.keep(), f.tail.number()-window-f.span(bytes, entities, spools)+1))
}

// keep returns the oldest page whose Content-IDs are remembered. It extends the window by the pages that
// may be under way when a commit fails.
func (f *Feed) keep() int64 { return f.tail.number() - window - chain.Ahead + 1 }

// final reports whether a commit that failed with err would fail again if it were repeated.
func final(err error) bool {
	return storage.IsPermanent(err) || errors.Is(err, chain.ErrCorrupt) || errors.Is(err, ErrClock) || errors.Is(err, ErrInvalid)
}

// lostRace reports whether a write failed because of a write by another producer.
func lostRace(err error) bool {
	return errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrExists)
}

// lastClosed returns the number and the digest of the last closed page, or 0 if there is none.
func (t *tail) lastClosed() (int64, string) {
	switch {
	case t.newest == nil || !t.newest.Closed && t.newest.IsFirst():
		return 0, ""
	case t.newest.Closed:
		return t.newest.Number, t.newest.Digest()
	}
	return t.newest.Number - 1, t.newest.Prev
}

func (t *tail) number() int64 {
	if t.newest == nil {
		return max(t.first, 1) - 1
	}
	return t.newest.Number
}

// refresh reads the end of the feed, unless that is known.
func (f *Feed) refresh(ctx context.Context) error {
	t := &f.tail
	if t.known {
		return nil
	}
	newest, err := newestOrNil(ctx, f.chain)
	if err != nil {
		return err
	}
	if !t.read {
		if err := f.checkBeyond(newest); err != nil {
			return err
		}
		t.read = true
	}
	t.first = f.chain.SeenFloor()
	otherHistory := f.noticeHistory(ctx)
	if known := t.newest; otherHistory || known != nil && known.Number < t.first {
		// The remembered Content-IDs may belong to entities that are gone.
		t.recent, t.pending = newRecent(), nil
	}
	t.newest, t.hash, t.orphan, t.ours, t.recent.fresh = newest, nil, nil, false, false
	if newest != nil {
		// The writer of this page may have been killed before the page was durable.
		if err := storage.Sync(ctx, f.store, f.key(newest.Number)); err != nil {
			return err
		}
	}
	switch {
	case newest == nil:
		err = f.chain.Identify(ctx)
	case newest.Closed:
		t.orphan, err = f.orphan(ctx, newest)
	default:
		t.hash, err = f.openHash(ctx, newest)
	}
	t.known = err == nil
	return err
}

// stillThere checks that the entities on the newest pages are still in the feed: the feed has not been
// deleted and, if the tail is remembered from an earlier read, the store has not been restored to an
// older state.
func (f *Feed) stillThere(ctx context.Context, remembered bool) error {
	same := make(chan error, 1)
	go func() {
		if !remembered {
			same <- nil
			return
		}
		p := f.tail.newest
		info, err := f.store.Stat(ctx, f.key(p.Number))
		if errors.Is(err, storage.ErrNotFound) || err == nil && info.Version != p.Version {
			err = fmt.Errorf("page %d of feed %q has changed: %w", p.Number, f.name, storage.ErrConflict)
		}
		same <- err
	}()
	return errors.Join(f.checkFloor(ctx, f.tail.number()), <-same)
}

// noticeHistory reports whether the history of the feed has changed since it was last read.
func (f *Feed) noticeHistory(ctx context.Context) bool {
	timeline := f.chain.Timeline()
	if timeline == f.tail.timeline {
		return false
	}
	f.tail.timeline = timeline
	why := f.chain.Ended()
	log := f.config.Logger.With("feed", f.name, "cause", why.String())
	switch {
	case why == chain.WentBack:
		log.ErrorContext(ctx, "what was published before may be gone, and consumers cannot tell: run \"feedctl new-epoch\" after a restore")
	case !f.chain.Identity().Epoch.Kept:
		log.WarnContext(ctx, "what was published before may be gone")
	}
	return true
}

// openHash is like hashOf, for a page to which the producer will append. It also checks that the page is
// not below the floor.
func (f *Feed) openHash(ctx context.Context, p *chain.Page) (hash.Cloner, error) {
	writable := make(chan error, 1)
	go func() { writable <- f.checkFloor(ctx, p.Number) }()
	h, err := f.hashOf(ctx, p)
	return h, errors.Join(<-writable, err)
}

// hashOf reads the body of an open page, and returns the state of its SHA-256.
func (f *Feed) hashOf(ctx context.Context, p *chain.Page) (hash.Cloner, error) {
	now, object, err := f.chain.Open(ctx, p.Number, 0, p.Size)
	if err != nil {
		return nil, err
	}
	defer object.Body.Close()
	h := sha256.New().(hash.Cloner)
	if _, err := io.Copy(h, object.Body); err != nil {
		return nil, fmt.Errorf("read page %d of feed %q: %w", p.Number, f.name, err)
	}
	if now.Version != p.Version {
		return nil, fmt.Errorf("read page %d of feed %q: %w", p.Number, f.name, storage.ErrConflict)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != p.SHA256 {
		return nil, fmt.Errorf("%w: page %d of feed %q has SHA-256 %s, its metadata says %s", chain.ErrCorrupt, p.Number, f.name, got, p.SHA256)
	}
	return h, nil
}

// newestOrNil returns the newest page, or nil if the feed has none.
func newestOrNil(ctx context.Context, c *chain.Reader) (*chain.Page, error) {
	p, err := c.Newest(ctx)
	if errors.Is(err, chain.ErrNoFeed) {
		return nil, nil
	}
	return p, err
}

// retry limits how long a commit is retried. The pauses between attempts increase.
type retry struct {
	since time.Time
	limit time.Duration
	tries int
}

func newRetry(limit time.Duration) *retry { return &retry{since: time.Now(), limit: limit} }

// wait pauses before the next attempt. It returns false if no attempt is to follow.
func (r *retry) wait(ctx context.Context) bool {
	r.tries++
	pauses := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	return time.Since(r.since) < r.limit && pauses.Wait(ctx, r.tries) == nil
}
