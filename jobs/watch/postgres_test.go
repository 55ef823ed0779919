package watch_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs/watch"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/postgres"
)

// measured holds the settings of a server that counts statements.
var measured = []string{"shared_preload_libraries=pg_stat_statements", "autovacuum=off"}

func openPostgres(ctx context.Context, server, _ string) (*postgres.Store, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	store, err := postgres.Create(ctx, u)
	if err != nil {
		return nil, err
	}
	return store.(*postgres.Store), nil
}

func openOutbox(ctx context.Context, server, _ string) (*outbox.DB, error) {
	return outbox.Create(ctx, server)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// checks waits until a source has called Checked n more times, counted from now.
func (j *waiting) checks(t *testing.T, n int) {
	t.Helper()
	j.confirmed()
	j.moreChecks(t, n)
}

// moreChecks waits until a source has called Checked at least the given number of times since the last call of
// confirmed, and returns the number of calls.
func (j *waiting) moreChecks(t *testing.T, least int) (n int64) {
	t.Helper()
	limit := nearEnd(t)
	for n = int64(j.confirmed()); n < int64(least); n += int64(j.confirmed()) {
		select {
		case <-j.again:
		case <-limit:
			t.Fatalf("%d of %d checks were made", n, least)
		}
	}
	return n
}

// urls maps the ways to connect to a database to functions that return its URL.
var urls = map[string]func(t testing.TB, s *pgtest.TestServer) string{
	"direct":    func(_ testing.TB, s *pgtest.TestServer) string { return s.URL("a") },
	"PgBouncer": func(t testing.TB, s *pgtest.TestServer) string { return pgtest.PgBouncer(t, s, "a") },
}

// TestPostgresWakes: a commit wakes the job of its feed, also through PgBouncer, and after a restart of the server.
func TestPostgresWakes(t *testing.T) {
	t.Parallel()
	for name, open := range urls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.StartOwn(t)
			url := open(t, server)
			store, err := openPostgres(t.Context(), url, "")
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			publish(t, store, "a")
			publish(t, store, "b")
			jobs := waitFor("a", "b", "c", "no/name")
			watch := watch.Postgres{Open: openPostgres}
			stop := jobs.watching(t, watch, url)
			for _, name := range []string{"a", "b", "c"} {
				jobs.wakes(t, name)
			}
			for range 5 { // more entities than a page has room for
				publish(t, store, "a")
				jobs.wakes(t, "a")
			}
			publish(t, store, "c")
			jobs.wakes(t, "c")
			stop()
			jobs.take()
			publish(t, store, "b")
			stop = jobs.watching(t, watch, url)
			jobs.wakes(t, "b")
			if got := jobs.take(); got != "" {
				t.Errorf("also woken after a restart: %q", got)
			}
			server.Restart()
			publish(t, store, "a")
			jobs.wakes(t, "a")
			stop()
		})
	}
}

