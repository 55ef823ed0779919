package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// watermarkInterval is the minimum time between two updates of a watermark.
const watermarkInterval = time.Second

// A watermark is an id below which no row can appear any more. Deleted rows with smaller ids need
// not be scanned again, even if they have not been vacuumed yet.
type watermark struct {
	from    int64 // all rows with smaller ids that are visible, or become visible, have been taken
	settled int64 // all rows with ids up to this one are visible in later snapshots, or never will be
	drawn   int64 // the candidate for settled
	taken   int64 // the greatest id of a row that was taken
	waiting []string
	updated time.Time
	server  time.Time // when the server was started
}

// errWentBack means that ids may be drawn a second time, so the watermark is no longer valid. That
// can happen after a failover, or after the sequence has been restarted.
var errWentBack = errors.New("database server restarted or outbox ids went back: reading the outbox from its beginning")

// update advances settled, at most once per watermarkInterval. It must run before the
// statement that takes rows.
func (m *watermark) update(ctx context.Context, tx pgx.Tx, now time.Time) error {
	if now.Sub(m.updated) < watermarkInterval {
		return nil
	}
	// The last id drawn is read first, then the open transactions that may have drawn ids up to it.
	// A transaction takes a lock on the table before it draws its first id, and holds the lock
	// until the transaction ends, or until it rolls back to a savepoint before that.
	var drawn int64
	var server time.Time
	err := tx.QueryRow(ctx, `SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END, pg_postmaster_start_time() FROM outbox_id_seq`).
		Scan(&drawn, &server)
	if err != nil {
		return fmt.Errorf("read the last id of the outbox: %w", err)
	}
	if drawn < m.last() || !m.server.IsZero() && !server.Equal(m.server) {
		return errWentBack
	}
	var holders []string
	err = tx.QueryRow(ctx, `
		SELECT coalesce(array_agg(virtualtransaction), '{}') FROM pg_locks
		WHERE locktype = 'relation' AND relation = 'outbox'::regclass AND mode = 'RowExclusiveLock' AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND pid IS DISTINCT FROM pg_backend_pid()`).Scan(&holders)
	if err != nil {
		return fmt.Errorf("read locks on the outbox: %w", err)
	}
	m.updated, m.server = now, server
	m.observe(drawn, holders)
	return nil
}

// observe records the last id drawn, and the transactions that held the lock after that id was
// read.
func (m *watermark) observe(drawn int64, holders []string) {
	// A prepared transaction may get another name; after a crash, it always does.
	renamed := func(t string) bool { return strings.HasPrefix(t, "-1/") && !slices.Contains(m.waiting, t) }
	ended := !slices.ContainsFunc(m.waiting, func(t string) bool { return slices.Contains(holders, t) })
	if ended {
		if !slices.ContainsFunc(holders, renamed) {
			m.settled = max(m.settled, m.drawn)
		}
		m.drawn, m.waiting = drawn, holders
	}
	if len(holders) == 0 {
		m.settled = max(m.settled, drawn)
	}
}

// last returns the greatest id known to have been drawn.
func (m *watermark) last() int64 { return max(m.drawn, m.settled, m.taken, m.from-1) }

// advance records that rows are in the feed. They must have been taken by a statement that ran
// after m.update.
func (m *watermark) advance(r rows) {
	m.from = max(m.from, r.passed)
	if n := len(r.ids); n > 0 {
		m.taken = max(m.taken, r.ids[n-1])
	}
}
