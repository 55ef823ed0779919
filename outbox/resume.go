package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/producer"
)

// resume continues after an interruption. If the recorded batch is not in the feed, it
// publishes exactly the recorded rows, in the same order.
func (p *remotePages) resume(ctx context.Context) (m moved, err error) {
	var r rows
	err = p.db.do(ctx, func(tx pgx.Tx) error {
		if p.state, err = p.config.lock(ctx, tx, inStore); err != nil || p.state.pending == nil {
			return err
		}
		r, err = p.config.takeThese(ctx, tx, p.bodies(), p.state.ids)
		return err
	})
	if err != nil {
		return moved{}, err
	}
	p.pages = chain.NewReader(p.config.Store, p.config.Feed)
	newest, err := newestOrNil(ctx, p.pages)
	if err != nil {
		return moved{}, err
	}
	var checkpoint []byte
	if newest != nil {
		checkpoint, p.page = newest.Checkpoint, newest.Number
	}
	p.done = p.state.pending != nil && string(checkpoint) == *p.state.pending
	if !p.done && string(checkpoint) != p.state.checkpoint {
		return moved{}, p.foreignCheckpoint(ctx, string(checkpoint))
	}
	if p.feed, err = producer.Open(ctx, p.config.Store, p.config.Feed, p.config.Producer); err != nil {
		return moved{}, err
	}
	if p.done || p.state.pending == nil {
		return moved{}, nil
	}
	for _, b := range r.bad {
		return moved{}, fmt.Errorf("resume batch %d of feed %q: row %d can no longer be published: %s: adopt the feed to put the row into quarantine",
			p.state.batch, p.config.Feed, b.id, b.reason)
	}
	if err := p.skip(ctx, &r, newest); err != nil {
		return moved{}, err
	}
	if len(r.entities) == 0 {
		return moved{}, p.forget(ctx)
	}
	p.config.taken(r.oldest)
	return moved{rows: len(r.ids), bytes: r.bytes, full: true}, p.publish(ctx, r)
}

// foreignCheckpoint returns the error for an unexpected checkpoint. Another runner may have
// moved rows since the state was read, and written the checkpoint. In that case the state has
// changed, since a batch is recorded before its checkpoint is in the feed.
func (p *remotePages) foreignCheckpoint(ctx context.Context, checkpoint string) error {
	var now state
	err := p.db.do(ctx, func(tx pgx.Tx) (err error) {
		now, err = p.config.lock(ctx, tx, inStore)
		return err
	})
	switch {
	case err != nil:
		return err
	case now.batch != p.state.batch || deref(now.pending) != deref(p.state.pending):
		return fmt.Errorf("resume after batch %d of feed %q: %w", p.state.batch, p.config.Feed, errLeaseLost)
	}
	return p.config.foreign(now, checkpoint)
}

// skip removes from a batch the entities that are already in the feed: an interrupted runner may
// have written the first pages of the batch. The producer alone might not find them, because it
// searches only the newest pages for duplicates, and others may have published since.
func (p *remotePages) skip(ctx context.Context, r *rows, newest *chain.Page) error {
	if newest == nil {
		return nil
	}
	wanted := make(map[string]bool, len(r.entities))
	for _, e := range r.entities {
		wanted[e.ContentID] = true
	}
	found := map[string]bool{}
	for n := max(1, p.state.page); n <= newest.Number; n++ {
		for h, err := range p.pages.Headers(ctx, n) {
			if err != nil && !errors.Is(err, chain.ErrPruned) {
				return err
			}
			if id := string(h.Get("Content-ID")); wanted[id] {
				found[id] = true
			}
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

// foreign returns the error for a checkpoint that was not written by this outbox.
func (c Config) foreign(s state, checkpoint string) error {
	why := "another program publishes to the feed: a feed can have only one outbox"
	epoch, _, _ := strings.Cut(strings.TrimPrefix(checkpoint, "outbox/"), "/")
	switch {
	case checkpoint == "":
		why = "the feed does not exist, or is not the one that rows were moved to: check --store"
	case strings.HasPrefix(checkpoint, "outbox/") && epoch == s.epoch:
		why = "the database or the store was restored from a backup, or a copy of the database publishes to the same feed"
	case strings.HasPrefix(checkpoint, "outbox/"):
		why = "the outbox of another database publishes to the same feed"
	}
	return fmt.Errorf("%w: feed %q has the checkpoint %q, but the database has %q and %q: %s. If this is intended, adopt the feed",
		ErrForeign, c.Feed, checkpoint, s.checkpoint, deref(s.pending), why)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
