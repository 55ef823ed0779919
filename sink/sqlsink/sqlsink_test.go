package sqlsink_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinktest"
	"github.com/feedctl/feedctl/sink/sqlsink"
)

// urlVariable passes the URL of the server to child processes.
const urlVariable = "FEEDCTL_SQLSINK_TEST_URL"

// conform runs the suite with the sink of the example.
func conform(t *testing.T, connect func(dir string) (*sql.DB, error)) {
	open := func(ctx context.Context, dir string, before func() error) (consumer.Sink, error) {
		db, err := connect(dir)
		if err != nil {
			return nil, err
		}
		s := closing{sqlsink.NewFaulty(db, "changes", insertChange, before), db}
		if _, err := s.Position(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
	sinktest.Run(t, sinktest.Options{
		Open:       func(ctx context.Context, dir string) (consumer.Sink, error) { return open(ctx, dir, nil) },
		OpenFaulty: open,
		Log:        true,
		Kills:      10,
		Keeps: func(r sinktest.Record) sinktest.Record {
			return sinktest.Record{ContentID: r.ContentID, Operation: r.Operation, Key: r.Key, Body: r.Body}
		},
		Read: func(dir string) (records []sinktest.Record, err error) {
			db, err := connect(dir)
			if err != nil {
				return nil, err
			}
			defer db.Close()
			rows, err := db.Query("SELECT content_id, operation, key, body FROM changes ORDER BY n")
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				var r sinktest.Record
				if err := rows.Scan(&r.ContentID, &r.Operation, &r.Key, &r.Body); err != nil {
					return nil, err
				}
				r.Operation = cmp.Or(r.Operation, feed.Put) // of snapshots
				records = append(records, r)
			}
			return records, rows.Err()
		},
	})
}

// closing closes the pool together with the sink.
type closing struct {
	consumer.Sink
	db *sql.DB
}

func (c closing) Close() error { return errors.Join(c.Sink.Close(), c.db.Close()) }

func TestConformanceSQLite(t *testing.T) {
	conform(t, func(dir string) (*sql.DB, error) {
		return prepared("sqlite", filepath.Join(dir, "data.db")+"?_pragma=busy_timeout(10000)",
			"CREATE TABLE IF NOT EXISTS changes (n INTEGER PRIMARY KEY, content_id TEXT, operation TEXT, key TEXT, body BLOB)")
	})
}

func TestConformancePostgreSQL(t *testing.T) {
	server := os.Getenv(urlVariable)
	if server == "" {
		server = pgtest.Start(t).URL("a")
		t.Setenv(urlVariable, server)
	}
	conform(t, func(dir string) (*sql.DB, error) {
		u, err := url.Parse(server)
		if err != nil {
			return nil, err
		}
		schema := fmt.Sprintf("s_%x", sha256.Sum256([]byte(dir)))[:32]
		q := u.Query()
		q.Set("search_path", schema)
		u.RawQuery = q.Encode()
		// The lock is needed because the server may still be executing these statements for a
		// killed process.
		return prepared("pgx", u.String(), "SELECT pg_advisory_xact_lock(1); CREATE SCHEMA IF NOT EXISTS "+schema+
			"; CREATE TABLE IF NOT EXISTS changes (n bigserial PRIMARY KEY, content_id text, operation text, key text, body bytea)")
	})
}

func prepared(driver, source string, statements ...string) (*sql.DB, error) {
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, err
	}
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// TestOtherWriters: a batch waits for another writer and does not block readers. The position is
// named own-t, since package sqlite uses the name t for a table t.
func TestOtherWriters(t *testing.T) {
	t.Parallel()
	db, err := prepared("sqlite", filepath.Join(t.TempDir(), "data.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)",
		"CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (1)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	waiting := make(chan struct{})
	var other *sql.Tx
	s := sqlsink.NewFaulty(db, "t", func(ctx context.Context, tx *sql.Tx, e *feed.Entity) error {
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT n FROM t").Scan(&n); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE t SET n = ?", n+1)
		return err
	}, func() error {
		if other != nil {
			close(waiting) // lets the other writer continue before the next step, which writes
			other = nil
		}
		return nil
	})
	defer s.Close()
	if _, err := s.Position(t.Context()); err != nil {
		t.Fatal(err)
	}
	if other, err = db.Begin(); err == nil {
		_, err = other.Exec("UPDATE t SET n = 10")
	}
	if err != nil {
		t.Fatal(err)
	}
	writer, ended := other, make(chan error, 1)
	go func() {
		<-waiting
		ended <- writer.Commit()
	}()
	b, err := s.Begin(t.Context())
	if err == nil {
		err = b.Apply(t.Context(), &feed.Entity{})
	}
	if err == nil {
		err = b.Commit(t.Context(), feed.Position{ContentID: "1"})
	}
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	var n int
	var name string
	if err := db.QueryRow("SELECT n, name FROM t, feedctl_positions").Scan(&n, &name); err != nil || n != 11 || name != "own-t" {
		t.Errorf("the table has %d, and the position is %q's: %v", n, name, err)
	}
}

func TestName(t *testing.T) {
	for _, name := range []string{"", "../x", "a b"} {
		if _, err := sqlsink.New(nil, name, nil).Position(t.Context()); !errors.Is(err, sink.ErrSpec) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
