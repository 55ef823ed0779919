package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/sink/internal/pgposition"
	"github.com/feedctl/feedctl/sink/internal/position"
	"github.com/feedctl/feedctl/sink/patch"
)

// asWritten is a statement that makes the conversion of values independent of the settings of a database or a user:
// the default time zone is UTC, and the decimal separator of money is a point.
const asWritten = `SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO, MDY', true),
	set_config('intervalstyle', 'postgres', true), set_config('lc_monetary', 'C', true)`

// maxAge is the maximum age of the staging table, or of a pooled session. The server cannot vacuum
// temporary tables, so they must be dropped before too many transactions have passed.
const maxAge = time.Hour

// errSameKeys means that different keys of the batch are equal as values of the column.
var errSameKeys = errors.New("different keys are equal in the column")

// stored returns the row of a key in the table. It returns an error if the document is too large to patch.
func (t *target) stored(ctx context.Context, key string) (c current, err error) {
	err = t.look(ctx, func() (err error) {
		c, err = t.row(ctx, key)
		return err
	})
	return c, err
}

func (t *target) row(ctx context.Context, key string) (c current, err error) {
	var size int64
	err = t.selectRow(ctx, key, &c, &size)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return c, patch.ErrMissing
	case err == nil && size > patch.MaxSize:
		return c, patch.ErrTooLarge
	}
	return c, err
}

func (t *target) selectRow(ctx context.Context, key string, c *current, size *int64) error {
	if t.document < 0 {
		return t.queryRow(ctx, fmt.Sprintf(`
			SELECT content_type, headers::text, size, CASE WHEN size <= %d THEN coalesce(convert_to(body::text, 'UTF8'), bytes) END
			FROM (SELECT *, coalesce(octet_length(body::text), octet_length(bytes)) AS size FROM %s WHERE key = $1) AS t`,
			patch.MaxSize, t.table.quoted(t.table.name)), key, &c.contentType, &c.headers, size, &c.document)
	}
	var column, typ string
	for _, p := range t.projections {
		if p.field == fieldKey {
			typ = p.typ
		}
	}
	for _, p := range t.projections {
		if p.kind == jsonText && p.field == "" && p.pointer.Text() == "" {
			column = pgx.Identifier{p.name}.Sanitize()
			break
		}
	}
	return t.queryRow(ctx, fmt.Sprintf(`
		SELECT size, CASE WHEN size <= %d THEN document END
		FROM (SELECT %[2]s::text AS document, coalesce(octet_length(%[2]s::text), 0) AS size FROM %[3]s WHERE %[4]s = $1::text::%[5]s) AS t`,
		patch.MaxSize, column, t.table.quoted(t.table.name), pgx.Identifier{t.table.key}.Sanitize(), typ),
		key, size, &c.document)
}

// queryRow runs a query for a key, and scans the row that the query returns. The query runs in one transaction with
// asWritten, so the key is converted as it is when a batch is merged.
func (t *target) queryRow(ctx context.Context, sql, key string, dest ...any) error {
	b := &pgx.Batch{}
	b.Queue(asWritten)
	b.Queue(sql, asText(key)).QueryRow(func(row pgx.Row) error { return row.Scan(dest...) })
	return t.Writer.Conn.SendBatch(ctx, b).Close()
}

// connect restores the connection for writing, and the lock, if they were lost.
func (t *target) connect(ctx context.Context) error {
	if err := t.renew(ctx); err != nil {
		return err
	}
	return t.Connect(ctx)
}

// renew drops the staging table of a session if it is older than maxAge. The sessions of a pooler
// cannot be distinguished, so a connection through a pooler is closed instead.
func (t *target) renew(ctx context.Context) error {
	if t.Writer.Conn == nil || t.Writer.Age() <= maxAge {
		return nil
	}
	if t.Writer.Pooled() {
		return t.Writer.Close()
	}
	if _, err := t.Writer.Conn.Exec(ctx, "DROP TABLE IF EXISTS pg_temp."+pgx.Identifier{t.staging}.Sanitize()); err != nil {
		_ = t.Writer.Close() // the next connection reports an error that persists
	}
	t.Writer.Renewed()
	return nil
}

// merge writes the batch and its position to the database, in one transaction. It retries
// transient errors. It returns how many entities were put into quarantine.
func (t *target) merge(ctx context.Context, position string) (refusals int64, err error) {
	unknownOutcome, inOrder := false, false
	rows := t.finish(ctx) // rows already sent in the connection's open transaction
	err = t.Retry(ctx, func() (err error) {
		if rows == unsent {
			if err := t.connect(ctx); err != nil {
				return err
			}
		}
		if unknownOutcome {
			if done, err := t.Committed(ctx); err != nil || done {
				return err
			}
		}
		refusals, err = t.transact(ctx, position, rows, inOrder)
		rows = unsent
		if errors.Is(err, errSameKeys) && t.backfill {
			err = errSpelling
		}
		if err != nil && (refused(err) || errors.Is(err, errSameKeys)) && !inOrder {
			// Start again and merge in the order of the feed, to find the rejected rows or to apply the patches.
			inOrder = true
			if _, err = t.Writer.Conn.Exec(ctx, "ROLLBACK"); err == nil {
				refusals, err = t.transact(ctx, position, unsent, inOrder)
			}
		}
		if err != nil {
			unknownOutcome = true
			_ = t.Writer.Close() // err says why
		}
		return err
	})
	if err != nil && refused(err) && len(t.projections) == 0 {
		err = fmt.Errorf("%w: a table with whole entities has no quarantine: change what rejects the row, or use a table with --columns", err)
	}
	return refusals, err
}

