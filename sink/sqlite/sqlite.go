// Package sqlite is a sink that keeps one row for each key in a table of an
// SQLite database.
//
// The table has these columns:
//
//	key            TEXT, primary key
//	content_type   TEXT
//	last_modified  TEXT: RFC 3339 in UTC with whole seconds, 2026-05-01T10:00:00Z
//	content_id     TEXT; empty in snapshots
//	headers        TEXT: a JSON object that maps the name of each other header field
//	               to the array of its values
//	body           TEXT if the body is JSON or text in UTF-8 without NUL, so that
//	               SQLite's JSON functions read it; otherwise BLOB
//
// A PUT replaces the row, a DELETE removes it, and a PATCH changes body, last_modified and content_id,
// while the content type and the headers remain those of the PUT. You may add columns and indexes, as
// long as rows can be inserted without them. If you create the table yourself, make body its last
// column, so that large bodies can be written without holding them in memory.
//
// A body of more than 1 MiB is written piece by piece and is always a BLOB. No body can be larger than
// SQLite's limit, about 10^9 bytes; the error is a [sink.TooLargeError].
//
// # Exactly once
//
// A batch is one transaction. The position is a row of the table
// feedctl_positions in the same database, written in the same transaction, and a
// commit is synced to the disk (WAL, synchronous=FULL). Readers are not blocked.
// While a feed is read newest first, the table feedctl_notes holds the patches that are held back
// and the keys that were deleted. While a snapshot replaces the data after a gap, the table
// feedctl_seen holds the keys of the snapshot.
//
// A lock on the file FILE.TABLE.lock, which is never removed, keeps out a second
// consumer of the same table.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/durable"
	"github.com/feedctl/feedctl/sink/internal/position"
	"github.com/feedctl/feedctl/sink/internal/session"
)

// DefaultTable is the name of the default table.
const DefaultTable = "entities"

// busyTimeout is how long a sink waits for another writer of the database.
const busyTimeout = 10 * time.Second

// FromSpec opens a sink named sqlite:FILE or sqlite:FILE?table=T; it is a
// [sink.Opener].
func FromSpec(ctx context.Context, s sink.Spec) (consumer.Sink, error) {
	if err := s.CheckParams("table"); err != nil {
		return nil, err
	}
	return Open(ctx, s.Path, cmp.Or(s.Params.Get("table"), DefaultTable))
}

// tableName matches the name of a table: a letter, and up to 63 letters, digits and
// underscores.
var tableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)

func checkTable(table string) error {
	lower := strings.ToLower(table)
	if !tableName.MatchString(table) || strings.HasPrefix(lower, "sqlite_") || strings.HasPrefix(lower, "feedctl_") {
		return fmt.Errorf("%w: table %q: want a letter, then up to 63 letters, digits and underscores, and not sqlite_ or feedctl_ at the start", sink.ErrSpec, table)
	}
	return nil
}

// Open opens the table in the database in the file path. It creates both if they do
// not exist. It returns an error if the table has rows but no position, and
// [sink.ErrLocked] if another consumer has the table open.
func Open(ctx context.Context, path, table string) (consumer.Sink, error) {
	return session.OpenBackfiller(ctx, "sqlite:"+path+"?table="+table, &target{table: table, path: path})
}

// OpenTemporary is like [Open] but syncs nothing to the disk. It is for files that the process itself
// removes at the end: after a crash of the machine, the database may be damaged.
func OpenTemporary(ctx context.Context, path, table string) (consumer.Sink, error) {
	return session.OpenBackfiller(ctx, "sqlite:"+path+"?table="+table, &target{table: table, path: path, temporary: true})
}

// New returns a sink that writes to a table in the database of db. The sink opens the table, as [Open]
// does, in its Position method, which a [consumer.Job] calls first. It has its own connection to the
// file of the database; closing the sink does not close db. The driver of db must be
// modernc.org/sqlite, since two implementations of SQLite in one process release each other's locks;
// with another driver use package sqlsink.
func New(db *sql.DB, table string) consumer.Sink {
	return session.NewBackfiller("sqlite table "+table, &target{table: table, db: db})
}

