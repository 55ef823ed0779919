package producer

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// Limits of a producer's turn.
const (
	// While others wait for their turn, a producer writes until it has filled turnPages pages or
	// sharedTurn has passed, whichever comes first. So producers with equal work end at about the same
	// time, even if the work takes only a few turns.
	turnPages  = 4
	sharedTurn = 100 * time.Millisecond
	// longestLook is the maximum time between two checks for whether others wait, unless a write takes
	// longer.
	longestLook = 300 * time.Millisecond
	// A producer that does not take turns pauses after soloTurn or, once it has noticed another
	// producer, after sharedTurn. As long as it notices none after that, each turn is four times as
	// long as the one before, up to soloTurn.
	soloTurn = 4 * time.Second
	// competitorAge is how long another producer counts as active after it was noticed.
	competitorAge = 5 * time.Second
	// maxPause is the maximum length of a pause between turns.
	maxPause = 500 * time.Millisecond
)

// A turn is a time in which one of several producers writes. A producer that has just written knows
// the end of the feed, which all others must read first. It would win each race, and the others would
// wait until it has nothing more to write.
//
// So producers that lose races take turns, in the order of a list in the store. A producer that writes
// without a turn checks from time to time whether there is a list, and joins it. It also pauses, so
// that producers that do not use the list can write.
type turn struct {
	*turns
	joined  bool  // whether this producer is in the list
	ours    bool  // whether it is this producer's turn
	written int64 // number of bytes added to the feed in the turn
	planned int64 // number of bytes that have been added or are being added
	quota   int64 // limit of both

	lookAt   time.Time // when this producer next checks whether others wait
	lookWhen int64     // or, if that is earlier, the number of planned bytes after which it checks
	looking  sync.WaitGroup
	busy     atomic.Bool // whether it is checking
	wanted   atomic.Bool // whether others wait

	length     time.Duration // of a turn; 0, before the first pause, means soloTurn
	began      time.Time     // zero between turns
	ended      time.Time     // when the last write ended
	competitor time.Time     // when another producer was last noticed
	crowded    bool          // whether others must be given turns, because there are several or they are faster
}

// begin begins a turn, unless one has already begun. If a producer had nothing to write for a moment,
// that counts as a pause.
func (t *turn) begin(took time.Duration) {
	now := time.Now()
	if t.began.IsZero() || now.Sub(t.ended) > took && !t.ours {
		t.began, t.planned, t.written = now, 0, 0
		t.lookLater()
	}
}

// shared reports whether other producers also write to the feed.
func (t *turn) shared() bool {
	return !t.competitor.IsZero() && time.Since(t.competitor) < competitorAge
}

// over reports whether it is time to let others write.
func (t *turn) over() bool {
	spent := time.Since(t.began)
	if t.ours {
		// The turn is not shorter than this, since waiting for the next turn takes several round
		// trips.
		return t.planned > 0 && spent >= 4*t.rtt && (t.planned >= t.quota || spent >= sharedTurn)
	}
	return t.wanted.Load() || spent > cmp.Or(t.length, soloTurn)
}

// plan records that the given number of bytes is to be added to a page in this turn. It reports
// whether that page is the last of the turn.
func (t *turn) plan(added int64) bool {
	t.planned += added
	return t.ours && t.over()
}

// compete records that another producer was noticed.
func (t *turn) compete() { t.competitor, t.length = time.Now(), sharedTurn }

// crowd records that others must be given turns.
func (t *turn) crowd() {
	t.compete()
	t.crowded = true
}

// lookLater sets when to check whether others wait: first after the time or the amount of a turn, and
// then at intervals that grow with the time that has passed.
func (t *turn) lookLater() {
	now := time.Now()
	t.lookAt = now.Add(min(max(sharedTurn, now.Sub(t.began)/8), longestLook))
	t.lookWhen = t.planned + max(t.quota, t.planned/8)
}

