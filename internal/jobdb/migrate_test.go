package jobdb_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
)

// TestSlowMigration opens a database whose queue takes longer to migrate than a transaction may
// usually be idle.
func TestSlowMigration(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("slow")
	first, err := jobdb.Open(t.Context(), url, jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE feedctl_jobs.river_migration"); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		db, err := jobdb.Open(t.Context(), url, jobdb.Options{})
		if err == nil {
			err = db.Close()
		}
		opened <- err
	}()
	const waiting = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND clock_timestamp() - query_start > '6s'"
	for n, ticks := 0, time.Tick(100*time.Millisecond); n == 0; <-ticks {
		if err := conn.QueryRow(t.Context(), waiting).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
