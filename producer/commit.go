package producer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/storage"
)

// tail is what the committing goroutine knows of the end of the feed.
type tail struct {
	known  bool        // whether the rest is the state of the store when it was last looked at
	newest *chain.Page // nil: the feed has no pages
	hash   hash.Cloner // of the body of newest, if that is open
	orphan *chain.Page // stands where the page after newest belongs
	recent recent

	// A checkpoint whose entities were all in the feed already, so that nothing was
	// written with which to store it: it follows the stored checkpoint pendingOn, and
	// is stored by the next commit.
	pending, pendingOn []byte
}

// checkpoint returns the checkpoint that the next batch continues from.
func (t *tail) checkpoint() []byte {
	var stored []byte
	if t.newest != nil {
		stored = t.newest.Checkpoint
	}
	if t.pending != nil && bytes.Equal(stored, t.pendingOn) {
		return t.pending
	}
	return stored
}

// postpone leaves a checkpoint to the next commit.
func (t *tail) postpone(checkpoint []byte) {
	t.pendingOn = nil
	if t.newest != nil {
		t.pendingOn = t.newest.Checkpoint
	}
	t.pending = checkpoint
}

// run commits batch after batch until the queue is closed and empty.
func (f *Feed) run(ctx context.Context) {
	defer close(f.closed)
	publishers, took := 0, time.Duration(0)
	for open := true; open; {
		<-f.queue.wake
		// Those whose entities the last commit wrote are likely to come again, and one
		// commit for all of them costs little more. A single one never waits.
		if publishers > 1 {
			f.queue.await(publishers, min(took/16, f.config.Linger))
		}
		b := &batch{}
		open = f.queue.take(b, f.config.MaxBatchBytes, f.config.MaxBatchEntities)
		if len(b.items) == 0 {
			continue
		}
		requests, start := b.requests, time.Now()
		f.commit(ctx, b)
		publishers, took = requests+f.queue.len(), time.Since(start)
	}
}

// commit brings all items of the batch into the feed, or tells their requests
// why not.
func (f *Feed) commit(ctx context.Context, b *batch) {
	retry := newRetry(f.config.RetryFor)
	check := false // whether items may be in the feed already, beyond what is known
	for _, i := range b.items {
		check = check || i.given
	}
	var from int64 // the page from which on they may be; 0: not known yet
	for len(b.items) > 0 {
		err := f.look(ctx)
		if err == nil && from == 0 {
			from = max(1, min(f.keep(), f.tail.number()-window-f.span(b.bytes, len(b.items), b.spools)+1))
		}
		if err == nil && check {
			err = f.tail.recent.fill(ctx, f.chain, f.tail.newest, from)
		}
		if err == nil {
			f.settle(b, check)
			check = false
			err = f.advance(ctx, b)
		}
		if err == nil {
			continue
		}
		// Whatever went wrong, some write may have landed, or may still.
		f.tail.known, check = false, true
		if lostRace(err) {
			continue
		}
		if final(err) {
			b.fail(err)
			return
		}
		f.config.Logger.Warn("store did not confirm a commit, trying again", "feed", f.name, "error", err)
		if retry.wait(ctx, f.sleep) != nil {
			b.fail(err)
			return
		}
	}
}

// span returns on how many pages a batch of this size may be, if it is in the
// feed already: pages that are not the last are half full at least, and a streamed
// body has a page to itself and ends the one before.
func (f *Feed) span(bytes int64, entities, spools int) int64 {
	return 2*bytes/f.config.MaxPageBytes + int64(entities/f.config.MaxPageEntities) + 2*int64(spools) + 1
}

// keep returns the page from which on Content-IDs are remembered: the window, and
// what a full batch may take up.
func (f *Feed) keep() int64 {
	return f.tail.number() - window - f.span(f.config.MaxBatchBytes, f.config.MaxBatchEntities, 0) + 1
}

// final reports whether an error will not go away by trying again.
func final(err error) bool {
	for _, e := range []error{storage.ErrFull, storage.ErrPermission, storage.ErrKey, storage.ErrSize, storage.ErrLayout,
		chain.ErrCorrupt, ErrClock, ErrInvalid} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// lostRace reports whether a write failed because of another producer's.
func lostRace(err error) bool {
	return errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrExists)
}

func (t *tail) number() int64 {
	if t.newest == nil {
		return 0
	}
	return t.newest.Number
}

// look reads the end of the feed, unless it is known.
func (f *Feed) look(ctx context.Context) error {
	t := &f.tail
	if t.known {
		return nil
	}
	newest, err := newestOrNil(ctx, f.chain)
	if err != nil {
		return err
	}
	t.newest, t.hash, t.orphan, t.recent.fresh = newest, nil, nil, false
	if newest != nil {
		// Whoever wrote what is seen may have died before it was durable.
		if err := makeDurable(ctx, f.store, f.key(newest.Number)); err != nil {
			return err
		}
	}
	switch {
	case newest == nil:
	case newest.Closed:
		t.orphan, err = f.chain.Orphan(ctx, newest)
	default:
		t.hash, err = f.hashOf(ctx, newest)
	}
	t.known = err == nil
	return err
}

