package feedstore

import (
	"slices"
	"sync"

	"github.com/feedctl/feedctl/chain"
)

// maxOlder is how many states of a feed's newest page are remembered in addition to the latest.
const maxOlder = 16

// A known holds the states of a feed's newest page that this process has seen last.
type known struct {
	mu     sync.Mutex
	newest *chain.Page
	older  []string // SHA-256 of earlier states, the oldest first
}

// add adds a state, unless a later one is known.
func (k *known) add(p *chain.Page) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.newest == nil {
		k.newest = p
		return
	}
	if !differs(p, k.newest) {
		return
	}
	if len(k.older) == maxOlder {
		k.older = slices.Delete(k.older, 0, 1)
	}
	k.older = append(k.older, k.newest.SHA256)
	k.newest = p
}

// after returns the latest state, provided that the predicate is true of the SHA-256 of an earlier state.
// Otherwise, it returns nil.
func (k *known) after(is func(sha256 string) bool) *chain.Page {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.ContainsFunc(k.older, is) {
		return k.newest
	}
	return nil
}

// After returns the newest page in the latest state that is known, provided that the predicate is true of
// the SHA-256 of an earlier known state. Otherwise, it returns nil. Since After makes no request to the
// store, the page may have changed meanwhile.
func (f *Feed) After(is func(sha256 string) bool) *chain.Page { return f.known.after(is) }

// Committed tells the Reader that a producer of this process has written p, the newest page of a feed.
// Callers that wait for a change are then woken without a request to the store.
func (r *Reader) Committed(p *chain.Page) {
	r.trackers.hintAt(p.Feed)
	f, ok := r.feeds.Get(p.Feed)
	if !ok {
		return // no one reads the feed
	}
	if last := f.last.Load(); last == nil || differs(p, last) {
		f.saw(p)
	}
	h := r.subscribers
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.byFeed[p.Feed]; u != nil && u.feed == f {
		u.committed(lean(p))
	}
}

// committed wakes the waiting callers if p is newer than the page that was seen before.
func (u *subscription) committed(p *chain.Page) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.gone != nil:
		u.pollSoon() // the feed was deleted, before or after p was written
	case u.newest == nil || differs(p, u.newest):
		u.newest = p
		u.wake()
	}
}
