package sqlite

import (
	"context"
	"fmt"
	"math"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink/internal/position"
)

// removeOthers deletes from the table %[1]s up to ?3 rows whose keys were not seen, beginning after the
// row ?2. Keys are compared with the collation of the table's column. The number is limited because
// SQLite keeps the IDs of the rows that a statement deletes in memory.
const removeOthers = `DELETE FROM "%[1]s" WHERE rowid IN (
	SELECT rowid FROM "%[1]s" AS t WHERE rowid > ?2 AND NOT EXISTS (SELECT 1 FROM feedctl_seen AS s WHERE s.name = ?1 AND t.key = s.key)
	ORDER BY rowid LIMIT ?3) RETURNING rowid`

// rowsAtOnce is the number of rows that are removed at a time.
const rowsAtOnce = 10_000

// BeginReplace creates the table of seen keys on the first call.
func (t *target) BeginReplace(_ context.Context, begins bool) error {
	if t.seen == nil {
		if err := sqlitex.ExecuteTransient(t.conn, position.SQLiteCreateSeen, nil); err != nil {
			return fmt.Errorf("create table of seen keys: %w", err)
		}
		if err := (prepared{&t.seen, position.SQLiteSee}).on(t.conn); err != nil {
			return err
		}
	}
	t.replacing = true
	if !begins {
		return nil
	}
	if err := t.beginOnce(); err != nil {
		return err
	}
	if err := t.forget(); err != nil {
		return err
	}
	return t.see("")
}

// see notes that the snapshot has a key.
func (t *target) see(key string) error {
	t.seen.BindText(1, t.table)
	t.seen.BindText(2, key)
	return run(t.seen)
}

func (t *target) forget() error {
	return sqlitex.Execute(t.conn, position.SQLiteForget, &sqlitex.ExecOptions{Args: []any{t.table}})
}

// RemoveOthers deletes the rows whose keys were not seen. It can be interrupted, since it takes long
// and nothing else in its transaction does.
func (t *target) RemoveOthers(ctx context.Context) error {
	if err := t.beginOnce(); err != nil {
		return err
	}
	begun, err := t.exists(position.SQLiteHasSeen)
	if err != nil {
		return err
	}
	if !begun {
		return consumer.ErrNoReplacement
	}
	t.conn.SetInterrupt(ctx.Done())
	defer t.conn.SetInterrupt(nil)
	for after, full := int64(math.MinInt64), true; full; {
		rows := int64(0)
		err := sqlitex.Execute(t.conn, fmt.Sprintf(removeOthers, t.table), &sqlitex.ExecOptions{
			Args:       []any{t.table, after, rowsAtOnce},
			ResultFunc: func(row *sqlite.Stmt) error { rows++; after = max(after, row.ColumnInt64(0)); return nil },
		})
		if err != nil {
			return err
		}
		t.removed += rows
		full = rows == rowsAtOnce
	}
	return t.forget()
}

// Removed returns how many rows RemoveOthers deleted.
func (t *target) Removed() int64 { return t.removed }