// lookAround checks in the background, from time to time, whether others wait for a turn.
func (f *Feed) lookAround(ctx context.Context) {
	t := &f.turn
	if t.joined || t.planned < t.lookWhen && time.Now().Before(t.lookAt) || !t.busy.CompareAndSwap(false, true) {
		return
	}
	t.lookLater()
	t.looking.Go(func() {
		defer t.busy.Store(false)
		ctx, cancel := context.WithTimeout(ctx, competitorAge)
		defer cancel()
		list, _, err := loadTurns(ctx, f.store, f.name)
		t.wanted.Store(err == nil && list.others(t.id))
	})
}

// awaitTurn waits for this producer's turn if other producers also write to the feed.
func (f *Feed) awaitTurn(ctx context.Context) {
	t := &f.turn
	if t.wanted.Swap(false) {
		t.crowd()
	}
	if t.ours || !t.joined && !(t.crowded && t.shared()) {
		return
	}
	err := t.await(ctx, int(t.written/t.quota))
	t.joined, t.ours, t.crowded = err == nil, err == nil, err == nil
	if err != nil {
		f.config.Logger.Debug("cannot wait for a turn, publishing without one", "feed", f.name, "error", err)
		return
	}
	t.began, t.planned, t.written = time.Now(), 0, 0
	f.tail.known = false
	if t.list.Page > f.tail.number() {
		f.chain.Skip(ctx, t.list.Page, t.list.Digest)
	}
}

// queueUp waits for this producer's turn after it has lost several races.
func (f *Feed) queueUp(ctx context.Context) {
	t := &f.turn
	t.crowd()
	had, began, written := t.ours, t.began, t.written
	t.ours = false // another producer may have ended our turn
	f.awaitTurn(ctx)
	if had && t.ours {
		t.began, t.written = began, written
	}
}

// endTurn gives up this producer's turn, or its place in the list. If again is true, the producer
// takes the last place in the list, unless no other producer waits.
func (f *Feed) endTurn(ctx context.Context, again bool) {
	t := &f.turn
	page, digest := f.tail.lastClosed()
	err := t.end(ctx, again, max(int(t.written/t.quota)-1, 0), page, digest)
	t.ours, t.began = false, time.Time{}
	t.joined = err != nil || t.place() >= 0
	if t.crowded = t.joined || t.list.others(t.id); t.crowded {
		t.compete()
		f.tail.known = false
	}
}

// leave gives up this producer's turn, or its place in the list, for good.
func (f *Feed) leave(ctx context.Context) {
	if f.turn.joined {
		ctx, cancel := context.WithTimeout(ctx, turnLimit) // others do not wait longer than this
		defer cancel()
		f.endTurn(ctx, false)
	}
	f.turn.looking.Wait()
}

// pause ends the turn if it is over, and waits long enough for another producer to read the end of the
// feed and write. Then it checks whether another producer has written. The parameter took is how long
// a write takes.
func (f *Feed) pause(ctx context.Context, took time.Duration) {
	t := &f.turn
	if t.ended.Before(t.began) {
		t.lookLater() // the time for the reads of the first commit does not count
	}
	t.ended = time.Now()
	switch {
	case !t.over():
		return
	case t.ours:
		f.endTurn(ctx, f.queue.len() > 0)
		return
	case t.wanted.Load():
		return // the caller then waits for its turn
	}
	t.began, t.length = time.Time{}, min(4*cmp.Or(t.length, soloTurn), soloTurn)
	pause := took
	if t.shared() {
		pause += rand.N(2*took + 1)
	}
	if backoff.Sleep(ctx, min(pause, maxPause)) != nil || !f.tail.known {
		return
	}
	newest, err := newestOrNil(ctx, f.chain)
	if before := f.tail.newest; err != nil || newest == nil || before == nil || newest.Number != before.Number || newest.Version != before.Version {
		f.tail.known = false
		t.compete()
	}
}

// idle returns as soon as requests are waiting. If there are none for a moment, it gives up this
// producer's turn.
func (f *Feed) idle(ctx context.Context, took time.Duration) {
	if f.turn.joined {
		timer := time.NewTimer(min(max(took, time.Millisecond), sharedTurn/4))
		defer timer.Stop()
		select {
		case <-f.queue.wake:
			return
		case <-timer.C:
			f.endTurn(ctx, false)
		}
	}
	<-f.queue.wake
}
