package task_test

import (
	"log/slog"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/storage"
)

// TestShared: runs share a store until the last of them ends.
func TestShared(t *testing.T) {
	url := "file:" + t.TempDir() + "/store"
	var common task.Shared
	open := func(shared *task.Shared) (storage.Store, *task.Env) {
		t.Helper()
		e := &task.Env{Log: slog.New(slog.DiscardHandler), Shared: shared}
		store, err := e.OpenStore(t.Context(), url, task.Access{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		return store, e
	}
	end := func(e *task.Env) {
		t.Helper()
		if err := e.Close(nil); err != nil {
			t.Error(err)
		}
	}
	a, first := open(&common)
	b, second := open(&common)
	alone, third := open(nil)
	if a != b || a == alone {
		t.Error("two runs that share have different stores, or one that does not share has the same store")
	}
	end(third)
	end(first)
	if _, err := b.Create(t.Context(), "a", storage.Meta{}, storage.Bytes(nil)); err != nil {
		t.Errorf("the store does not work after the first run: %v", err)
	}
	end(second)
	c, fourth := open(&common)
	if c == a {
		t.Error("the store was not closed at the end of the last run")
	}
	end(fourth)
}

// TestSharedDatabases: the connections to a database do not grow with the number of runs.
func TestSharedDatabases(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t).URL("outbox")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	others := func() (n int) {
		t.Helper()
		const sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
		if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var common task.Shared
	var runs []*task.Env
	for range 30 {
		e := &task.Env{Log: slog.New(slog.DiscardHandler), Shared: &common}
		runs = append(runs, e)
		db, err := e.OpenOutbox(t.Context(), address, task.Access{Create: true})
		if err == nil {
			_, err = db.Waiting(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		pages, err := e.ConnectPages(t.Context(), u, task.Access{})
		if err == nil {
			_, err = pages.Latest(t.Context(), nil, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := others(); n > 4 {
		t.Errorf("%d connections for %d runs", n, len(runs))
	}
	for _, e := range runs {
		if err := e.Close(nil); err != nil {
			t.Error(err)
		}
	}
	for others() > 0 { // the server notices later
		if t.Context().Err() != nil {
			t.Fatal("connections remain")
		}
	}
}
