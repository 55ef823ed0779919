package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink/internal/position"
)

// errSpelling means that keys in a batch of older entities are equal, as values of the column, to keys
// of newer entities.
var errSpelling = errors.New("keys with different spellings are equal in the key column: such a feed cannot be read newest first")

// sqlNotes inserts the name of the table of notes into a statement.
func (t *target) sqlNotes(statement string) string {
	return fmt.Sprintf(statement, t.table.quoted(position.Notes))
}

// BeginBackfill creates the table of notes on the first call.
func (t *target) BeginBackfill(ctx context.Context) error {
	t.backfill, t.fresh = true, false
	if t.prepared {
		t.noted = true
		return nil
	}
	err := t.look(ctx, func() error {
		return pgx.BeginTxFunc(ctx, t.Writer.Conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, position.PostgresSetUp); err != nil {
				return err
			}
			_, err := t.Ensure(ctx, tx, position.Notes, t.sqlNotes(position.PostgresCreateNotes))
			return err
		})
	})
	t.prepared, t.noted = err == nil, t.noted || err == nil
	return err
}

// look calls f, which reads from the database while a batch is open, and calls it again after
// transient errors.
func (t *target) look(ctx context.Context, f func() error) error {
	// The connection is busy during a COPY. The next batch is not copied ahead, since it probably
	// reads from the database, too.
	t.abandon()
	t.looked, t.alone = true, true
	return t.Retry(ctx, func() error {
		if err := t.connect(ctx); err != nil {
			return err
		}
		if err := t.Step(); err != nil {
			return err
		}
		return f()
	})
}

// Recall looks up the keys in the database and in the batch.
func (t *target) Recall(ctx context.Context, keys []string) (recalls []consumer.Recall, err error) {
	stored, err := t.recallStored(ctx, keys, true)
	if refused(err) {
		stored, err = t.recallEach(ctx, keys)
	}
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		recalls = append(recalls, t.recall(key, stored[i]))
	}
	return recalls, nil
}

// recallEach looks up each key on its own, since some do not fit the column. There is no row with a
// key that does not fit.
func (t *target) recallEach(ctx context.Context, keys []string) (stored []storedKey, err error) {
	for i := range keys {
		one, err := t.recallStored(ctx, keys[i:i+1], true)
		if refused(err) {
			one, err = t.recallStored(ctx, keys[i:i+1], false)
		}
		if err != nil {
			return nil, err
		}
		stored = append(stored, one...)
	}
	return stored, nil
}

// A storedKey describes what the database has for a key.
type storedKey struct {
	row, buried bool
	held        int64
}

// recall returns what is known about a key from the database and the batch together.
func (t *target) recall(key string, s storedKey) consumer.Recall {
	if n, ok := t.last[key]; ok {
		s.row = !t.spool.entries[n].removed
	}
	if k := t.notes[key]; k != nil {
		s.buried = s.buried || k.buried
		if k.released {
			s.held = 0
		}
		s.held += int64(len(k.held))
	}
	return consumer.Recall{Known: s.row || s.buried, Held: s.held}
}

// recallStored looks up keys in the table of notes and, if rows is set, in the table of the sink.
func (t *target) recallStored(ctx context.Context, keys []string, rows bool) (stored []storedKey, err error) {
	row := "false"
	if rows {
		row = fmt.Sprintf("EXISTS (SELECT FROM %s AS t WHERE t.%s = %s)",
			t.table.quoted(t.table.name), pgx.Identifier{t.table.key}.Sanitize(), t.table.keyValue())
	}
	escaped := make([]string, len(keys))
	for i, key := range keys {
		escaped[i] = asText(key)
	}
	sql := fmt.Sprintf(position.PostgresRecall, t.table.quoted(position.Notes), row)
	err = t.look(ctx, func() error {
		b := &pgx.Batch{}
		b.Queue(asWritten) // keys must be converted as they are when a batch is merged
		b.Queue(sql, t.Table, t.Name, escaped).Query(func(rows pgx.Rows) error {
			stored, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s storedKey, err error) {
				return s, row.Scan(&s.row, &s.buried, &s.held)
			})
			return err
		})
		return t.Writer.Conn.SendBatch(ctx, b).Close()
	})
	return stored, err
}
