package chain

import (
	"context"
	"fmt"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/storage"
)

// An Ending is the reason why what a [Reader] knew about a feed no longer holds.
type Ending int

// The endings.
const (
	// WentBack means that pages are missing or have changed: the store was restored to an
	// older state, and no epoch has been begun since.
	WentBack Ending = iota + 1
	// NewEpoch means that the feed is in another epoch; see [BeginEpoch].
	NewEpoch
	// NewFeed means that the store has another feed of the same name.
	NewFeed
)

// String returns a sentence for logs.
func (e Ending) String() string {
	switch e {
	case WentBack:
		return "store went back to an older state of the feed"
	case NewEpoch:
		return "feed began another epoch"
	case NewFeed:
		return "store has another feed of this name"
	}
	return "nothing has ended"
}

// A floorState is a floor record and its version.
type floorState struct {
	floorRecord
	version storage.Version
}

// ends returns the reason why a record that was read later cannot belong to the same history, or 0.
// A record without an identity, as older programs write it, gives no reason.
func (s *floorState) ends(later *floorRecord) Ending {
	before, now := s.identity(), later.identity()
	switch {
	case feed.Differ(before.ID, now.ID):
		return NewFeed
	case now.ID != "" && before.Epoch != now.Epoch:
		return NewEpoch
	case later.Floor < s.Floor: // it is never lowered
		return WentBack
	}
	return 0
}

// readFloor returns the highest floor seen and the floor record in the store. It detects whether
// the record belongs to another history of the feed than what was read before.
func (r *Reader) readFloor(ctx context.Context) (int64, floorRecord, error) {
	for {
		r.mu.Lock()
		before := r.seen
		r.mu.Unlock()
		record, version, err := readFloor(ctx, r.store, r.feed)
		if err != nil {
			return 0, floorRecord{}, err
		}
		if floor, ok := r.saw(before, floorState{record, version}); ok {
			return floor, record, nil
		}
	}
}

// saw records a floor record that was read, and returns the highest floor. before is the last
// record known when the read began: if another one has become known meanwhile, saw returns false,
// since either may be the later one.
func (r *Reader) saw(before *floorState, now floorState) (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil || r.seen.version != now.version {
		if r.seen != before {
			return 0, false
		}
		if before != nil {
			if why := before.ends(&now.floorRecord); why != 0 {
				r.end(why)
			}
		}
		r.seen = &now
	}
	r.floor = max(r.floor, now.Floor)
	return r.floor, true
}

// end forgets what is known about the feed. The caller must hold mu.
func (r *Reader) end(why Ending) {
	r.newest, r.floor, r.beyond, r.seen = nil, 1, nil, nil
	r.ended = why
	r.timeline++
}

// beginTimeline forgets what is known about the feed in a timeline, and returns the current
// timeline.
func (r *Reader) beginTimeline(timeline int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timeline == timeline {
		r.end(WentBack)
	}
	return r.timeline
}

// Timeline returns how many times another history of the feed was found, for example because its
// store was restored to an older state, or has another feed. What was read of the feed before that,
// by this reader or another, may no longer hold.
func (r *Reader) Timeline() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.timeline
}

// Ended returns why the previous timeline ended, or 0 if there was none.
func (r *Reader) Ended() Ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Identity returns the identity of the feed as last read with the floor, without accessing the
// store. It is zero if the feed has none, or nothing was read.
func (r *Reader) Identity() feed.Identity {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		return feed.Identity{}
	}
	return r.seen.identity()
}

// CopyIdentity gives a copy of the feed, in another store, the identity that was last read here:
// a copy is the same feed. It does nothing if the feed has none.
func (r *Reader) CopyIdentity(ctx context.Context, to storage.Store) error {
	r.mu.Lock()
	seen := r.seen
	r.mu.Unlock()
	if seen == nil || seen.Identity == "" {
		return nil
	}
	for {
		record, version, err := readFloor(ctx, to, r.feed)
		if err != nil || record.identity() == seen.identity() {
			return err
		}
		record.Identity, record.Epoch = seen.Identity, seen.Epoch
		if _, err = writeFloor(ctx, to, version, record); !overtaken(err) {
			return err
		}
	}
}

// Identify gives the feed an identity if it had none when its floor was last read. It takes a
// single request if no other writer was faster.
func (r *Reader) Identify(ctx context.Context) error {
	r.mu.Lock()
	seen := r.seen
	r.mu.Unlock()
	if seen == nil {
		_, err := Identify(ctx, r.store, r.feed)
		return err
	}
	if seen.Identity != "" {
		return nil
	}
	record := seen.floorRecord
	record.Identity = feed.NewID()
	version, err := writeFloor(ctx, r.store, seen.version, record)
	if overtaken(err) {
		_, err = Identify(ctx, r.store, r.feed)
		return err
	}
	if err != nil {
		return fmt.Errorf("give feed %q an identity: %w", r.feed, err)
	}
	r.saw(seen, floorState{record, version})
	return nil
}
