package fold

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/digest"
)

// The leaves of the last state digest are kept in the same file as the table. Triggers mark leaves
// whose rows change, in the transactions of the changes. A leaf ends where the next one begins, so
// the deletion of a leaf's first key changes the leaf before it as well. If no leaves are stored,
// the triggers do nothing.
const createLeaves = `
CREATE TABLE IF NOT EXISTS feedctl_digest (base TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS feedctl_leaves (
	start  TEXT NOT NULL PRIMARY KEY,
	count  INTEGER NOT NULL,
	hash   BLOB NOT NULL,
	object BLOB NOT NULL,
	dirty  INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS feedctl_inserted AFTER INSERT ON ` + table + ` BEGIN
	UPDATE feedctl_leaves SET dirty = 1 WHERE dirty = 0 AND start = (SELECT max(start) FROM feedctl_leaves WHERE start <= NEW.key);
END;
CREATE TRIGGER IF NOT EXISTS feedctl_updated AFTER UPDATE ON ` + table + ` BEGIN
	UPDATE feedctl_leaves SET dirty = 1 WHERE dirty = 0 AND start = (SELECT max(start) FROM feedctl_leaves WHERE start <= NEW.key);
END;
CREATE TRIGGER IF NOT EXISTS feedctl_deleted AFTER DELETE ON ` + table + ` BEGIN
	UPDATE feedctl_leaves SET dirty = 1 WHERE dirty = 0 AND start = (SELECT max(start) FROM feedctl_leaves WHERE start <= OLD.key);
	UPDATE feedctl_leaves SET dirty = 1 WHERE dirty = 0 AND start = (SELECT max(start) FROM feedctl_leaves WHERE start < OLD.key);
END;
CREATE TEMP TABLE new_leaves AS SELECT * FROM feedctl_leaves WHERE false;
`

const replaceLeaves = `
DELETE FROM feedctl_leaves;
INSERT INTO feedctl_leaves (start, count, hash, object) SELECT start, count, hash, object FROM new_leaves;
DELETE FROM feedctl_digest;
`

// leaves holds the leaves of the last digest, in order, and those of the next one.
type leaves struct {
	conn *sqlite.Conn
	base string // the ID of the last digest; "" if there is none

	has   func(digest.Hash) bool // reports whether an object exists and can be reused
	old   *sqlite.Stmt
	at    digest.Child // the current leaf, one of the last digest
	dirty bool         // the rows of the current leaf may have changed, or its object is missing
	ended bool         // there are no more leaves
}

// openLeaves opens the leaves stored in the file of a table.
func openLeaves(ctx context.Context, file string) (_ *leaves, err error) {
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	if err != nil {
		return nil, fmt.Errorf("open table: %w", err)
	}
	conn.SetInterrupt(ctx.Done())
	l := &leaves{conn: conn}
	if err := sqlitex.ExecuteScript(conn, createLeaves, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("open table: leaves: %w", err), conn.Close())
	}
	err = sqlitex.ExecuteTransient(conn, "SELECT base FROM feedctl_digest", &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error { l.base = row.ColumnText(0); return nil },
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open table: leaves: %w", err), conn.Close())
	}
	return l, nil
}

func (l *leaves) close() error { return l.conn.Close() }

// begin goes to the first leaf of the last digest.
func (l *leaves) begin(has func(digest.Hash) bool) (err error) {
	l.has = has
	if err := sqlitex.ExecuteTransient(l.conn, "DELETE FROM new_leaves", nil); err != nil {
		return err
	}
	if l.old, err = l.conn.Prepare("SELECT start, count, hash, object, dirty FROM feedctl_leaves WHERE ?1 <> '' ORDER BY start"); err != nil {
		return err
	}
	l.old.BindText(1, l.base)
	l.ended = false
	return l.next()
}

// next goes to the next leaf of the last digest.
func (l *leaves) next() error {
	found, err := l.old.Step()
	if err != nil || !found {
		l.ended = true
		return errors.Join(err, l.old.Reset())
	}
	l.at = digest.Child{From: l.old.ColumnText(0), Count: l.old.ColumnInt64(1)}
	l.old.ColumnBytes(2, l.at.Hash[:])
	l.old.ColumnBytes(3, l.at.Object[:])
	l.dirty = l.old.ColumnBool(4) || !l.has(l.at.Object)
	return nil
}

// add adds a leaf of the next digest.
func (l *leaves) add(leaf digest.Child) error {
	return sqlitex.Execute(l.conn, "INSERT INTO new_leaves (start, count, hash, object) VALUES (?, ?, ?, ?)", &sqlitex.ExecOptions{
		Args: []any{leaf.From, leaf.Count, leaf.Hash[:], leaf.Object[:]},
	})
}

// keep stores the next digest as the last one, with clean leaves: the rows have not changed since
// begin.
func (l *leaves) keep(id string) (err error) {
	end, err := sqlitex.ImmediateTransaction(l.conn)
	if err != nil {
		return fmt.Errorf("keep leaves: %w", err)
	}
	defer end(&err)
	if err := sqlitex.ExecuteScript(l.conn, replaceLeaves, nil); err != nil {
		return fmt.Errorf("keep leaves: %w", err)
	}
	if err := sqlitex.Execute(l.conn, "INSERT INTO feedctl_digest (base) VALUES (?)", &sqlitex.ExecOptions{Args: []any{id}}); err != nil {
		return fmt.Errorf("keep leaves: %w", err)
	}
	return nil
}
