package outbox

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The possible destinations of the rows of a feed.
const (
	inDatabase = "database"
	inStore    = "store"
)

// A state is the row of a feed in the table outbox_feed.
type state struct {
	destination string
	epoch       string
	batch       int64   // number of the last batch
	checkpoint  string  // the feed's checkpoint before the pending batch
	pending     *string // the feed's checkpoint after the pending batch; nil if no batch is pending
	ids         []int64 // ids of the rows of the pending batch
	page        int64   // the first page of the feed that may hold the pending batch
}

// lock reads the row of the feed, and locks it until the transaction ends. If there is no row, it
// inserts one.
func (c Config) lock(ctx context.Context, tx pgx.Tx, destination string) (state, error) {
	var s state
	read := func() error {
		return tx.QueryRow(ctx, `
			SELECT destination, epoch, batch, checkpoint, pending, ids, page FROM outbox_feed WHERE feed = $1 FOR UPDATE`,
			c.Feed).Scan(&s.destination, &s.epoch, &s.batch, &s.checkpoint, &s.pending, &s.ids, &s.page)
	}
	err := read()
	if err == pgx.ErrNoRows {
		_, err = tx.Exec(ctx, `INSERT INTO outbox_feed (feed, destination, epoch) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
			c.Feed, destination, rand.Text()[:13])
		if err == nil {
			err = read()
		}
	}
	if err != nil {
		return state{}, fmt.Errorf("read state of the outbox of feed %q: %w", c.Feed, err)
	}
	if s.destination != destination {
		return state{}, fmt.Errorf("%w: the outbox of feed %q moves rows to %s, this runner to %s: use the former store, or adopt the feed in the new one",
			ErrDestination, c.Feed, place(s.destination), place(destination))
	}
	return s, nil
}

func place(destination string) string {
	if destination == inDatabase {
		return "pages in its own database"
	}
	return "pages in another store"
}

// next returns the state in which the next batch, with these ids, is pending.
func (s state) next(ids []int64, page int64) state {
	s.batch++
	pending := fmt.Sprintf("outbox/%s/%d/%s", s.epoch, s.batch, rand.Text()[:13])
	s.pending, s.ids, s.page = &pending, ids, page
	return s
}

// settled returns the state in which no batch is pending.
func (s state) settled(checkpoint string) state {
	s.checkpoint, s.pending, s.ids = checkpoint, nil, nil
	return s
}

// save updates the row of the feed, which must be locked.
func (c Config) save(ctx context.Context, tx pgx.Tx, s state) error {
	_, err := tx.Exec(ctx, `
		UPDATE outbox_feed SET destination = $2, batch = $3, checkpoint = $4, pending = $5, ids = $6, page = $7 WHERE feed = $1`,
		c.Feed, s.destination, s.batch, s.checkpoint, s.pending, s.ids, s.page)
	if err != nil {
		return fmt.Errorf("write state of the outbox of feed %q: %w", c.Feed, err)
	}
	return nil
}
