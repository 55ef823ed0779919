package fold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink"
	sqlitesink "github.com/feedctl/feedctl/sink/sqlite"
)

// errMismatch means that a kept table cannot be used for this fold.
var errMismatch = errors.New("table does not match")

// isMismatch reports whether an error is due to the table, so that the fold may succeed with a new one.
func isMismatch(err error) bool {
	if errors.Is(err, errMismatch) {
		return true
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultFormat:
		return true
	}
	return false
}

// lost reports whether an error means that the feed cannot be read from a position, because the next
// entities, or the snapshot in which the position is, no longer exist.
func lost(err error) bool {
	return consumer.IsGap(err) || errors.Is(err, consumer.ErrNotFound)
}

// openTable opens the table in a file, creates it if it does not exist, and locks it. A temporary table
// is not synced to the disk.
func openTable(ctx context.Context, file string, temporary bool) (consumer.Sink, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("open table: %w", err)
	}
	open := sqlitesink.Open
	if temporary {
		open = sqlitesink.OpenTemporary
	}
	state, err := open(ctx, file, table)
	if err != nil && !errors.Is(err, sink.ErrLocked) {
		err = fmt.Errorf("%w: %w", errMismatch, err)
	}
	return state, err
}

// sinkName returns the name that errors of the sink use for the table in a file.
func sinkName(file string) string { return "sqlite:" + file + "?table=" + table }

// renamed returns err with a name in its text, such as that of a temporary file, replaced with one that
// users know.
func renamed(err error, name, other string) error {
	if err == nil {
		return nil
	}
	return &renamedError{err, name, other}
}

type renamedError struct {
	err         error
	name, other string
}

func (e *renamedError) Error() string { return strings.ReplaceAll(e.err.Error(), e.name, e.other) }
func (e *renamedError) Unwrap() error { return e.err }

// removeTable removes the files that openTable created, except the lock.
func removeTable(file string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(file + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove table: %w", err)
		}
	}
	return nil
}

// A work describes the table of a fold.
type work struct {
	pages     *chain.Reader
	file      string
	temporary bool // nothing is synced
	origin    tableOrigin
}

// tableVersion changes with the format of a table. In a table of version 1, rows have no places; a fold
// turns it into a table of the current version, in which only rows written from then on have places.
const tableVersion = 2

// A tableOrigin says for which feed and how a table was created. It is stored in the table's file.
type tableOrigin struct {
	Version    int
	Feed       string
	KeyPointer string
	// Versions reports whether the table has a row for each version of a key.
	Versions bool
	// Page was the newest page of the feed when the table was last updated. The boundary of the page
	// distinguishes it from a page of another feed of the same name.
	Page     int64
	Boundary string
	// Whole reports whether the table is known to have the entities of the feed's first pages, and not
	// to have missed any that were pruned before they were read.
	Whole bool
}

// check compares the origin of the table with the feed. If the table does not belong to this feed, the
// error matches errMismatch.
func (w *work) check(ctx context.Context) error {
	was, err := w.load()
	if err != nil {
		return err
	}
	w.origin.Whole = was.Whole
	if was.Version < 1 || was.Version > tableVersion || was.Feed != w.origin.Feed || was.KeyPointer != w.origin.KeyPointer {
		return fmt.Errorf("%w: it belongs to feed %q with key %q", errMismatch, was.Feed, was.KeyPointer)
	}
	if was.Versions != w.origin.Versions {
		return fmt.Errorf("%w: it has a row for each version: %v", errMismatch, was.Versions)
	}
	page, err := w.pages.Stat(ctx, was.Page)
	switch {
	case errors.Is(err, chain.ErrNoFeed), errors.Is(err, chain.ErrNoPage), errors.Is(err, chain.ErrPruned):
		return fmt.Errorf("%w: %w", errMismatch, err)
	case err != nil:
		return err
	case page.Boundary != was.Boundary:
		return fmt.Errorf("%w: it belongs to another feed of this name", errMismatch)
	}
	if pruned, err := w.pages.Pruned(ctx); err != nil || was.Whole || !pruned {
		return err
	}
	return fmt.Errorf("%w: pages may have been pruned before they were read", errMismatch)
}

// note stores the origin of the table, with the newest page of the feed.
func (w *work) note(ctx context.Context) error {
	newest, err := w.pages.Newest(ctx)
	if errors.Is(err, chain.ErrNoFeed) {
		return nil // the error is returned when the feed is read
	}
	if err != nil {
		return err
	}
	w.origin.Page, w.origin.Boundary = newest.Number, newest.Boundary
	return w.save()
}

// checkWhole checks that the first pages of the feed were not pruned while the feed was being read, and
// records that the table is whole.
func (w *work) checkWhole(ctx context.Context) error {
	if w.origin.Whole {
		return nil
	}
	if pruned, err := w.pages.Pruned(ctx); err != nil {
		return err
	} else if pruned {
		return fmt.Errorf("%w while it was being read: try again", ErrPruned)
	}
	w.origin.Whole = true
	return w.save()
}

const (
	createOrigin = "CREATE TABLE IF NOT EXISTS feedctl_fold (origin TEXT NOT NULL)"
	selectOrigin = "SELECT origin FROM feedctl_fold"
)

func (w *work) load() (o tableOrigin, err error) {
	err = w.with(func(conn *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(conn, selectOrigin, &sqlitex.ExecOptions{
			ResultFunc: func(row *sqlite.Stmt) error { return json.Unmarshal([]byte(row.ColumnText(0)), &o) },
		})
	})
	return o, err
}

func (w *work) save() error {
	data, err := json.Marshal(w.origin)
	if err != nil {
		return err
	}
	return w.with(func(conn *sqlite.Conn) (err error) {
		defer sqlitex.Transaction(conn)(&err)
		if err := sqlitex.ExecuteTransient(conn, "DELETE FROM feedctl_fold", nil); err != nil {
			return err
		}
		return sqlitex.ExecuteTransient(conn, "INSERT INTO feedctl_fold (origin) VALUES (?)", &sqlitex.ExecOptions{Args: []any{string(data)}})
	})
}

// with calls use with a connection to the file of the table.
func (w *work) with(use func(*sqlite.Conn) error) error {
	conn, err := sqlite.OpenConn(w.file, sqlite.OpenReadWrite)
	if err != nil {
		return fmt.Errorf("open table: %w", err)
	}
	if w.temporary {
		err = sqlitex.ExecuteTransient(conn, "PRAGMA synchronous = OFF", nil)
	}
	if err == nil {
		err = sqlitex.ExecuteTransient(conn, createOrigin, nil)
	}
	if err == nil {
		err = use(conn)
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("open table: %w", err)
	}
	return nil
}
