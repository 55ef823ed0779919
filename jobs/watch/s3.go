package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// S3 watches stores that do not report changes. A feed costs one request, or three if its newest page is
// closed: every 5 s after a change and eventually only every 5 min, but a store gets requests for at most
// 20 feeds a second. If a feed has changed, finding its newest page takes some more requests; a store gets
// at most 100 requests a second.
type S3 struct {
	// Open opens the store at a URL with a credential.
	Open func(ctx context.Context, server, credential string) (storage.Store, error)
}

const (
	s3Fastest = 5 * time.Second
	s3Slowest = 5 * time.Minute
	s3Most    = 20  // feeds per second
	s3Rate    = 100 // requests per second
	s3AtOnce  = 8
)

// noFeed is the state of a feed without pages.
const noFeed = "missing"

// Watch implements [Source].
func (s S3) Watch(ctx context.Context, w *Watched) error {
	store, err := s.Open(ctx, w.Server, w.Credential)
	if err != nil {
		return err
	}
	defer store.Close()
	p := poller{watched: w, fastest: s3Fastest, slowest: s3Slowest, round: time.Second, most: s3Most, compare: heads{&paced{Store: store}}.compare}
	return p.run(ctx, 0)
}

// paced is a store that limits the number of requests per second.
type paced struct {
	storage.Store
	mu   sync.Mutex
	next time.Time // when the next request may begin
}

// wait waits until a request may begin.
func (p *paced) wait(ctx context.Context) error {
	p.mu.Lock()
	begin := time.Now()
	if p.next.After(begin) {
		begin = p.next
	}
	p.next = begin.Add(time.Second / s3Rate)
	p.mu.Unlock()
	return backoff.Sleep(ctx, time.Until(begin))
}

// Stat implements [storage.Store].
func (p *paced) Stat(ctx context.Context, key string) (storage.Info, error) {
	if err := p.wait(ctx); err != nil {
		return storage.Info{}, err
	}
	return p.Store.Stat(ctx, key)
}

// heads compares the newest pages of feeds with earlier states.
type heads struct{ store storage.Store }

// compare returns the current states of feeds, given their previous states. It leaves out feeds that
// cannot be read, and returns an error if no feed is left.
func (h heads) compare(ctx context.Context, states map[string]string) (map[string]string, error) {
	return compareEach(ctx, states, s3AtOnce, h.state)
}

// state returns the current state of a feed, given its previous state. A state consists of the number of
// the newest page and its version.
func (h heads) state(ctx context.Context, feed, before string) (string, error) {
	if h.rests(ctx, feed, before) {
		return before, nil
	}
	newest, err := chain.NewReader(h.store, feed).Newest(ctx)
	switch {
	case errors.Is(err, chain.ErrNoFeed):
		return noFeed, nil
	case err != nil:
		return "", err
	case newest.Closed:
		return fmt.Sprintf("%d closed %q", newest.Number, newest.Version), nil
	}
	return fmt.Sprintf("%d open %q", newest.Number, newest.Version), nil
}

// rests reports whether the newest page of a feed is still the one in the given state.
func (h heads) rests(ctx context.Context, feed, state string) bool {
	var n int64
	var kind, version string
	if _, err := fmt.Sscanf(state, "%d %s %q", &n, &kind, &version); err != nil {
		return false
	}
	if kind == "closed" { // a change would have added the next page, unless the feed was deleted
		if _, err := h.store.Stat(ctx, layout.FeedPage(feed, n+1)); !errors.Is(err, storage.ErrNotFound) {
			return false
		}
		if floor, err := chain.NewReader(h.store, feed).Floor(ctx); err != nil || floor > n {
			return false
		}
	}
	info, err := h.store.Stat(ctx, layout.FeedPage(feed, n))
	return err == nil && string(info.Version) == version
}