// hashOf returns the state of the SHA-256 of an open page's body, which it reads.
func (f *Feed) hashOf(ctx context.Context, p *chain.Page) (hash.Cloner, error) {
	now, object, err := f.chain.Open(ctx, p.Number, 0, p.Size)
	if err != nil {
		return nil, err
	}
	defer object.Body.Close()
	h := newHash()
	if _, err := io.Copy(h, object.Body); err != nil {
		return nil, fmt.Errorf("read page %d of feed %q: %w", p.Number, f.name, err)
	}
	if now.Version != p.Version {
		return nil, fmt.Errorf("read page %d of feed %q: %w", p.Number, f.name, storage.ErrConflict)
	}
	if got := hexSum(h); got != p.SHA256 {
		return nil, fmt.Errorf("%w: page %d of feed %q has SHA-256 %s, its metadata says %s", chain.ErrCorrupt, p.Number, f.name, got, p.SHA256)
	}
	return h, nil
}

// makeDurable makes the object at key durable as it is now, if the store can.
func makeDurable(ctx context.Context, store storage.Store, key string) error {
	syncer, ok := store.(storage.Syncer)
	if !ok {
		return nil
	}
	if err := syncer.Sync(ctx, key); err != nil {
		return fmt.Errorf("make %s durable: %w", key, err)
	}
	return nil
}

// newestOrNil returns the newest page, nil if the feed has none.
func newestOrNil(ctx context.Context, c *chain.Reader) (*chain.Page, error) {
	p, err := c.Newest(ctx)
	if errors.Is(err, chain.ErrNoFeed) {
		return nil, nil
	}
	return p, err
}

// advance writes the first items of the batch and takes them out of it. On an
// error some of them may have been written and taken out.
func (f *Feed) advance(ctx context.Context, b *batch) error {
	if len(b.items) == 0 {
		return nil
	}
	writes, err := f.plan(ctx, b)
	if err != nil {
		return err
	}
	versions, errs := f.write(ctx, writes)
	if slices.ContainsFunc(errs, func(err error) bool { return !final(err) && !lostRace(err) }) {
		for n := range writes[len(writes)-1].items {
			b.items[n].tried, b.items[n].request.tried = true, true
		}
	}
	done := 0
	for done < len(writes) && errs[done] == nil {
		done++
	}
	if done > 0 {
		if err := f.confirm(ctx, writes[:done], versions); err != nil {
			return err
		}
		f.take(b, writes[:done])
	}
	if done < len(writes) {
		return errs[done]
	}
	for _, w := range writes {
		f.release(w.buf)
	}
	return nil
}

// write performs the writes, all at the same time. The first that fails decides:
// those after it are beyond the end of the chain.
func (f *Feed) write(ctx context.Context, writes []*write) ([]storage.Version, []error) {
	versions, errs := make([]storage.Version, len(writes)), make([]error, len(writes))
	var group errgroup.Group
	for n, w := range writes[1:] {
		group.Go(func() error {
			versions[n+1], errs[n+1] = f.put(ctx, w)
			return nil
		})
	}
	versions[0], errs[0] = f.put(ctx, writes[0])
	_ = group.Wait() // the errors are in errs
	return versions, errs
}

func (f *Feed) put(ctx context.Context, w *write) (version storage.Version, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.config.RetryFor)
	defer cancel()
	meta, err := w.page.Meta()
	if err != nil {
		return "", err
	}
	key := f.key(w.page.Number)
	switch {
	case w.grow:
		version, err = f.store.Append(ctx, key, w.at, meta, w.body())
	case w.at != "":
		version, err = f.store.Replace(ctx, key, w.at, meta, w.body())
	default:
		version, err = f.store.Create(ctx, key, meta, w.body())
	}
	if err != nil {
		return "", fmt.Errorf("write page %d: %w", w.page.Number, err)
	}
	return version, nil
}

// confirm makes the last of the writes the known end of the feed. A page that
// was created may be below the floor by then, if this process was asleep for
// long; such a page does not exist.
func (f *Feed) confirm(ctx context.Context, done []*write, versions []storage.Version) error {
	last := done[len(done)-1]
	if !last.grow {
		floor, err := f.chain.Floor(ctx)
		if err != nil {
			return err
		}
		if last.page.Number < floor {
			return fmt.Errorf("write page %d: %w", last.page.Number, chain.ErrPruned)
		}
	}
	newest := last.page
	newest.Version = versions[len(done)-1]
	f.tail.newest, f.tail.hash, f.tail.orphan = &newest, last.hash, nil
	f.tail.recent.trim(f.keep())
	return nil
}

// retry measures how long a commit has been tried, and waits longer each time.
type retry struct {
	since time.Time
	limit time.Duration
	delay time.Duration
}

func newRetry(limit time.Duration) *retry {
	return &retry{since: time.Now(), limit: limit, delay: 10 * time.Millisecond}
}

// errGaveUp ends a retry.
var errGaveUp = errors.New("tried for too long")

func (r *retry) wait(ctx context.Context, sleep func(context.Context, time.Duration) error) error {
	if time.Since(r.since) >= r.limit {
		return errGaveUp
	}
	jittered := r.delay/2 + rand.N(r.delay/2+1)
	r.delay = min(2*r.delay, time.Second)
	return sleep(ctx, jittered)
}
