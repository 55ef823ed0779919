package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/sink/postgres"
)

// A world is a database with a connection that observes the sinks.
type world struct {
	t      *testing.T
	server *pgtest.TestServer
	url    string
	conn   *pgx.Conn
}

func newWorld(t *testing.T, server *pgtest.TestServer, database string) *world {
	t.Helper()
	w := &world{t: t, server: server, url: server.URL(database)}
	w.connect()
	w.exec("SET timezone = 'UTC'")
	return w
}

// TestSink runs the tests that do not disturb the server, each in its own database.
func TestSink(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *world)
	}{
		{"Types", testTypes},
		{"Quarantine", testQuarantine},
		{"SameKey", testSameKey},
		{"Strict", testStrict},
		{"PatchColumns", testPatchColumns},
		{"PatchRefused", testPatchRefused},
		{"PatchOneByOne", testPatchOneByOne},
		{"PatchSameKey", testPatchSameKey},
		{"ColumnsRefused", testColumnsRefused},
		{"OwnTables", testOwnTables},
		{"TriggerRefuses", testTriggerRefuses},
		{"Unique", testUnique},
		{"WholeRefused", testWholeRefused},
		{"Settings", testSettings},
		{"Role", testRole},
		{"QuarantineFaults", testQuarantineFaults},
		{"ServerErrors", testServerErrors},
		{"Lost", testLost},
		{"Silent", testSilent},
		{"TakenOver", testTakenOver},
		{"OneConnection", testOneConnection},
		{"Pool", testPool},
		{"Names", testNames},
		{"Refused", testRefused},
		{"Spec", testSpec},
		{"TooLarge", testTooLarge},
		{"Spill", testSpill},
		{"Interrupted", testInterrupted},
		{"Backfill", testBackfill},
		{"Replace", testReplace},
		{"ReplaceShared", testReplaceShared},
		{"CopyNew", testCopyNew},
		{"Contents", testContents},
		{"ContentsOrder", testContentsOrder},
		{"ContentsColumns", testContentsColumns},
		{"KeyCollation", testKeyCollation},
		{"Expect", testExpect},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, newWorld(t, server, c.name))
		})
	}
}

func (w *world) connect() {
	w.t.Helper()
	conn, err := connect(w.t.Context(), w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	w.conn = conn
	w.t.Cleanup(func() { conn.Close(context.Background()) })
}

func (w *world) open(t *testing.T, o postgres.Options) *postgres.Sink {
	t.Helper()
	k, err := postgres.Open(t.Context(), w.url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func (w *world) exec(statements ...string) {
	w.t.Helper()
	for _, sql := range statements {
		if _, err := w.conn.Exec(w.t.Context(), sql); err != nil {
			w.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// value returns the result of a query as text; "" if there is no row or the value is null.
func (w *world) value(query string) string {
	w.t.Helper()
	var text *string
	err := w.conn.QueryRow(w.t.Context(), query).Scan(&text)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		w.t.Fatalf("%s: %v", query, err)
	}
	if text == nil {
		return ""
	}
	return *text
}

// pairs returns the rows of a query with two columns.
func (w *world) pairs(query string) map[string]string {
	w.t.Helper()
	rows, err := w.conn.Query(w.t.Context(), query)
	if err != nil {
		w.t.Fatal(err)
	}
	got := map[string]string{}
	var a, b string
	if _, err := pgx.ForEachRow(rows, []any{&a, &b}, func() error { got[a] = b; return nil }); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return got
}
