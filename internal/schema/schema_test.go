package schema_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/storage"
)

func connect(t *testing.T, url string) (*pgx.ConnConfig, *pgx.Conn) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return config, conn
}

func exec(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// TestCreate creates the schema concurrently, directly and through PgBouncer.
func TestCreate(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for name, url := range map[string]string{"direct": server.URL("a"), "pgbouncer": pgtest.PgBouncer(t, server, "a")} {
		t.Run(name, func(t *testing.T) {
			config, conn := connect(t, url)
			// A failed migration leaves nothing behind, not even a lock.
			bad := "s_" + name + "_bad"
			exec(t, conn, "CREATE SCHEMA "+bad, "CREATE TABLE "+bad+".objects ()")
			for range 30 {
				if err := schema.Create(t.Context(), config, bad); err == nil {
					t.Fatal("created over an existing table")
				}
			}
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if err := schema.Create(t.Context(), config, "s_"+name); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			exec(t, conn, "SELECT key, data FROM s_"+name+".objects", "DROP TABLE "+bad+".objects")
			if err := schema.Create(t.Context(), config, bad); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRace: another process creates the schema while Create waits for the lock, in a
// session that has cached the schema's absence.
func TestRace(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	config, conn := connect(t, pgtest.PgBouncer(t, server, "a"))
	_, other := connect(t, server.URL("a"))
	exec(t, conn, "CREATE SCHEMA bad", "CREATE TABLE bad.objects ()")
	for i := range 5 {
		for range 3 {
			if err := schema.Create(t.Context(), config, "bad"); err == nil {
				t.Fatal("created over an existing table")
			}
		}
		name := fmt.Sprint("race_", i)
		exec(t, other, "BEGIN", "SELECT pg_advisory_xact_lock(hashtextextended('feedctl schema "+name+"', 0))", "CREATE SCHEMA "+name)
		done := make(chan error)
		go func() { done <- schema.Create(t.Context(), config, name) }()
		for waits := false; !waits; {
			const query = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted" +
				" AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
			if err := other.QueryRow(t.Context(), query).Scan(&waits); err != nil {
				t.Fatal(err)
			}
		}
		exec(t, other, "COMMIT")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewer(t *testing.T) {
	t.Parallel()
	config, conn := connect(t, pgtest.Start(t).URL("a"))
	if err := schema.Create(t.Context(), config, "a"); err != nil {
		t.Fatal(err)
	}
	exec(t, conn, "UPDATE a.schema_version SET version = 9999, min_read = 9999, min_write = 9999")
	if err := schema.Create(t.Context(), config, "a"); !errors.Is(err, storage.ErrLayout) {
		t.Errorf("Create of a newer schema: %v", err)
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	config, conn := connect(t, pgtest.StartOwn(t).URL("a"))
	exec(t, conn, "CREATE ROLE reader LOGIN", "CREATE ROLE maker LOGIN", "CREATE SCHEMA b AUTHORIZATION maker")
	reader, maker := config.Copy(), config.Copy()
	reader.User, maker.User = "reader", "maker"
	for _, name := range []string{"a", "b"} {
		if err := schema.Create(t.Context(), reader, name); !errors.Is(err, storage.ErrPermission) {
			t.Errorf("Create of schema %s without permission: %v", name, err)
		}
	}
	// The owner of the schema needs no rights on the database.
	if err := schema.Create(t.Context(), maker, "b"); err != nil {
		t.Error(err)
	}
	if err := schema.Create(t.Context(), reader, "b"); !errors.Is(err, storage.ErrPermission) {
		t.Errorf("Create without permission to read: %v", err)
	}
	exec(t, conn, "GRANT USAGE ON SCHEMA b TO reader", "GRANT SELECT ON b.schema_version TO reader")
	if err := schema.Create(t.Context(), reader, "b"); err != nil {
		t.Errorf("Create of an up-to-date schema: %v", err)
	}
}

func TestCut(t *testing.T) {
	for raw, want := range map[string]string{
		"postgres://h/d":                            "postgres://h/d feedctl",
		"postgres://h/d?schema=x_1":                 "postgres://h/d x_1",
		"postgres://h/d?host=%2Ftmp&schema=x&a=b":   "postgres://h/d?a=b&host=%2Ftmp x",
		"postgres://h/d?schema=":                    "",
		"postgres://h/d?schema=pg_x":                "",
		"postgres://h/d?schema=x%22":                "",
		"postgres://h/d?schema=X":                   "",
		"postgres://h/d?schema=1":                   "",
		"postgres://h/d?a;b":                        "",
		"postgres://h/d?schema=" + string(long(49)): "",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if rest, name, err := schema.Cut(u); err == nil {
			got = rest.String() + " " + name
		}
		if got != want {
			t.Errorf("Cut of %s: %q, want %q", raw, got, want)
		}
	}
}

func long(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return b
}
