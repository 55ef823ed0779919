package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
)

// resume finds out how far the feed has come. A batch that was noted and is not in
// the feed is published now: exactly the rows that were noted, in the same order.
func (o *outside) resume(ctx context.Context) (m moved, err error) {
	var r rows
	err = o.db.do(ctx, func(tx pgx.Tx) error {
		if o.state, err = o.config.lock(ctx, tx, inStore); err != nil || o.state.pending == nil {
			return err
		}
		r, err = o.config.takeThese(ctx, tx, o.bodies(), o.state.ids)
		return err
	})
	if err != nil {
		return moved{}, err
	}
	o.pages = chain.NewReader(o.config.Store, o.config.Feed)
	newest, err := newestOrNil(ctx, o.pages)
	if err != nil {
		return moved{}, err
	}
	var checkpoint []byte
	if newest != nil {
		checkpoint, o.page = newest.Checkpoint, newest.Number
	}
	o.done = o.state.pending != nil && string(checkpoint) == *o.state.pending
	if !o.done && string(checkpoint) != o.state.checkpoint {
		return moved{}, o.stranger(ctx, string(checkpoint))
	}
	if o.feed, err = producer.Open(ctx, o.config.Store, o.config.Feed, o.config.Producer); err != nil {
		return moved{}, err
	}
	if o.done || o.state.pending == nil {
		return moved{}, nil
	}
	for _, b := range r.bad {
		return moved{}, fmt.Errorf("resume batch %d of feed %q: row %d cannot be published any more: %s: adopt the feed, that puts the row aside",
			o.state.batch, o.config.Feed, b.id, b.reason)
	}
	if err := o.skip(ctx, &r, newest); err != nil {
		return moved{}, err
	}
	if len(r.entities) == 0 {
		return moved{}, o.forget(ctx)
	}
	return moved{rows: len(r.ids), bytes: r.bytes, full: true}, o.publish(ctx, r)
}

// stranger returns the error for a checkpoint that is not expected. It may be that of
// another runner, which has gone on since the state was read: a batch is noted before
// its checkpoint is in the feed, so the state tells.
func (o *outside) stranger(ctx context.Context, checkpoint string) error {
	var now state
	err := o.db.do(ctx, func(tx pgx.Tx) (err error) {
		now, err = o.config.lock(ctx, tx, inStore)
		return err
	})
	switch {
	case err != nil:
		return err
	case now.batch != o.state.batch || deref(now.pending) != deref(o.state.pending):
		return fmt.Errorf("resume after batch %d of feed %q: %w", o.state.batch, o.config.Feed, errLeaseLost)
	}
	return o.config.foreign(now, checkpoint)
}

// skip takes out of a batch what is in the feed: the first pages of a batch may
// have been written before all was cut short. The producer looks for that on the
// newest pages only, and others may have published since.
func (o *outside) skip(ctx context.Context, r *rows, newest *chain.Page) error {
	if newest == nil {
		return nil
	}
	wanted := make(map[string]bool, len(r.entities))
	for _, e := range r.entities {
		wanted[e.ContentID] = true
	}
	found := map[string]bool{}
	for n := max(1, o.state.page); n <= newest.Number; n++ {
		err := eachOn(ctx, o.pages, n, func(h page.Header) {
			if id := string(h.Get("Content-ID")); wanted[id] {
				found[id] = true
			}
		})
		if err != nil && !errors.Is(err, chain.ErrPruned) {
			return err
		}
	}
	if len(found) == 0 {
		return nil
	}
	kept := r.entities[:0]
	for _, e := range r.entities {
		if !found[e.ContentID] {
			kept = append(kept, e)
		}
	}
	r.entities = kept
	return nil
}

// foreign says whose the feed's checkpoint may be.
func (c Config) foreign(s state, checkpoint string) error {
	why := "it was written by something else: one feed has one outbox"
	epoch, _, _ := strings.Cut(strings.TrimPrefix(checkpoint, "outbox/"), "/")
	switch {
	case checkpoint == "":
		why = "the feed is not there, or not the one that rows were moved to: look at --store"
	case strings.HasPrefix(checkpoint, "outbox/") && epoch == s.epoch:
		why = "the database or the store was restored from a backup, or a copy of the database publishes to the same feed"
	case strings.HasPrefix(checkpoint, "outbox/"):
		why = "the outbox of another database publishes to the same feed"
	}
	return fmt.Errorf("%w: feed %q has the checkpoint %q, the database knows %q and %q: %s. If all is as it should be, adopt the feed",
		ErrForeign, c.Feed, checkpoint, s.checkpoint, deref(s.pending), why)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
