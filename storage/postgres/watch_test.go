package postgres_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/postgres"
)

// A log is a buffer that can be read while it is being written.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), "\n")
}

func openWithLog(t *testing.T, raw string) (*postgres.Store, *log) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	l := new(log)
	store, err := postgres.Connect(t.Context(), u, slog.New(slog.NewTextHandler(l, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, l
}

// TestNotifications: a change made by another process notifies a watcher before the polling
// interval ends, even after the connection was lost.
func TestNotifications(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	watcher, log := openWithLog(t, url)
	writer, conn := open(t, url), connect(t, url)
	defer writer.Close()
	changed, err := watcher.Watch(t.Context(), "a/")
	if err != nil {
		t.Fatal(err)
	}
	<-changed // the session listens
	for round := range 2 {
		at := put(t, writer, "a/b")
		for range 3 {
			<-changed
			if at, err = writer.Append(t.Context(), "a/b", at, storage.Meta{}, storage.Bytes([]byte("x"))); err != nil {
				t.Fatal(err)
			}
		}
		<-changed
		if err := writer.Delete(t.Context(), "a/b"); err != nil {
			t.Fatal(err)
		}
		<-changed
		if log.lines() != round {
			t.Errorf("round %d: the log is %s", round, &log.text)
		}
		if round == 0 {
			listener := listens(t, conn, 0)
			run(t, conn, fmt.Sprintf("SELECT pg_terminate_backend(%d)", listener))
			listens(t, conn, listener)
		}
	}
}

// listens waits until a session other than the one with the given process ID listens, and returns
// its process ID.
func listens(t *testing.T, conn *pgx.Conn, not int) (process int) {
	t.Helper()
	for process == 0 {
		err := conn.QueryRow(t.Context(), `
			SELECT coalesce(max(pid), 0) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN%' AND pid <> $1`, not).Scan(&process)
		if err != nil {
			t.Fatal(err)
		}
	}
	return process
}

// TestNotificationsThroughPgBouncer: it is logged once that there are no notifications.
func TestNotificationsThroughPgBouncer(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	store, log := openWithLog(t, pgtest.PgBouncer(t, server, "a"))
	changed, err := store.Watch(t.Context(), "a/")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-changed
	}
	if log.lines() != 1 {
		t.Errorf("the log is %s", &log.text)
	}
}
