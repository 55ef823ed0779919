package feedstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
)

// Limits of [Reader.Heads].
const (
	maxHeads  = 10_000 // how many feeds, the first by name, have their newest pages kept
	headsRate = 50     // how many feeds are polled per second
)

// heads holds the newest pages of all feeds, as last seen by requests and by passes over the feeds.
type heads struct {
	reader *Reader

	mu     sync.Mutex
	byName map[string]*head
	feeds  int           // how many feeds the store had when they were last listed
	pass   chan struct{} // closed when the pass under way ends; nil if there is none
}

// A head is the newest page of a feed as last seen.
type head struct {
	page *chain.Page // nil before the first poll
	at   time.Time   // of the last poll, even if it failed
}

// Heads returns the newest pages, as last seen, of the first 10,000 feeds by name, and the number of feeds in
// the store. The pages are in no particular order, and have no checkpoints. Heads starts polling the feeds in
// the background, the least recently polled first, and waits for the polls, but no longer than wait. Pages
// that are not known yet, or cannot be read, are omitted.
func (r *Reader) Heads(wait time.Duration) (pages []*chain.Page, feeds int) {
	h := &r.heads
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-h.refresh():
	case <-timer.C:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, known := range h.byName {
		if known.page != nil {
			pages = append(pages, known.page)
		}
	}
	return pages, h.feeds
}

// saw records the newest page of a feed that has been listed.
func (h *heads) saw(p *chain.Page) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.byName[p.Feed]; known != nil {
		known.page, known.at = lean(p), time.Now()
	}
}

// refresh starts a pass over the feeds, unless one is under way. The returned channel is closed when the pass
// ends.
func (h *heads) refresh() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pass != nil {
		return h.pass
	}
	done := make(chan struct{})
	if !h.reader.background.run(func(ctx context.Context) {
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.pass = nil
			close(done)
		}()
		h.poll(ctx)
	}) {
		close(done)
		return done
	}
	h.pass = done
	return done
}

// poll polls as many feeds as the time limit of a background task allows.
func (h *heads) poll(ctx context.Context) {
	names, err := h.list(ctx)
	if err != nil {
		h.reader.log.WarnContext(ctx, "cannot list feeds to poll them", "error", err)
		return
	}
	rest := time.NewTimer(time.Second)
	defer rest.Stop()
	for i, name := range names {
		if i > 0 && i%headsRate == 0 {
			select {
			case <-rest.C:
				rest.Reset(time.Second)
			case <-h.reader.closing:
				return
			case <-ctx.Done():
				return
			}
		}
		if err := h.pollFeed(ctx, name); err != nil && ctx.Err() == nil {
			h.reader.log.DebugContext(ctx, "poll a feed", "feed", name, "error", err)
			h.forget(name)
		}
	}
}

// list lists the feeds and returns the names of the first maxHeads, the least recently polled
// first. It drops the heads of feeds that no longer exist.
func (h *heads) list(ctx context.Context) ([]string, error) {
	count, there := 0, make(map[string]*head)
	for name, err := range chain.Feeds(ctx, h.reader.store, "") {
		if err != nil {
			return nil, err
		}
		if count++; count <= maxHeads {
			there[name] = new(head)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range there {
		if known := h.byName[name]; known != nil {
			there[name] = known
		}
	}
	h.byName, h.feeds = there, count
	return slices.SortedFunc(maps.Keys(there), func(a, b string) int {
		return cmp.Or(there[a].at.Compare(there[b].at), cmp.Compare(a, b))
	}), nil
}

// pollFeed polls one feed. If the reader has a state of the feed, it uses that.
func (h *heads) pollFeed(ctx context.Context, name string) error {
	h.mu.Lock()
	known := h.byName[name]
	known.at = time.Now()
	last := known.page
	h.mu.Unlock()
	p, err := h.reader.head(ctx, name, last)
	if err != nil {
		return err
	}
	h.saw(p)
	return nil
}

// forget drops the head of a feed that cannot be read.
func (h *heads) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byName[name].page = nil
}
