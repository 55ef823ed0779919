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
	// watchedPoll multiplies the poll interval if the store reports changes.
	watchedPoll = 10
	// firstPoll is the first poll interval after a change if the store does not report changes; it
	// doubles with each poll, up to Config.PollInterval.
	firstPoll = time.Second
)

// subscribers lets callers wait for changes of feeds. For each feed with subscribers, one goroutine polls the
// store.
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
	newest   *chain.Page   // nil before the first poll
	gone     error         // set if the feed was deleted
	timeline int           // the timeline of the feed's reader when newest was seen
	changed  chan struct{} // closed, and replaced, when newest changes
}

// join subscribes to a feed. It returns nil if MaxWaiters callers are waiting already.
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

// enter counts another waiting caller. It returns false if MaxWaiters callers are waiting already, or the
// Reader is closed.
func (h *subscribers) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.waiting >= h.reader.config.MaxWaiters {
		return false
	}
	h.waiting++
	h.changed()
	return true
}

// exit undoes enter.
func (h *subscribers) exit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting--
	h.changed()
}

// changed calls Config.Waiting with the number of waiting callers. The caller must hold mu.
func (h *subscribers) changed() {
	if h.reader.config.Waiting != nil {
		h.reader.config.Waiting(h.waiting)
	}
}

// leave unsubscribes. When the last subscriber of a feed leaves, the polling ends.
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

// notice makes the subscription of a feed, if there is one, poll soon.
func (h *subscribers) notice(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.byFeed[name]; u != nil {
		u.pollSoon()
	}
}

// pollSoon makes the subscription poll the feed soon.
func (u *subscription) pollSoon() {
	select {
	case u.hint <- struct{}{}:
	default: // a poll is already due
	}
}

// Wait waits, at most for d, until the newest page differs from known. It returns the newest page, or known
// if that has not changed. granted is false if Wait could not wait. The error matches [chain.ErrDeleted] if
// the feed is deleted meanwhile.
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

// differs reports whether newest is a state of the feed that readers can distinguish from
// known.
func differs(newest, known *chain.Page) bool {
	return newest.Number > known.Number || newest.Number == known.Number && newest.Entities > known.Entities
}

// see records the newest page and reports whether it has changed. If so, it wakes the
// waiting callers.
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

// lose wakes the waiting callers because the feed was deleted.
func (u *subscription) lose(gone error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gone = gone
	u.wake()
}

// wake wakes the waiting callers. The caller must hold mu.
func (u *subscription) wake() {
	close(u.changed)
	u.changed = make(chan struct{})
}

// watch polls a feed: once at the start, after each hint that the feed may have changed, and at intervals.
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
			r.log.WarnContext(ctx, "cannot poll feed for changes", "feed", u.feed.name, "error", err)
		}
		if changes != nil {
			timer.Reset(r.config.PollInterval * watchedPoll)
			continue
		}
		timer.Reset(min(interval, r.config.PollInterval))
		interval = min(2*interval, r.config.PollInterval)
	}
}

// changes returns a channel on which the store reports changes of a feed, or nil if the store cannot do that.
func (r *Reader) changes(ctx context.Context, feed string) <-chan struct{} {
	watcher, ok := storage.As[storage.Watcher](r.store)
	if !ok {
		return nil
	}
	changes, err := watcher.Watch(ctx, layout.FeedPages(feed))
	if err != nil {
		r.log.WarnContext(ctx, "cannot watch feed, falling back to polling", "feed", feed, "error", err)
		return nil
	}
	return changes
}

// close ends the polling. The callers stop waiting because the Reader is closed.
func (h *subscribers) close() {
	h.mu.Lock()
	h.closed = true
	for _, u := range h.byFeed {
		u.stop()
	}
	h.mu.Unlock()
	h.done.Wait()
}
