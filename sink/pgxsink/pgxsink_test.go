package pgxsink_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/pgxsink"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// urlVariable passes the URL of the server to child processes.
const urlVariable = "FEEDCTL_PGXSINK_TEST_URL"

// TestConformance runs the suite with the sink of the example.
func TestConformance(t *testing.T) {
	url := os.Getenv(urlVariable)
	if url == "" {
		url = pgtest.Start(t).URL("a")
		t.Setenv(urlVariable, url)
	}
	open := func(ctx context.Context, dir string, before func() error) (consumer.Sink, error) {
		pool, err := newPool(ctx, url, dir)
		if err != nil {
			return nil, err
		}
		defer pool.Close() // the sink needs another connection
		// The lock is needed because the server may still be executing this statement for a process that was
		// killed.
		if _, err := pool.Exec(ctx, "SELECT pg_advisory_xact_lock(1); CREATE TABLE IF NOT EXISTS changes (n bigserial PRIMARY KEY, content_id text, operation text, key text, body bytea)"); err != nil {
			return nil, err
		}
		s := pgxsink.NewFaulty(pool, "changes", insertChange, before)
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
		Read: func(dir string) ([]sinktest.Record, error) {
			pool, err := newPool(context.Background(), url, dir)
			if err != nil {
				return nil, err
			}
			defer pool.Close()
			rows, err := pool.Query(context.Background(), "SELECT content_id, operation, key, body FROM changes ORDER BY n")
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r sinktest.Record, err error) {
				err = row.Scan(&r.ContentID, &r.Operation, &r.Key, &r.Body)
				r.Operation = cmp.Or(r.Operation, feed.Put) // of snapshots
				return r, err
			})
		},
	})
}

// newPool connects to a separate schema for each directory.
func newPool(ctx context.Context, url, dir string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	schema := fmt.Sprintf("s_%x", sha256.Sum256([]byte(dir)))[:32]
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, "SELECT pg_advisory_xact_lock(1); CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// TestWaiting: an idle sink holds one connection, outside a transaction, and reacquires it
// and the lock if they are lost. It cannot commit after another sink has taken over.
func TestWaiting(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(pgtest.Start(t).URL("waiting"))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = "own"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	value := func(sql string) (text string) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), sql).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	const others = " FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'own' AND pid <> pg_backend_pid()"
	if _, err := pool.Exec(t.Context(), "CREATE TABLE t (id text PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	insert := func(ctx context.Context, tx pgx.Tx, e *feed.Entity) error {
		if err := tx.Commit(ctx); err == nil {
			t.Error("the function ended the transaction")
		}
		_, err := tx.Exec(ctx, "INSERT INTO t (id) VALUES ($1)", e.ContentID)
		return err
	}
	write := func(s consumer.Sink, id string) error {
		b, err := s.Begin(t.Context())
		if err != nil {
			return err
		}
		if err := b.Apply(t.Context(), &feed.Entity{ContentID: id}); err != nil {
			return errors.Join(err, b.Rollback(t.Context()))
		}
		return b.Commit(t.Context(), feed.Position{ContentID: id})
	}
	s := pgxsink.New(pool, "n", insert)
	defer s.Close()
	if err := write(s, "0"); err == nil {
		t.Error("a batch was begun before Position was called")
	}
	if _, err := s.Position(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2", "3"} {
		if err := write(s, id); err != nil {
			t.Fatal(err)
		}
		if got := value("SELECT string_agg(state, ' ')" + others); got != "idle" {
			t.Errorf("the sessions of an idle sink are %q, want one idle session", got)
		}
		second := pgxsink.New(pool, "n", insert)
		if _, err := second.Position(t.Context()); !errors.Is(err, sink.ErrLocked) {
			t.Errorf("a second sink: got error %v, want %v", err, sink.ErrLocked)
		}
		second.Close()
		value("SELECT string_agg(pg_terminate_backend(pid, 10000)::text, '')" + others)
	}
	second := pgxsink.New(pool, "n", insert)
	defer second.Close()
	if at, err := second.Position(t.Context()); err != nil || at.ContentID != "3" {
		t.Fatalf("the second sink is at %v: %v", at, err)
	}
	if err := write(s, "lost"); !errors.Is(err, sink.ErrLocked) {
		t.Errorf("the sink committed after another took over: %v", err)
	}
	if err := write(second, "3"); err == nil { // a duplicate key
		t.Error("an error of the function was lost")
	}
	if _, err := second.Position(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := write(second, "4"); err != nil {
		t.Error(err)
	}
	if got := value("SELECT string_agg(id, ' ' ORDER BY id) FROM t"); got != "1 2 3 4" {
		t.Errorf("the table has %s", got)
	}
}
