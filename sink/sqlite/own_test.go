package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinktest"
	"github.com/feedctl/feedctl/sink/sqlite"
)

// openDB returns a database with a table that the sink does not use.
func openDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)")
	if err == nil {
		_, err = db.Exec("CREATE TABLE IF NOT EXISTS mine (id INTEGER)")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestNewConforms runs the suite with sinks made by New, on databases that the test has opened.
func TestNewConforms(t *testing.T) {
	o := options()
	o.Open = func(ctx context.Context, dir string) (consumer.Sink, error) {
		table := sqlite.New(openDB(t, file(dir)), sqlite.DefaultTable)
		if _, err := table.Position(ctx); err != nil {
			return nil, errors.Join(err, table.Close())
		}
		return table, nil
	}
	sinktest.Run(t, o)
}

// TestNewShares: a sink from Open continues where one from New stopped, and cannot be opened at the
// same time.
func TestNewShares(t *testing.T) {
	path := file(t.TempDir())
	db := openDB(t, path)
	first, second := sqlite.New(db, "zones"), sqlite.New(db, "zones")
	defer second.Close()
	if _, err := first.Position(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, first, entity("a", "text/plain", "x"))
	if _, err := second.Position(t.Context()); !errors.Is(err, sink.ErrLocked) {
		t.Errorf("a second sink: %v, want ErrLocked", err)
	}
	var body string
	if err := db.QueryRow("SELECT body FROM zones WHERE key = 'a'").Scan(&body); err != nil || body != "x" {
		t.Errorf("the caller's database has %q, %v", body, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if at, err := second.Position(t.Context()); err != nil || at.ContentID == "" {
		t.Errorf("after the first has closed, the second is at %+v, %v", at, err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if at, err := open(t, path, "zones").Position(t.Context()); err != nil || at.ContentID == "" {
		t.Errorf("a sink from Open is at %+v, %v", at, err)
	}
}

// A foreignDriver stands for the driver of another SQLite implementation.
type foreignDriver struct{ driver.Connector }

func (foreignDriver) Driver() driver.Driver { return foreignDriver{} }

func (foreignDriver) Open(string) (driver.Conn, error) { return nil, errors.ErrUnsupported }

func TestNewRefuses(t *testing.T) {
	memory, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	foreign := sql.OpenDB(foreignDriver{})
	defer foreign.Close()
	for _, tt := range []struct {
		db          *sql.DB
		table, want string
	}{
		{memory, "zones", "in memory"},
		{foreign, "zones", "must be from modernc.org/sqlite"},
		{openDB(t, filepath.Join(t.TempDir(), "a.db")), "feedctl_positions", "feedctl_"},
	} {
		table := sqlite.New(tt.db, tt.table)
		if _, err := table.Position(t.Context()); err == nil || !strings.Contains(err.Error(), "open sink sqlite table "+tt.table+": ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want an error with %q", err, tt.want)
		}
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	}
}
