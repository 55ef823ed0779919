package producer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/selfcheck"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// turns is this producer's view of the list of producers that wait for their turn to write to a
// feed. The list is an object of its own, and nothing depends on it for safety, since all writes to
// the feed are conditional. So it is harmless if the list is lost, or if some producers do not use
// it.
type turns struct {
	store storage.Store
	feed  string
	id    string // of this producer

	list  turnList // as last read or written
	at    storage.Version
	since time.Time     // when that version was first seen; zero: the list must be read
	moved time.Time     // when this producer's place in the list last changed
	rtt   time.Duration // the shortest time that reading the list has taken
	pace  time.Duration // how long the turns of others take
}

// A turnList is the list as stored in the metadata of an object, whose body is empty.
type turnList struct {
	Format int    `json:"format"`
	Feed   string `json:"feed"`
	// Producers lists the producers that take turns. The first one's turn is now.
	Producers []waiter `json:"producers"`
	// Page is the number of the feed's last closed page when the last turn ended, and Digest is the
	// digest of that page. With these, the next producer need not search for the end of the feed.
	Page   int64  `json:"page,omitempty"`
	Digest string `json:"digest,omitempty"`
}

// A waiter is an entry of the list: a producer that waits for its turn.
type waiter struct {
	ID string `json:"id"`
	// Skip is the number of its own turns that the producer lets pass, because it has already
	// written that much without a turn.
	Skip int `json:"skip,omitempty"`
}

const (
	turnsFormat = 1
	// maxSkip is the maximum of waiter.Skip. When a producer notices that others wait, the pages
	// that it has in flight amount to about that many turns.
	maxSkip = chain.Ahead / turnPages
	// turnLimit is how long the list may remain unchanged before the producers ahead are presumed
	// dead. More time is allowed if turns take long.
	turnLimit = time.Second
	// longestPoll is the maximum time between two reads of the list.
	longestPoll = 200 * time.Millisecond
)

func newTurns(store storage.Store, feed string) *turns {
	return &turns{store: store, feed: feed, id: rand.Text()[:10], pace: 20 * time.Millisecond}
}

// read reads the list from the store.
func (t *turns) read(ctx context.Context) error {
	begun, before := time.Now(), t.place()
	list, at, err := loadTurns(ctx, t.store, t.feed)
	if err != nil {
		return err
	}
	now := time.Now()
	if took := now.Sub(begun); t.rtt == 0 || took < t.rtt {
		t.rtt = took
	}
	if at == t.at && !t.since.IsZero() {
		return nil
	}
	t.list, t.at, t.since = list, at, now
	if after := t.place(); before > 0 && 0 <= after && after < before {
		// A turn that took long may have belonged to a producer that died, so pace grows slowly.
		t.pace = min(now.Sub(t.moved)/time.Duration(before-after), t.pace*5/4)
		t.moved = now
	}
	return nil
}

// loadTurns returns the list and the version of its object. A list that is missing or damaged is
// empty.
func loadTurns(ctx context.Context, store storage.Store, feed string) (turnList, storage.Version, error) {
	empty := turnList{Format: turnsFormat, Feed: feed}
	info, err := store.Stat(ctx, layout.FeedTurns(feed))
	if errors.Is(err, storage.ErrNotFound) {
		return empty, "", nil
	}
	if err != nil {
		return empty, "", fmt.Errorf("read turns of feed %q: %w", feed, err)
	}
	var list turnList
	if selfcheck.Verify(info.Meta.Data) != nil || json.Unmarshal(info.Meta.Data, &list) != nil || list.Feed != feed {
		return empty, info.Version, nil
	}
	if list.Format != turnsFormat {
		return empty, "", fmt.Errorf("%w: %s has format %d, but this program supports %d", storage.ErrLayout, info.Key, list.Format, turnsFormat)
	}
	return list, info.Version, nil
}

// place returns the number of producers ahead of this one, or -1 if this one is not in the list.
func (t *turns) place() int { return t.list.place(t.id) }

func (l turnList) place(id string) int {
	return slices.IndexFunc(l.Producers, func(w waiter) bool { return w.ID == id })
}

// others reports whether the list has any producer other than the one with the given ID.
func (l turnList) others(id string) bool {
	return slices.ContainsFunc(l.Producers, func(w waiter) bool { return w.ID != id })
}

