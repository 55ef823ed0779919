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

// markEvery is how often a mark is moved forward.
const markEvery = time.Second

// A mark remembers an id below which no row can appear any more, so that the
// remains of deleted rows before it need not be passed over again.
type mark struct {
	from    int64 // no row with a smaller id will be visible and not taken
	settled int64 // all rows up to this id are visible in later snapshots, or never will be
	drawn   int64 // the candidate for settled
	taken   int64 // the greatest id of a row that was taken
	waiting []string
	looked  time.Time
	server  time.Time // when the server was started
}

// errWentBack: ids may be drawn again that were drawn before, and what is known of them
// is worth nothing. That may be after a failover, or when somebody restarted the sequence.
var errWentBack = errors.New("the server of the outbox was started again, or ids went back: all is read anew")

// look moves settled forward, from time to time. It comes before the statement that
// takes rows.
func (m *mark) look(ctx context.Context, tx pgx.Tx, now time.Time) error {
	if now.Sub(m.looked) < markEvery {
		return nil
	}
	// First the last id that was drawn, then who may have drawn ids up to it and has
	// not ended: a lock on the table is taken before the first id is drawn, and kept
	// to the end of the transaction, or of the savepoint that is rolled back.
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
	m.looked, m.server = now, server
	m.see(drawn, holders)
	return nil
}

// see is told the last id that was drawn, and who held the lock after that.
func (m *mark) see(drawn int64, holders []string) {
	// A transaction that is prepared may get another name, after a crash at the latest.
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

// last returns the greatest id that is known to have been drawn.
func (m *mark) last() int64 { return max(m.drawn, m.settled, m.taken, m.from-1) }

// pass is told that the rows are in the feed that a statement after look has taken.
func (m *mark) pass(r rows) {
	m.from = max(m.from, r.passed)
	if n := len(r.ids); n > 0 {
		m.taken = max(m.taken, r.ids[n-1])
	}
}
