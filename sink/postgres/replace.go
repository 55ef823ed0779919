package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink/internal/position"
)

// A replacing says what a batch has to do while the data of the table is being replaced.
type replacing struct {
	on       bool  // the keys of the batch are noted as seen
	begins   bool  // the keys of earlier batches are forgotten first
	forget   bool  // all keys are forgotten at the end
	remove   bool  // rows whose keys were not seen are removed, before the keys are forgotten
	removed  int64 // number of rows that were removed
	prepared bool  // the table of seen keys exists; unlike the other fields, not only for one batch
}

// sqlSeen inserts the name of the table of seen keys into a statement.
func (t *target) sqlSeen(statement string) string {
	return fmt.Sprintf(statement, t.table.quoted(position.Seen))
}

// BeginReplace creates the table of seen keys on the first call.
func (t *target) BeginReplace(ctx context.Context, begins bool) error {
	t.replacing.on, t.replacing.begins, t.replacing.removed = true, begins, 0
	t.fresh = false // so that the rows are staged
	if t.replacing.prepared {
		return nil
	}
	err := t.look(ctx, func() error {
		return pgx.BeginTxFunc(ctx, t.Writer.Conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, position.PostgresSetUp); err != nil {
				return err
			}
			_, err := t.Ensure(ctx, tx, position.Seen, t.sqlSeen(position.PostgresCreateSeen))
			return err
		})
	})
	t.replacing.prepared = err == nil
	return err
}

// RemoveOthers makes the commit remove the rows whose keys were not seen. If other consumers write to the
// table, all rows are kept, since nothing shows which consumer wrote a row.
func (t *target) RemoveOthers(ctx context.Context) error {
	var begun, shared bool
	sql := fmt.Sprintf("SELECT EXISTS (%s), EXISTS ("+position.PostgresShared+")",
		t.sqlSeen(position.PostgresBegun), t.table.quoted(position.Table))
	err := t.look(ctx, func() error {
		return t.Writer.Conn.QueryRow(ctx, sql, t.Table, t.Name).Scan(&begun, &shared)
	})
	if err != nil {
		return err
	}
	if !begun && !t.replacing.begins {
		return consumer.ErrNoReplacement
	}
	if shared {
		t.Log.WarnContext(ctx, "other consumers write to the table, so it keeps what was deleted in the gap", "table", t.table.String())
	}
	t.replacing.forget, t.replacing.remove = true, !shared
	return nil
}

// Removed returns how many rows the last commit removed.
func (t *target) Removed() int64 { return t.replacing.removed }

// queueReplacing queues the statements that note the keys of the staged rows as seen and remove the other
// rows.
func (t *target) queueReplacing(b *pgx.Batch, stage string) {
	r := &t.replacing
	if !r.on {
		return
	}
	if r.begins {
		b.Queue(t.sqlSeen(position.PostgresForget), t.Table, t.Name)
		b.Queue(t.sqlSeen(position.PostgresBegin), t.Table, t.Name)
	}
	b.Queue(t.table.see(stage), t.Table, t.Name)
	if r.remove {
		b.Queue(t.table.removeOthers(), t.Table, t.Name).Exec(func(tag pgconn.CommandTag) error {
			r.removed = tag.RowsAffected()
			return nil
		})
	}
	if r.forget {
		b.Queue(t.sqlSeen(position.PostgresForget), t.Table, t.Name)
	}
}

// see returns the statement that notes the keys of staged rows as seen. The key of a row that the table
// rejects is noted in the spelling of the feed.
func (t *table) see(stage string) string {
	return fmt.Sprintf(`INSERT INTO %s (table_name, name, key, fit)
		SELECT $1, $2, CASE WHEN s.reason IS NULL THEN (%s)::text ELSE s.key END, s.reason IS NULL
		FROM pg_temp.%s AS s WHERE s.op <> 'D' ON CONFLICT DO NOTHING`,
		t.quoted(position.Seen), t.keyValue(), pgx.Identifier{stage}.Sanitize())
}

// removeOthers returns the statement that removes the rows whose keys were not seen. Keys are compared as
// values of the column, since different spellings may be equal.
func (t *table) removeOthers() string {
	key := pgx.Identifier{t.key}.Sanitize()
	return fmt.Sprintf(`DELETE FROM %[1]s AS t
		WHERE NOT EXISTS (SELECT FROM (SELECT key FROM %[2]s WHERE table_name = $1 AND name = $2 AND fit) AS s WHERE t.%[3]s = %[4]s)
		AND NOT EXISTS (SELECT FROM %[2]s AS s WHERE s.table_name = $1 AND s.name = $2 AND NOT s.fit AND t.%[3]s::text = s.key)`,
		t.quoted(t.name), t.quoted(position.Seen), key, t.keyValue())
}