// change edits the list and writes it. If another producer has changed the list meanwhile, it starts
// again.
func (t *turns) change(ctx context.Context, edit func(*turnList)) error {
	if t.since.IsZero() {
		if err := t.read(ctx); err != nil {
			return err
		}
	}
	for tries := 1; ; tries++ {
		list := t.list
		list.Producers = slices.Clone(list.Producers)
		edit(&list)
		if slices.Equal(list.Producers, t.list.Producers) {
			return nil
		}
		at, err := t.write(ctx, list)
		if err == nil {
			now := time.Now()
			t.list, t.at, t.since, t.moved = list, at, now, now
			return nil
		}
		if !lostRace(err) {
			t.since = time.Time{} // the outcome is unknown
			return err
		}
		if tries > 1 {
			if err := backoff.Sleep(ctx, backoff.Jitter(time.Duration(min(tries, 8))*max(t.rtt, time.Millisecond))); err != nil {
				return err
			}
		}
		if err := t.read(ctx); err != nil {
			return err
		}
	}
}

func (t *turns) write(ctx context.Context, list turnList) (storage.Version, error) {
	data, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encode turns: %w", err)
	}
	key, meta := layout.FeedTurns(t.feed), storage.Meta{ContentType: "application/octet-stream", Data: selfcheck.Add(data)}
	var at storage.Version
	if t.at == "" {
		at, err = t.store.Create(ctx, key, meta, storage.Bytes())
	} else {
		at, err = t.store.Append(ctx, key, t.at, meta, storage.Bytes())
	}
	if err != nil {
		return "", fmt.Errorf("write turns of feed %q: %w", t.feed, err)
	}
	return at, nil
}

// join adds this producer to the end of the list, unless it is already in the list.
func (t *turns) join(ctx context.Context, skip int) error {
	return t.change(ctx, func(l *turnList) {
		if l.place(t.id) < 0 {
			l.Producers = append(l.Producers, waiter{t.id, min(skip, maxSkip)})
		}
	})
}

// end ends the turn of this producer. If again is true, the producer moves to the end of the list,
// if the list has other producers. The parameters page and digest are the number and the digest of
// the last closed page.
func (t *turns) end(ctx context.Context, again bool, skip int, page int64, digest string) error {
	return t.change(ctx, func(l *turnList) {
		l.Page, l.Digest = page, digest
		l.Producers = slices.DeleteFunc(l.Producers, func(w waiter) bool { return w.ID == t.id })
		if len(l.Producers) == 0 {
			return
		}
		if again {
			l.Producers = append(l.Producers, waiter{t.id, min(skip, maxSkip)})
		}
		for l.Producers[0].Skip > 0 {
			next := l.Producers[0]
			next.Skip--
			l.Producers = append(l.Producers[1:], next)
		}
	})
}

// await returns when it is this producer's turn. That is at once if no other producers are in the
// list. If the producer is not in the list, it is added at the end, and lets the first skip of its
// turns pass.
func (t *turns) await(ctx context.Context, skip int) error {
	if err := t.read(ctx); err != nil {
		return err
	}
	for {
		if err := t.join(ctx, skip); err != nil {
			return err
		}
		n := t.place()
		if n == 0 {
			return nil
		}
		// The farther back a producer is in the list, the longer it waits, so that only one producer
		// acts.
		limit := turnLimit + 4*t.pace
		limit += time.Duration(n-1) * limit / 8
		if time.Since(t.since) >= limit {
			if err := t.drop(ctx, n); err != nil {
				return err
			}
			continue
		}
		soon := max(time.Millisecond, min(8*t.rtt, t.pace/8))
		if err := backoff.Sleep(ctx, min(time.Duration(n-1)*t.pace/2+soon, longestPoll)); err != nil {
			return err
		}
		if err := t.read(ctx); err != nil {
			return err
		}
	}
}

// drop removes the first n producers, which are presumed dead, unless another producer has changed
// the list. If one of them is still alive, it joins again.
func (t *turns) drop(ctx context.Context, n int) error {
	at := t.at
	return t.change(ctx, func(l *turnList) {
		if t.at == at {
			l.Producers = l.Producers[n:]
		}
	})
}
