package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/sink/internal/position"
)

// columns lists the columns that a table must have.
var columns = [...]string{"key", "content_type", "body", "last_modified", "content_id", "headers"}

// createTable creates a table with rowids: large bodies are written by rowid, and a table without
// rowids is three to ten times slower for rows of 1 KB. The body is the last column, because only
// at the end of a row can SQLite reserve space for a large value without holding the value in
// memory.
const createTable = `CREATE TABLE IF NOT EXISTS "%s" (
	key           TEXT NOT NULL PRIMARY KEY,
	content_type  TEXT NOT NULL,
	last_modified TEXT NOT NULL,
	content_id    TEXT NOT NULL,
	headers       TEXT NOT NULL,
	body          BLOB NOT NULL
)`

// prepareTables creates the tables, or checks that the existing ones can be used.
func (t *target) prepareTables() (err error) {
	end, err := sqlitex.ImmediateTransaction(t.conn)
	if err != nil {
		return err
	}
	defer end(&err)
	for _, create := range []string{position.SQLiteCreate, fmt.Sprintf(createTable, t.table)} {
		if err := sqlitex.ExecuteTransient(t.conn, create, nil); err != nil {
			return fmt.Errorf("create table: %w", err)
		}
	}
	if err := t.checkColumns(); err != nil {
		return err
	}
	known, err := t.exists(position.SQLiteRead)
	if err != nil || known {
		return err
	}
	rows, err := t.exists(fmt.Sprintf(`SELECT 1 FROM "%s" LIMIT 1`, t.table))
	if err != nil {
		return err
	}
	if rows {
		return errors.New("the table has rows but no position: it was not written by feedctl, or its position was lost; use another table")
	}
	return sqlitex.Execute(t.conn, position.SQLiteEnter, &sqlitex.ExecOptions{Args: []any{t.table}})
}

func (t *target) exists(query string) (found bool, err error) {
	o := &sqlitex.ExecOptions{ResultFunc: func(*sqlite.Stmt) error { found = true; return nil }}
	if strings.Contains(query, "?1") {
		o.Args = []any{t.table}
	}
	err = sqlitex.ExecuteTransient(t.conn, query, o)
	return found, err
}

func (t *target) checkColumns() error {
	var have []string
	err := sqlitex.ExecuteTransient(t.conn, "SELECT lower(name) FROM pragma_table_info(?)", &sqlitex.ExecOptions{
		Args:       []any{t.table},
		ResultFunc: func(row *sqlite.Stmt) error { have = append(have, row.ColumnText(0)); return nil },
	})
	if err != nil {
		return err
	}
	for _, name := range columns {
		if !slices.Contains(have, name) {
			return fmt.Errorf("the table has no column %s: use another table", name)
		}
	}
	return nil
}

// Statements on the table %s.
const (
	upsert = `INSERT INTO "%s" (key, content_type, body, last_modified, content_id, headers)
		VALUES (?1, ?2, CASE WHEN ?7 THEN CAST(?3 AS TEXT) ELSE ?3 END, ?4, ?5, ?6)
		ON CONFLICT (key) DO UPDATE SET content_type = excluded.content_type, body = excluded.body,
			last_modified = excluded.last_modified, content_id = excluded.content_id, headers = excluded.headers`
	findRow  = `SELECT rowid FROM "%s" WHERE key = ?1`
	makeRoom = `UPDATE "%s" SET body = zeroblob(?2) WHERE rowid = ?1`
	remove   = `DELETE FROM "%s" WHERE key = ?1`
	read     = `SELECT octet_length(body), CASE WHEN octet_length(body) <= ?2 THEN body END FROM "%s" WHERE key = ?1`
	update   = `UPDATE "%s" SET body = CAST(?2 AS TEXT), last_modified = ?3, content_id = ?4 WHERE key = ?1`
)

// statements holds statements that are prepared once and finalized with the connection.
type statements struct {
	begin, commit, rollback                                      *sqlite.Stmt
	upsert, findRow, makeRoom, remove, read, update, setPosition *sqlite.Stmt
}

// A prepared holds a prepared statement and its text.
type prepared struct {
	statement **sqlite.Stmt
	text      string
}

func (p prepared) on(conn *sqlite.Conn) error {
	statement, err := conn.Prepare(p.text)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	*p.statement = statement
	return nil
}

func (s *statements) prepare(conn *sqlite.Conn, table string) error {
	for _, p := range []prepared{
		{&s.begin, "BEGIN IMMEDIATE"},
		{&s.commit, "COMMIT"},
		{&s.rollback, "ROLLBACK"},
		{&s.upsert, fmt.Sprintf(upsert, table)},
		{&s.findRow, fmt.Sprintf(findRow, table)},
		{&s.makeRoom, fmt.Sprintf(makeRoom, table)},
		{&s.remove, fmt.Sprintf(remove, table)},
		{&s.read, fmt.Sprintf(read, table)},
		{&s.update, fmt.Sprintf(update, table)},
		{&s.setPosition, position.SQLiteMove},
	} {
		if err := p.on(conn); err != nil {
			return err
		}
	}
	return nil
}

// run executes a statement and ignores its rows.
func run(statement *sqlite.Stmt) error {
	_, err := statement.Step()
	return errors.Join(err, statement.Reset())
}