// transact commits the batch in one transaction, which is already open if its rows were sent. If inOrder is set, it
// merges all rows in the order of the feed. After an error from COMMIT, the outcome is unknown.
func (t *target) transact(ctx context.Context, position string, rows sent, inOrder bool) (refusals int64, err error) {
	stage, create := t.staging, t.table.stage(t.staging, "", "DELETE ROWS")
	if inOrder {
		stage += "_all"
		create = t.table.stage(stage, "PRIMARY KEY (n)", "DROP")
	}
	if rows == unsent {
		if err := t.beginTransaction(ctx, create); err != nil {
			return 0, err
		}
		if len(t.spool.entries) > 0 {
			if err := t.Step(); err != nil {
				return 0, err
			}
			data := t.spool.rows(inOrder)
			_, err := t.Writer.Conn.PgConn().CopyFrom(ctx, data, t.table.copy(stage))
			data.stop()
			if err != nil {
				return 0, fmt.Errorf("copy batch: %w", err)
			}
		}
	}
	if err := t.Step(); err != nil {
		return 0, err
	}
	var replaced []int32
	switch rows {
	case inStage:
		replaced = t.spool.replaced()
	case inTable:
		stage = ""
	}
	if err := t.checkExpected(ctx); err != nil {
		return 0, err
	}
	if refusals, err = t.mergeStaged(ctx, position, stage, replaced, inOrder); err != nil {
		return 0, fmt.Errorf("merge batch: %w", err)
	}
	if err := t.Step(); err != nil {
		return 0, err
	}
	tag, err := t.Writer.Conn.Exec(ctx, "COMMIT")
	if err == nil && tag.String() != "COMMIT" {
		err = errors.New("the server rolled the transaction back")
	}
	return refusals, err
}

// beginTransaction begins a transaction. If create is not empty, it is the statement that creates an empty staging
// table. The row of the position is not locked yet, since other sessions may need it while entities are still being
// applied.
func (t *target) beginTransaction(ctx context.Context, create string) error {
	if err := t.Step(); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	b.Queue(position.PostgresKeepAlive)
	b.Queue(asWritten)
	b.Queue("SET CONSTRAINTS ALL IMMEDIATE")
	if create != "" {
		b.Queue(create)
	}
	if err := t.Writer.Conn.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	return nil
}

// inTransaction is the status of a connection in a transaction that has not failed
// (PostgreSQL documentation, Message Formats, ReadyForQuery).
const inTransaction = 'T'

// mergeStaged updates the position and merges the staged rows, except the replaced ones. If stage is empty, the rows
// are already in the table. The row of the position is updated first: this fails if another sink owns the row now,
// and waits for the end of a transaction whose outcome is unknown.
func (t *target) mergeStaged(ctx context.Context, position, stage string, replaced []int32, inOrder bool) (refusals int64, err error) {
	if t.Writer.Conn.PgConn().TxStatus() != inTransaction {
		return 0, fmt.Errorf("the transaction was lost: %w", io.ErrUnexpectedEOF)
	}
	b := &pgx.Batch{}
	move, args := t.Move(position)
	b.Queue(move, args...).Exec(pgposition.Moved)
	if len(replaced) > 0 {
		b.Queue("DELETE FROM pg_temp."+pgx.Identifier{stage}.Sanitize()+" WHERE n = ANY ($1::integer[])", replaced)
	}
	if (t.unsure || t.backfill && !t.table.isTextKey()) && !inOrder {
		b.Queue(t.table.sameKeys(stage)).QueryRow(func(row pgx.Row) error {
			same := false
			if err := row.Scan(&same); err != nil {
				return err
			}
			if same {
				return errSameKeys
			}
			t.unsure = false
			return nil
		})
	}
	switch {
	case inOrder:
		if err := t.Writer.Conn.SendBatch(ctx, b).Close(); err != nil {
			return 0, err
		}
		if err := t.mergeInOrder(ctx, stage); err != nil {
			return 0, err
		}
		b = &pgx.Batch{}
	case stage != "":
		if t.kinds.deletes > 0 {
			b.Queue(t.table.remove(stage))
		}
		if t.kinds.puts > 0 {
			b.Queue(t.table.upsert(stage, t.kinds.deletes > 0))
		}
	}
	t.queueNotes(b)
	t.queueReplacing(b, stage)
	if len(t.projections) > 0 && (inOrder || t.kinds.refused > 0) {
		b.Queue(t.table.quarantine(stage), t.table.name, t.Name).Exec(func(tag pgconn.CommandTag) error {
			refusals = tag.RowsAffected()
			return nil
		})
	}
	err = t.Writer.Conn.SendBatch(ctx, b).Close() // sets refusals
	return refusals, err
}

// mergeInOrder merges the staged rows in the order of the feed and marks those that the
// table rejects. If a patch changes the document of an earlier row, it is applied after that row.
func (t *target) mergeInOrder(ctx context.Context, stage string) error {
	strict := t.strict || len(t.projections) == 0
	from := 0
	for _, c := range t.changes {
		if c.alone && !t.unsure {
			continue
		}
		if err := t.mergeRange(ctx, stage, from, c.n, strict); err != nil {
			return err
		}
		if err := t.change(ctx, stage, c); err != nil {
			return err
		}
		from = c.n
	}
	return t.mergeRange(ctx, stage, from, len(t.spool.entries), strict)
}

func (t *target) mergeRange(ctx context.Context, stage string, from, to int, strict bool) error {
	if from == to {
		return nil
	}
	if err := t.Step(); err != nil {
		return err
	}
	_, err := t.Writer.Conn.Exec(ctx, t.table.mergeInOrder(stage, from, to, strict))
	return err
}
