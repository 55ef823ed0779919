package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/storage"
)

// TestRestart stops, kills and starts the server while writers, each with its own store,
// increment a counter. Every increment must be counted exactly once.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := pgtest.StartOwn(t, "fsync=on")
	testRestart(t, server, server.URL("a"), 4)
}

// TestRestartBehindPgBouncer is like TestRestart, through PgBouncer, whose clients lose their
// connections when PgBouncer loses its own.
func TestRestartBehindPgBouncer(t *testing.T) {
	t.Parallel()
	server := pgtest.StartOwn(t, "fsync=on")
	testRestart(t, server, pgtest.PgBouncer(t, server, "a"), 2)
}

func testRestart(t *testing.T, server *pgtest.TestServer, url string, restarts int) {
	const writers, between = 6, 60
	first := open(t, url)
	defer first.Close()
	if _, err := first.Create(t.Context(), "counter", storage.Meta{}, storage.Bytes()); err != nil {
		t.Fatal(err)
	}
	var acknowledged, unknown atomic.Int64
	steps := make(chan struct{}, 1000)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range writers {
		store := open(t, url)
		all.Go(func() {
			defer store.Close()
			for ctx.Err() == nil {
				switch err := countOn(t.Context(), store); {
				case err == nil:
					acknowledged.Add(1)
					select {
					case steps <- struct{}{}:
					default:
					}
				case errors.Is(err, storage.ErrConflict):
				default:
					unknown.Add(1)
				}
			}
		})
	}
	for n := range restarts {
		for range between {
			<-steps
		}
		if n%2 == 0 {
			server.Stop()
		} else {
			server.Kill()
		}
		server.Start()
	}
	for range between {
		<-steps
	}
	stop()
	all.Wait()
	info, err := first.Stat(t.Context(), "counter")
	if err != nil {
		t.Fatal(err)
	}
	low, high := acknowledged.Load(), acknowledged.Load()+unknown.Load()
	if info.Size < low || info.Size > high {
		t.Errorf("the counter is at %d; %d were acknowledged, %d are unknown", info.Size, low, unknown.Load())
	}
	t.Logf("%d acknowledged, %d unknown", low, unknown.Load())
	checkWholeDatabase(t, url)
}

// countOn increments the counter: it appends a byte to an object, whose size is the value.
func countOn(ctx context.Context, store storage.Store) error {
	info, err := store.Stat(ctx, "counter")
	if err != nil {
		return err
	}
	_, err = store.Append(ctx, "counter", info.Version, storage.Meta{}, storage.Bytes([]byte("+")))
	return err
}

// checkWholeDatabase fails the test if there are chunks without a body or bodies with gaps.
func checkWholeDatabase(t *testing.T, url string) {
	t.Helper()
	var wrong int
	err := connect(t, url).QueryRow(t.Context(), `
		SELECT count(*) FROM feedctl.objects AS o
		FULL JOIN (
			SELECT body, sum(length(bytes)) AS size, max(position + length(bytes)) AS "end" FROM feedctl.chunks GROUP BY body
		) AS c ON c.body = o.body
		WHERE o.body IS NULL OR o.size IS DISTINCT FROM coalesce(c.size, 0) OR o.size IS DISTINCT FROM coalesce(c."end", 0)`).Scan(&wrong)
	if err != nil || wrong > 0 {
		t.Errorf("%d bodies are wrong, error %v", wrong, err)
	}
}

// TestDurable crashes the server right after writes, with settings under which PostgreSQL
// may lose them.
func TestDurable(t *testing.T) {
	t.Parallel()
	server := pgtest.StartOwn(t, "fsync=on", "synchronous_commit=off", "wal_writer_delay=10s")
	url := server.URL("a")
	store := open(t, url)
	defer store.Close()
	for verb, write := range writes {
		t.Run(verb, func(t *testing.T) {
			key := strings.ReplaceAll(verb, " ", "_")
			var at storage.Version
			if verb != "create" {
				at = put(t, store, key)
			}
			if err := write(t.Context(), store, key, at); err != nil {
				t.Fatal(err)
			}
			server.Kill()
			server.Start()
			checkDone(t, store, verb, key, true)
		})
	}
}

