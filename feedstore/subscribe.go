package feedstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

const (
	// watchedPoll is how much more rarely the store is polled if it tells of changes.
	watchedPoll = 10
	// firstPoll is when it is polled for the first time after a change, if it does
	// not; then it takes twice as long each time, up to Config.PollInterval.
	firstPoll = time.Second
)

// subscribers wait for changes of feeds. For each feed that is waited for there is one
// goroutine that looks, however many wait.
type subscribers struct {
	reader *Reader

	mu      sync.Mutex
	byFeed  map[string]*subscription
	waiting int
	closed  bool
	done    sync.WaitGroup
}

// A subscription watches one feed.
type subscription struct {
	feed    *Feed
	waiting int
	hint    chan struct{} // holds a value if the feed may have changed
	stop    context.CancelFunc

	mu       sync.Mutex
	newest   *chain.Page   // nil before the first look
	gone     error         // the feed was deleted
	timeline int           // of the feed's reader when newest was seen
	changed  chan struct{} // closed, and replaced, when newest changes
}

// join returns the subscription of a feed, to be left again; nil if no more may wait.
func (h *subscribers) join(f *Feed) *subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.waiting >= h.reader.config.MaxWaiters {
		return nil
	}
	u := h.byFeed[f.name]
	if u == nil {
		ctx, stop := context.WithCancel(context.Background())
		u = &subscription{feed: f, hint: make(chan struct{}, 1), stop: stop, changed: make(chan struct{})}
		h.byFeed[f.name] = u
		h.done.Go(func() { h.reader.watch(ctx, u) })
	}
	u.waiting++
	h.waiting++
	h.changed()
	return u
}

// changed reports how many wait. The caller must hold mu.
func (h *subscribers) changed() {
	if h.reader.config.Waiting != nil {
		h.reader.config.Waiting(h.waiting)
	}
}

// leave ends the subscription when no one waits any more.
func (h *subscribers) leave(u *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u.waiting--
	h.waiting--
	h.changed()
	if u.waiting == 0 {
		u.stop()
		delete(h.byFeed, u.feed.name)
	}
}

// Notify says that a feed has changed, so that those who wait for that need not wait for
// the store to tell.
func (r *Reader) Notify(name string) {
	h := r.subscribers
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.byFeed[name]; u != nil {
		u.look()
	}
}

// look makes the subscription look at the feed soon.
func (u *subscription) look() {
	select {
	case u.hint <- struct{}{}:
	default: // it will anyway
	}
}

// Wait returns the newest page as soon as it is another than, or has changed since, the
// given one; after the time the given one. granted is false if there was no waiting. The
// error is [chain.ErrDeleted] if the feed is deleted meanwhile.
func (f *Feed) Wait(ctx context.Context, known *chain.Page, d time.Duration) (newest *chain.Page, granted bool, err error) {
	h := f.r.subscribers
	u := h.join(f)
	if u == nil {
		return known, false, nil
	}
	defer h.leave(u)
	begun := u.feed.reader.Timeline()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		newest, timeline, gone, changed := u.state()
		if gone != nil {
			return nil, true, gone
		}
		if newest != nil && (timeline > begun || differs(newest, known)) {
			return newest, true, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return known, true, nil
		case <-h.reader.closing:
			return known, true, nil
		case <-ctx.Done():
			return nil, true, context.Cause(ctx)
		}
	}
}

func (u *subscription) state() (newest *chain.Page, timeline int, gone error, changed <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.newest, u.timeline, u.gone, u.changed
}

// differs reports whether newest is a later state of the feed than known, as far
// as readers are concerned.
func differs(newest, known *chain.Page) bool {
	return newest.Number > known.Number || newest.Number == known.Number && newest.Entities > known.Entities
}

// see wakes those who wait if the newest page has changed, and reports whether it
// has.
func (u *subscription) see(newest *chain.Page) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	timeline := u.feed.reader.Timeline()
	if u.gone == nil && u.newest != nil && timeline == u.timeline && !differs(newest, u.newest) {
		return false
	}
	u.newest, u.timeline, u.gone = newest, timeline, nil
	u.wake()
	return true
}

// lose wakes those who wait, as the feed was deleted.
func (u *subscription) lose(gone error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gone = gone
	u.wake()
}

// wake wakes those who wait. The caller must hold mu.
func (u *subscription) wake() {
	close(u.changed)
	u.changed = make(chan struct{})
}

// watch looks at a feed at first, when told that it may have changed, and from
// time to time.
func (r *Reader) watch(ctx context.Context, u *subscription) {
	changes := r.changes(ctx, u.feed.name)
	interval := firstPoll
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-u.hint:
		case <-timer.C:
		case _, ok := <-changes:
			if !ok {
				changes = nil
			}
		case <-ctx.Done():
			return
		}
		newest, err := u.feed.Newest(ctx)
		switch {
		case err == nil && u.see(newest):
			interval = firstPoll
		case errors.Is(err, chain.ErrDeleted):
			u.lose(err)
		case err != nil && ctx.Err() == nil:
			r.log.WarnContext(ctx, "look for changes of feed", "feed", u.feed.name, "error", err)
		}
		if changes != nil {
			timer.Reset(r.config.PollInterval * watchedPoll)
			continue
		}
		timer.Reset(min(interval, r.config.PollInterval))
		interval = min(2*interval, r.config.PollInterval)
	}
}

// changes returns where the store tells of changes of a feed; nil if it does not.
func (r *Reader) changes(ctx context.Context, feed string) <-chan struct{} {
	watcher, ok := storage.As[storage.Watcher](r.store)
	if !ok {
		return nil
	}
	changes, err := watcher.Watch(ctx, layout.FeedPages(feed))
	if err != nil {
		r.log.WarnContext(ctx, "watch feed: fall back to polling", "feed", feed, "error", err)
		return nil
	}
	return changes
}

// close waits for the watching to end. Those who wait are sent away by the closing of
// the Reader.
func (h *subscribers) close() {
	h.mu.Lock()
	h.closed = true
	for _, u := range h.byFeed {
		u.stop()
	}
	h.mu.Unlock()
	h.done.Wait()
}
