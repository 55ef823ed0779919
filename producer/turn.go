package producer

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// Limits of a producer's turn.
const (
	// A producer writes without a pause for soloTurn, but only for sharedTurn after it has noticed
	// another. While it notices none, each turn is four times as long as the one before.
	sharedTurn = 100 * time.Millisecond
	soloTurn   = 4 * time.Second
	// competitorAge is how long a producer counts as active after it was noticed.
	competitorAge = 5 * time.Second
	// maxPause limits the pause between turns.
	maxPause = 500 * time.Millisecond
)

// A turn is a time in which a producer writes. A producer that has just written knows the end of
// the feed, which all others must read first: without a pause it would win each race, and they
// would wait until it has nothing more to write.
type turn struct {
	length     time.Duration // 0 before the first pause: soloTurn
	began      time.Time     // zero between turns
	ended      time.Time     // end of the last write
	competitor time.Time     // when another producer was last noticed
}

// begin begins a turn unless there is one. A producer that had nothing to write for a moment
// has paused.
func (t *turn) begin(took time.Duration) {
	now := time.Now()
	if t.began.IsZero() || now.Sub(t.ended) > took {
		t.began = now
	}
}

// shared reports whether others write to the feed, too.
func (t *turn) shared() bool {
	return !t.competitor.IsZero() && time.Since(t.competitor) < competitorAge
}

// over reports whether it is time for a pause.
func (t *turn) over() bool {
	return time.Since(t.began) > cmp.Or(t.length, soloTurn)
}

// compete records that another producer was noticed.
func (t *turn) compete() { t.competitor, t.length = time.Now(), sharedTurn }

// pause ends a turn that is over with a pause, in which another producer can read the end of the
// feed and write, and checks whether one has. took is how long a write takes.
func (f *Feed) pause(ctx context.Context, took time.Duration) {
	f.turn.ended = time.Now()
	if !f.turn.over() {
		return
	}
	f.turn.began, f.turn.length = time.Time{}, min(4*cmp.Or(f.turn.length, soloTurn), soloTurn)
	pause := took
	if f.turn.shared() {
		pause += rand.N(2*took + 1)
	}
	if backoff.Sleep(ctx, min(pause, maxPause)) != nil || !f.tail.known {
		return
	}
	newest, err := newestOrNil(ctx, f.chain)
	if before := f.tail.newest; err != nil || newest == nil || before == nil || newest.Number != before.Number || newest.Version != before.Version {
		f.tail.known = false
		f.turn.compete()
	}
}