// TestPostgresAtRest counts the statements for watching a thousand feeds in which nothing happens.
func TestPostgresAtRest(t *testing.T) {
	t.Parallel()
	url := pgtest.StartOwn(t, measured...).URL("a")
	store, err := openPostgres(t.Context(), url, "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	publish(t, store, "f001")
	names := numbered("f", 1000)
	conn := connect(t, url)
	execute(t, conn, `CREATE EXTENSION pg_stat_statements`)
	execute(t, conn, `INSERT INTO feedctl.objects SELECT 'feeds/f' || f || '/pages/' || lpad(n::text, 12, '0'), 'v', 0, 0, now(), '', '', ''
		FROM generate_series(100, 999) AS f, generate_series(1, 10) AS n`)
	jobs := waitFor(names...)
	jobs.watching(t, watch.Postgres{Open: openPostgres}, url)
	jobs.wakes(t, "f999")
	jobs.checks(t, 1)
	jobs.take()
	jobs.confirmed()
	execute(t, conn, "SELECT pg_stat_statements_reset()")
	publish(t, store, "f002")
	jobs.wakes(t, "f002")
	var calls, wal, blocks int64
	err = conn.QueryRow(t.Context(), `SELECT sum(calls), sum(wal_bytes), sum(shared_blks_hit + shared_blks_read)
		FROM pg_stat_statements WHERE query LIKE '%sha256%'`).Scan(&calls, &wal, &blocks)
	checks := int64(jobs.confirmed()) // another check may be under way
	if err != nil || calls < 1 || calls > checks+1 || wal > 0 || blocks/calls > 30_000 {
		t.Errorf("%d statements with %d blocks and %d bytes of WAL for %d comparisons, %v", calls, blocks, wal, checks, err)
	}
	t.Logf("a thousand feeds: %d blocks for a comparison", blocks/max(calls, 1))
}

// TestOutboxWakes: a commit wakes the job of its feed, also through PgBouncer, and after a restart of the server.
// Rows that remain wake the job when the watch is restarted.
func TestOutboxWakes(t *testing.T) {
	t.Parallel()
	for name, open := range urls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.StartOwn(t)
			url := open(t, server)
			db, err := outbox.Create(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			source := watch.Outbox{Open: openOutbox}
			jobs := waitFor("a", "b", "c")
			stop := jobs.watching(t, source, url)
			jobs.checks(t, 1)
			insert := func(feed string) {
				t.Helper()
				// This does not connect through PgBouncer, which refuses connections for a while after a restart of
				// the server.
				execute(t, connect(t, server.URL("a")), "INSERT INTO feedctl.outbox (feed) SELECT '"+feed+"'")
			}
			for _, name := range []string{"a", "b"} {
				insert(name)
				jobs.wakes(t, name)
			}
			jobs.checks(t, 2)
			if got := jobs.take(); got != "" {
				t.Errorf("woken again: %q", got)
			}
			execute(t, connect(t, url), "DELETE FROM feedctl.outbox WHERE feed = 'a'")
			jobs.checks(t, 2)
			execute(t, connect(t, url), "INSERT INTO feedctl.outbox (feed, id) OVERRIDING SYSTEM VALUE VALUES ('a', 1)") // as if the database had been restored
			jobs.wakes(t, "a")
			execute(t, connect(t, url), "DELETE FROM feedctl.outbox WHERE feed = 'a'")
			stop()
			stop = jobs.watching(t, source, url)
			jobs.wakes(t, "b")
			if got := jobs.take(); got != "" {
				t.Errorf("also woken after a restart: %q", got)
			}
			server.Restart()
			insert("c")
			jobs.wakes(t, "c")
			stop()
		})
	}
}

// TestOutboxAtRest counts the statements that are executed for 1,000 feeds without rows: one for each check of all
// feeds.
func TestOutboxAtRest(t *testing.T) {
	t.Parallel()
	url := pgtest.StartOwn(t, measured...).URL("a")
	conn := connect(t, url)
	execute(t, conn, `CREATE EXTENSION pg_stat_statements`)
	names := numbered("f", 1000)
	jobs := waitFor(names...)
	jobs.watching(t, watch.Outbox{Open: openOutbox}, url)
	jobs.checks(t, 2)
	jobs.confirmed()
	execute(t, conn, "SELECT pg_stat_statements_reset()")
	checks := jobs.moreChecks(t, 4)
	rows, err := conn.Query(t.Context(), `SELECT query, calls, wal_bytes::bigint, shared_blks_hit + shared_blks_read FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'`)
	if err != nil {
		t.Fatal(err)
	}
	var query string
	var calls, wal, blocks, kinds int64
	_, err = pgx.ForEachRow(rows, []any{&query, &calls, &wal, &blocks}, func() error {
		kinds++
		checks += int64(jobs.confirmed()) // another check may be under way
		if !strings.Contains(query, "waiting") || calls < 3 || calls > checks+1 || wal > 0 || blocks > 20*calls {
			t.Errorf("%d times, with %d bytes of WAL and %d blocks: %s", calls, wal, blocks, query)
		}
		return nil
	})
	if err != nil || kinds != 1 {
		t.Errorf("%d statements, %v", kinds, err)
	}
	if got := jobs.take(); got != "" {
		t.Errorf("woken at rest: %q", got)
	}
}