// openVariable is set in the environment of a process that only opens a store.
const openVariable = "FEEDCTL_POSTGRES_OPEN"

// TestFirstOpen: ten processes open a new store concurrently.
func TestFirstOpen(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), openVariable+"="+url, "GORACE=atexit_sleep_ms=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	all.Wait()
	store := open(t, url)
	defer store.Close()
	put(t, store, "a")
}

func openOnly(url string) {
	store, err := registry.Open(context.Background(), url)
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestRights: a reader needs only the right to read, a writer needs more rights on the tables, and
// errors name the missing right.
func TestRights(t *testing.T) {
	t.Parallel()
	url := pgtest.StartOwn(t).URL("a")
	owner, conn := open(t, url), connect(t, url)
	defer owner.Close()
	at := put(t, owner, "a")
	run(t, conn, "CREATE ROLE reader LOGIN", "GRANT USAGE ON SCHEMA feedctl TO reader",
		"GRANT SELECT ON ALL TABLES IN SCHEMA feedctl TO reader")
	store := open(t, strings.Replace(url, "postgres@", "reader@", 1))
	defer store.Close()
	o, err := store.Get(t.Context(), "a", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	o.Body.Close()
	for verb, write := range writes {
		key, version := "a", at
		if verb == "create" {
			key = "b"
		}
		if err := write(t.Context(), store, key, version); !errors.Is(err, storage.ErrPermission) {
			t.Errorf("%s by a reader: %v", verb, err)
		}
	}
	run(t, conn, "CREATE ROLE writer LOGIN", "GRANT USAGE ON SCHEMA feedctl TO writer", "GRANT SELECT ON feedctl.schema_version TO writer",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON feedctl.objects, feedctl.chunks TO writer")
	writing := open(t, strings.Replace(url, "postgres@", "writer@", 1))
	defer writing.Close()
	for verb, write := range writes {
		at, key := storage.Version(""), "writer/"+strings.ReplaceAll(verb, " ", "_")
		if verb != "create" {
			at = put(t, writing, key)
		}
		if err := write(t.Context(), writing, key, at); err != nil {
			t.Errorf("%s by a writer: %v", verb, err)
		}
	}
}

// TestOpenErrors: errors name the cause, but not the password.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	store := open(t, url)
	defer store.Close()
	run(t, connect(t, url), "UPDATE feedctl.schema_version SET version = 9999, min_read = 9999, min_write = 9999")
	if _, err := registry.Open(t.Context(), url); !errors.Is(err, storage.ErrLayout) {
		t.Errorf("open a newer schema: %v", err)
	}
	for _, bad := range []string{
		"postgres://u:secret@localhost:1/d", "postgres://u:secret@localhost:x/d", "postgres://u:secret@h/d?schema=A",
		"postgres://u:secret@h/d?pool_max_conns=x", "postgres://u:secret@h/d?sslmode=x", "postgresql://u:secret@localhost:1/d?a;b",
		"postgres://localhost:1/d?password=secret", "postgres://localhost:1/d?password=secret&sslmode=x",
	} {
		if _, err := registry.Open(t.Context(), bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("open %s: %v", bad, err)
		}
	}
}

// TestStatementTimeout makes a write wait for a lock longer than the server allows.
func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	patient, store, conn := open(t, url), open(t, url+"&statement_timeout=2000"), connect(t, url)
	defer patient.Close()
	defer store.Close()
	at := put(t, patient, "a")
	run(t, conn, "BEGIN", "SELECT FROM feedctl.objects WHERE key = 'a' FOR UPDATE")
	err := writes["append"](t.Context(), store, "a", at)
	if err == nil || !strings.Contains(err.Error(), "statement_timeout") {
		t.Errorf("got error %v, want one with statement_timeout", err)
	}
	run(t, conn, "ROLLBACK")
	checkDone(t, patient, "append", "a", false)
}
