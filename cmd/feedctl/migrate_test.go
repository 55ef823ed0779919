package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/pgtest"
)

// old returns a database with a store of the first version, which must remain usable, and a
// connection to it. The dump has a feed "zones" of three entities on two pages, and a
// snapshot of it.
func old(t *testing.T, server *pgtest.TestServer, name string) (database string, conn *pgx.Conn) {
	t.Helper()
	dump, err := os.ReadFile("testdata/postgres-version-4.sql")
	if err != nil {
		t.Fatal(err)
	}
	database = server.URL(name)
	conn, err = pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	exec(t, conn, string(dump))
	return database, conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

// columns returns the catalog's description of the schema, and its version.
func columns(t *testing.T, conn *pgx.Conn) (all []string) {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'feedctl'
		UNION SELECT proname FROM pg_proc WHERE pronamespace = 'feedctl'::regnamespace
		UNION SELECT to_jsonb(v)::text FROM feedctl.schema_version AS v ORDER BY 1`)
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestOldSchema reads, writes and deletes in a store created by another version, without
// changing its schema. Reading requires only read permission.
func TestOldSchema(t *testing.T) {
	database, conn := old(t, pgtest.StartOwn(t), "a")
	before := columns(t, conn)
	exec(t, conn, `CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA feedctl TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA feedctl TO reader`)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User("reader")
	for _, store := range []string{u.String(), database} {
		for _, args := range [][]string{{"inspect", store + "#zones"}, {"verify", store + "#zones"}, {"snapshot", "list", store + "#zones"}} {
			mustRun(t, "", args...)
		}
		if got := mustRun(t, "", "tail", store+"#zones", "--from", "beginning", "--follow=false"); strings.Count(got, "\n") != 3 {
			t.Errorf("tail: %s", got)
		}
	}
	mustRun(t, "", "doctor", database)
	mustRun(t, zones, "publish", database+"#zones", "--key", "/name", "--max-page-entities", "2")
	mustRun(t, "", "verify", database+"#zones")
	mustRun(t, "", "outbox", "run", "--db", database, "--feed", "orders", "--once")
	mustRun(t, "", "prune", database+"#zones", "--keep-pages", "1")
	if diff := cmp.Diff(before, columns(t, conn)); diff != "" {
		t.Errorf("the schema was changed:\n%s", diff)
	}
}

// TestMigrate: a schema that is too old to be written can be read. The error names the
// command to migrate it.
func TestMigrate(t *testing.T) {
	database, conn := old(t, pgtest.Start(t), "a")
	before := columns(t, conn)
	exec(t, conn, `
		DROP PROCEDURE feedctl.create_object; DROP PROCEDURE feedctl.append_object;
		DROP PROCEDURE feedctl.replace_object; DROP PROCEDURE feedctl.add_chunks;
		UPDATE feedctl.schema_version SET version = 3`)
	mustRun(t, "", "verify", database+"#zones")
	for _, args := range [][]string{
		{"publish", database + "#zones", "--key", "/name"}, {"outbox", "status", "--db", database},
	} {
		code, _, stderr := feedctl(t, zones, args...)
		if code != exit.Error || !strings.Contains(stderr, `has version 3`) || !strings.Contains(stderr, `run "feedctl migrate"`) {
			t.Errorf("%s: exit status %d: %s", args[0], code, stderr)
		}
	}
	if got := mustRun(t, "", "migrate", database, "--dry-run"); !strings.Contains(got, "from version 3 to 4") || !strings.Contains(got, "CREATE PROCEDURE feedctl.create_object") {
		t.Errorf("dry run: %s", got)
	}
	if got := mustRun(t, "", "migrate", database, "--json"); !strings.Contains(got, `"from":3,"to":4,"steps":[{"version":4,"name":"004_write.sql"}]`) {
		t.Errorf("migrate: %s", got)
	}
	if got := mustRun(t, "", "migrate", database); !strings.Contains(got, "needs no migration") {
		t.Errorf("migrate again: %s", got)
	}
	mustRun(t, zones, "publish", database+"#zones", "--key", "/name")
	before = append(before, "schema_version.min_read", "schema_version.min_write", `{"version": 4, "min_read": 4, "min_write": 4}`)
	before = slices.DeleteFunc(before, func(line string) bool { return line == `{"version": 4}` })
	after := columns(t, conn)
	slices.Sort(before)
	slices.Sort(after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the schema differs:\n%s", diff)
	}
}

// TestNewerSchema: the error for a schema migrated by a newer version says what this
// version can do.
func TestNewerSchema(t *testing.T) {
	database, conn := old(t, pgtest.Start(t), "a")
	exec(t, conn, `ALTER TABLE feedctl.schema_version ADD min_read int, ADD min_write int`)
	for _, test := range []struct {
		version, read, write  int
		mayRead, mayWrite     int
		readError, writeError string
	}{
		{5, 4, 4, exit.OK, exit.OK, "", ""},
		{6, 4, 5, exit.OK, exit.Error, "", "must know version 5"},
		{9, 8, 9, exit.Error, exit.Error, "must know version 8", "must know version 9"},
	} {
		exec(t, conn, fmt.Sprintf("UPDATE feedctl.schema_version SET version = %d, min_read = %d, min_write = %d", test.version, test.read, test.write))
		code, _, stderr := feedctl(t, "", "verify", database+"#zones")
		if code != test.mayRead || !strings.Contains(stderr, test.readError) {
			t.Errorf("read version %d: exit status %d: %s", test.version, code, stderr)
		}
		code, _, stderr = feedctl(t, zones, "publish", database+"#zones", "--key", "/name")
		if code != test.mayWrite || !strings.Contains(stderr, test.writeError) {
			t.Errorf("write version %d: exit status %d: %s", test.version, code, stderr)
		}
	}
}
