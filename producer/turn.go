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
	// A producer writes without a break for aloneTurn, but for sharedTurn when it has met
	// another. As long as it meets none, each turn is four times as long as the one before.
	sharedTurn = 100 * time.Millisecond
	aloneTurn  = 4 * time.Second
	// rivalAge is for how long a producer that was noticed counts.
	rivalAge = 5 * time.Second
	// longestBreak limits a break.
	longestBreak = 500 * time.Millisecond
)

// A turn is a time in which a producer writes. One that has just written knows the end of
// the feed, which all others must look for first: without a break it would win each race, and
// they would wait until it has nothing more to write.
type turn struct {
	length time.Duration // 0 before the first break: aloneTurn
	began  time.Time     // zero between turns
	ended  time.Time     // of the last write
	rival  time.Time     // when another producer was noticed last
}

// begin begins a turn, unless there is one. A producer that had nothing to write for a
// moment has had its break.
func (t *turn) begin(took time.Duration) {
	now := time.Now()
	if t.began.IsZero() || now.Sub(t.ended) > took {
		t.began = now
	}
}

// shared reports whether others write to the feed, too.
func (t *turn) shared() bool { return !t.rival.IsZero() && time.Since(t.rival) < rivalAge }

// over reports whether it is time for a break.
func (t *turn) over() bool {
	return time.Since(t.began) > cmp.Or(t.length, aloneTurn)
}

// met is told of another producer.
func (t *turn) met() { t.rival, t.length = time.Now(), sharedTurn }

// rest ends a turn that is over with a break, in which another producer can find the end of
// the feed and write, and looks whether one has. took is how long a write takes.
func (f *Feed) rest(ctx context.Context, took time.Duration) {
	f.turn.ended = time.Now()
	if !f.turn.over() {
		return
	}
	f.turn.began, f.turn.length = time.Time{}, min(4*cmp.Or(f.turn.length, aloneTurn), aloneTurn)
	pause := took
	if f.turn.shared() {
		pause += rand.N(2*took + 1)
	}
	if backoff.Sleep(ctx, min(pause, longestBreak)) != nil || !f.tail.known {
		return
	}
	newest, err := newestOrNil(ctx, f.chain)
	if before := f.tail.newest; err != nil || newest == nil || before == nil || newest.Number != before.Number || newest.Version != before.Version {
		f.tail.known = false
		f.turn.met()
	}
}
