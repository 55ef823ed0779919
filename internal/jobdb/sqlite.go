package jobdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/riverqueue/river/riverdriver/riversqlite"
	modernc "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// An sqlite is a database in a file, for one node. It uses a single connection, since SQLite allows only one
// writer, and transactions of the scheduler take less than a millisecond.
type sqlite struct {
	db       *sql.DB
	prepared *prepared
	file     string
	readOnly bool
}

func openSQLite(file string, a Access) (*sqlite, error) {
	if file == "" {
		return nil, fmt.Errorf("%w: sqlite: without a file: want sqlite:FILE or sqlite::memory:", ErrURL)
	}
	s := &sqlite{file: file, readOnly: a == Read}
	settings := url.Values{"_pragma": {"busy_timeout(5000)", "synchronous(NORMAL)", "foreign_keys(1)"}, "_txlock": {"immediate"}}
	switch _, err := os.Stat(file); {
	case a == Migrate:
		settings["_pragma"] = append(settings["_pragma"], "journal_mode(WAL)") // the file keeps it
		if file == ":memory:" {
			break
		}
		if err := create(file); err != nil {
			return nil, err
		}
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w at %s", ErrNone, s.name())
	case err != nil:
		return nil, err
	case a == Read:
		settings["_pragma"] = append(settings["_pragma"], "query_only(1)")
	}
	var err error
	s.db, err = openFile(file, settings)
	s.prepared = newPrepared(s.db)
	return s, err
}

// create creates an empty file if there is none. SQLite would do that as well, but with less helpful errors.
func create(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func openFile(file string, settings url.Values) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+settings.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func (s *sqlite) reserve(ctx context.Context) (io.Closer, error) {
	if s.file == ":memory:" {
		return nil, nil
	}
	node, err := lock(ctx, s.file+"-node", 0)
	if e, ok := errors.AsType[*modernc.Error](err); ok && e.Code() == sqlite3.SQLITE_BUSY {
		err = fmt.Errorf("sqlite:%s: %w: stop that node, or use postgres:// for several nodes", s.file, ErrReserved)
	}
	return node, err
}

// migrateWithin is how long a process waits while another process migrates the database.
const migrateWithin = time.Minute

func (s *sqlite) alone(ctx context.Context, do func() error) error {
	if s.file == ":memory:" {
		return do()
	}
	migration, err := lock(ctx, s.file+"-migration", migrateWithin)
	if err != nil {
		return fmt.Errorf("wait for another process to finish migrating: %w", err)
	}
	return errors.Join(do(), migration.Close())
}

// lock locks a file next to the database, with a transaction that writes nothing, so that the lock is released if
// the process is killed. If another process has the lock, the function waits for at most the given time.
func lock(ctx context.Context, file string, wait time.Duration) (io.Closer, error) {
	db, err := openFile(file, url.Values{"_txlock": {"exclusive"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds())}})
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return closer(func() error { return errors.Join(tx.Rollback(), db.Close()) }), nil
}

type closer func() error

func (c closer) Close() error { return c() }

func (s *sqlite) has(ctx context.Context, name string) (exists bool, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT count(*) > 0 FROM sqlite_schema WHERE name = ?", name).Scan(&exists)
	return exists, err
}

func (s *sqlite) name() string { return "sqlite:" + s.file }

func (s *sqlite) close() error { return s.db.Close() }

func (s *sqlite) dialect() dialect {
	return dialect{now: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)", param: "?", unnumbered: true}
}

func (s *sqlite) begin(ctx context.Context, readOnly bool, do func(Tx) error) error {
	s.prepared.prepare(ctx)
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: readOnly || s.readOnly}) // unless it is read-only, the transaction locks the database at once
	if err != nil {
		return err
	}
	if err := do(&sqliteTx{tx, s.prepared}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

type sqliteTx struct {
	tx       *sql.Tx
	prepared *prepared
}

func (t *sqliteTx) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	result, err := t.prepared.exec(ctx, t.tx, sql, args)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t *sqliteTx) Query(ctx context.Context, sql string, args ...any) (Rows, error) {
	rows, err := t.prepared.query(ctx, t.tx, sql, args) //nolint:rowserrcheck // Close returns the error
	if err != nil {
		return nil, err
	}
	return &sqliteRows{rows}, nil
}

type sqliteRows struct{ *sql.Rows }

func (r *sqliteRows) Close() error { return errors.Join(r.Rows.Close(), r.Err()) }

func unwrapSQLite(tx Tx) *sql.Tx { return tx.(*rewriting).Tx.(*sqliteTx).tx }

func (s *sqlite) migrateQueue(ctx context.Context) error {
	return migrateQueue(ctx, riversqlite.New(s.db), "")
}

func (s *sqlite) queue(ctx context.Context, c QueueConfig) (Queue, error) {
	return newQueue(ctx, riversqlite.New(s.db), unwrapSQLite, "", c)
}

func (s *sqlite) ui(ctx context.Context, prefix string) (http.Handler, error) {
	return newUI(ctx, riversqlite.New(s.db), "", prefix)
}
