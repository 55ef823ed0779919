package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/producer"
)

// adoptSlack is the maximum difference between the clock of the database and the clocks of the feed's
// producers.
const adoptSlack = time.Hour

// Adopt makes the outbox continue the feed in its current state. It is called after the database or the
// store has been restored from a backup, or to move the feed to another store. Rows whose Content-IDs
// are in the feed, on pages at most an hour older than the oldest row, have already been published.
// Adopt deletes these rows, and returns how many it deleted. No runner may work on the feed at the same
// time. Adopt does not restore entities that the feed has lost.
func (d *DB) Adopt(ctx context.Context, c Config) (deleted int64, err error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return 0, err
	}
	l := newLease(d, c)
	taken, err := l.take(ctx)
	if err == nil && !taken {
		err = errors.New("a runner is working on it: stop it first")
	}
	if err != nil {
		return 0, fmt.Errorf("adopt feed %q: %w", c.Feed, err)
	}
	err = d.do(ctx, func(tx pgx.Tx) error {
		deleted, err = c.adopt(ctx, tx)
		return err
	})
	if err = errors.Join(err, l.release(context.WithoutCancel(ctx))); err != nil {
		return 0, fmt.Errorf("adopt feed %q: %w", c.Feed, err)
	}
	return deleted, nil
}

func (c Config) adopt(ctx context.Context, tx pgx.Tx) (int64, error) {
	// Reading the store may take a long time; no runner waits for this transaction.
	if err := disableTimeouts(ctx, tx); err != nil {
		return 0, err
	}
	destination, store := inStore, c.Store
	if c.Local != nil {
		destination, store = inDatabase, c.Local
	}
	if _, err := tx.Exec(ctx, `UPDATE outbox_feed SET destination = $2 WHERE feed = $1`, c.Feed, destination); err != nil {
		return 0, err
	}
	s, err := c.lock(ctx, tx, destination)
	if err != nil {
		return 0, err
	}
	checkpoint, err := producer.ReadCheckpoint(ctx, store, c.Feed)
	if err != nil {
		return 0, err
	}
	var oldest *time.Time
	if err := tx.QueryRow(ctx, `SELECT min(created_at) FROM outbox WHERE feed = $1`, c.Feed).Scan(&oldest); err != nil {
		return 0, err
	}
	deleted := int64(0)
	if oldest != nil {
		if deleted, err = c.deletePublished(ctx, tx, chain.NewReader(store, c.Feed), oldest.Add(-adoptSlack)); err != nil {
			return 0, err
		}
	}
	return deleted, c.save(ctx, tx, s.settled(string(checkpoint)))
}

// deletePublished deletes the rows whose Content-IDs are in the feed, on pages whose
// last entity is not older than since.
func (c Config) deletePublished(ctx context.Context, tx pgx.Tx, pages *chain.Reader, since time.Time) (deleted int64, err error) {
	newest, err := newestOrNil(ctx, pages)
	if err != nil || newest == nil {
		return 0, err
	}
	for n := newest.Number; n > 0; n-- {
		p, err := pages.Stat(ctx, n)
		if errors.Is(err, chain.ErrPruned) || err == nil && p.Last.Before(since) {
			return deleted, nil
		}
		if err != nil {
			return 0, err
		}
		var ids []string
		for h, err := range pages.Headers(ctx, n) {
			if err != nil {
				return 0, err
			}
			ids = append(ids, string(h.Get("Content-ID")))
		}
		tag, err := tx.Exec(ctx, `DELETE FROM outbox WHERE feed = $1 AND content_id = ANY($2)`, c.Feed, ids)
		if err != nil {
			return 0, err
		}
		deleted += tag.RowsAffected()
	}
	return deleted, nil
}