type target struct {
	table     string
	path      string  // of the database
	db        *sql.DB // if not nil, path is taken from it
	temporary bool    // nothing is synced

	conn  *sqlite.Conn
	lock  *durable.File
	limit int64 // maximum size of a row, in bytes
	begun bool  // the transaction of the batch has begun
	statements
	notes notes
	noted bool // there may be notes
	seen  *sqlite.Stmt
	// replacing means that the keys of the batch are noted as seen; removed is the number of rows that
	// RemoveOthers deleted.
	replacing bool
	removed   int64
	body      content.Reader
	headers   []byte // buffer
}

func (t *target) open(ctx context.Context) error {
	if err := checkTable(t.table); err != nil {
		return err
	}
	if t.db != nil {
		if err := t.findPath(ctx); err != nil {
			return err
		}
	}
	// In an absolute path, file: and :memory: have no special meaning to SQLite.
	path, err := filepath.Abs(t.path)
	if err != nil {
		return err
	}
	if err := sink.CheckParent(path); err != nil {
		return err
	}
	if t.conn, err = sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate); err != nil {
		return err
	}
	if t.lock, err = position.LockSQLite(path, t.table); err != nil {
		return err
	}
	t.conn.SetInterrupt(ctx.Done())
	defer t.conn.SetInterrupt(nil)
	if err := t.configure(); err != nil {
		return err
	}
	if err := t.prepareTables(); err != nil {
		return err
	}
	return t.prepare(t.conn, t.table)
}

// findPath sets t.path to the path of t.db's database file.
func (t *target) findPath(ctx context.Context) error {
	const driver = "modernc.org/sqlite"
	if kind := reflect.TypeOf(t.db.Driver()); kind.Kind() != reflect.Pointer || kind.Elem().PkgPath() != driver {
		return fmt.Errorf("the driver of the database is %s, but must be from %s: use that one, or package sqlsink", kind, driver)
	}
	if err := t.db.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&t.path); err != nil {
		return fmt.Errorf("find the file of the database: %w", err)
	}
	if t.path == "" {
		return errors.New("the database is in memory: use a file or package sqlsink")
	}
	return nil
}

// explain adds to SQLite's "unable to open database file" the system's error for creating a file
// next to the database: SQLite creates two such files, and reports neither which one failed nor
// why.
func (t *target) explain(err error) error {
	if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultCantOpen {
		return err
	}
	probe, cause := os.CreateTemp(filepath.Dir(t.path), ".feedctl-*")
	if cause != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return errors.Join(err, probe.Close(), os.Remove(probe.Name()))
}

// configure configures the connection. The page size is for new databases only; with
// 8 KiB, inserting rows of 1 KB is a fifth faster than with the default of 4 KiB. The write-ahead log
// is copied to the database every 4,096 pages: with the default of 1,000, nearly every commit would
// copy it and sync the database, and pages of the index would be copied again and again.
func (t *target) configure() error {
	t.conn.SetBusyTimeout(busyTimeout)
	synchronous := "FULL"
	if t.temporary {
		synchronous = "OFF"
	}
	pragmas := []string{
		"synchronous = " + synchronous, // must be first: the next pragmas may write
		"page_size = 8192",
		"journal_mode = WAL",
		"wal_autocheckpoint = 4096",     // pages
		"journal_size_limit = 67108864", // truncates the log after a large batch
	}
	if t.temporary {
		pragmas = append(pragmas, "cache_size = -1000") // in KiB; the default would be 4 MB with pages of 8 KiB
	}
	for _, pragma := range pragmas {
		if err := sqlitex.ExecuteTransient(t.conn, "PRAGMA "+pragma, nil); err != nil {
			return fmt.Errorf("set %s: %w", pragma, err)
		}
	}
	t.limit = int64(t.conn.Limit(sqlite.LimitLength, -1))
	return nil
}

func (t *target) Close() error {
	var err error
	if t.conn != nil {
		err = t.conn.Close() // rolls back
	}
	if t.lock != nil {
		err = errors.Join(err, t.lock.Close())
	}
	t.conn, t.lock = nil, nil
	return err
}
