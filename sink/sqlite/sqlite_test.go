package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinktest"
	"github.com/feedctl/feedctl/sink/sqlite"
)

func TestConformance(t *testing.T) {
	sinktest.Run(t, options())
}

func file(dir string) string { return filepath.Join(dir, "out.db") }

func options() sinktest.Options {
	return sinktest.Options{
		Open: func(ctx context.Context, dir string) (consumer.Sink, error) {
			return sqlite.Open(ctx, file(dir), sqlite.DefaultTable)
		},
		Read: func(dir string) ([]sinktest.Record, error) { return readTable(file(dir), sqlite.DefaultTable) },
	}
}

func connect(path string) (*zombiezen.Conn, error) {
	return zombiezen.OpenConn(path, zombiezen.OpenReadWrite)
}

func readTable(path, table string) (records []sinktest.Record, err error) {
	conn, err := connect(path)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	query := fmt.Sprintf("SELECT key, content_type, body, last_modified, content_id, headers FROM %q", table)
	err = sqlitex.Execute(conn, query, &sqlitex.ExecOptions{ResultFunc: func(row *zombiezen.Stmt) error {
		r := sinktest.Record{Key: row.ColumnText(0), ContentType: row.ColumnText(1), ContentID: row.ColumnText(4)}
		r.Body = make([]byte, row.ColumnLen(2))
		row.ColumnBytes(2, r.Body)
		r.LastModified, err = time.Parse(time.RFC3339, row.ColumnText(3))
		records = append(records, r)
		return errors.Join(err, json.Unmarshal([]byte(row.ColumnText(5)), &records[len(records)-1].Header))
	}})
	return records, err
}

func value(t *testing.T, path, query string) (text string) {
	t.Helper()
	conn, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = sqlitex.ExecuteScript(conn, query, &sqlitex.ExecOptions{ResultFunc: func(row *zombiezen.Stmt) error {
		text = row.ColumnText(0)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func entity(key, contentType, body string) *feed.Entity {
	return &feed.Entity{
		ContentID:       "<1@example.com>",
		Operation:       feed.Put,
		LastModified:    time.Date(2026, 5, 1, 12, 0, 0, 999e6, time.FixedZone("", 7200)),
		ContentType:     contentType,
		ContentLocation: feed.EncodeKey(key),
		Body:            []byte(body),
	}
}

func write(t testing.TB, k consumer.Sink, entities ...*feed.Entity) {
	t.Helper()
	b, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entities {
		if err := b.Apply(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(t.Context(), feed.Position{ContentID: "<1@example.com>"}); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path, table string) consumer.Sink {
	t.Helper()
	k, err := sqlite.Open(t.Context(), path, table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// TestColumns queries the table as other programs do, while the sink is open.
func TestColumns(t *testing.T) {
	path := file(t.TempDir())
	k := open(t, path, "zones")
	write(t, k,
		entity("json", "application/json", `{"country": "DE"}`),
		entity("text", "text/plain", "a"),
		entity("nul", "text/plain", "a\x00b"),
		entity("latin", "text/plain", "\xfc"),
		entity("png", "image/png", "a"),
		entity("large", "text/plain", strings.Repeat("x", sink.MaxInline+1)))
	for query, want := range map[string]string{
		"SELECT json_extract(body, '$.country') FROM zones WHERE key = 'json'":                     "DE",
		"SELECT last_modified FROM zones WHERE key = 'json'":                                       "2026-05-01T10:00:00Z",
		"SELECT strftime('%s', last_modified) FROM zones WHERE key = 'json'":                       "1777629600",
		"SELECT group_concat(key || ' ' || typeof(body)) FROM (SELECT * FROM zones ORDER BY key)":  "json text,large blob,latin blob,nul blob,png blob,text text",
		"SELECT json_extract(position, '$.contentId') FROM feedctl_positions WHERE name = 'ZONES'": "<1@example.com>",
		"PRAGMA journal_mode": "wal",
	} {
		if got := value(t, path, query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestTables: two tables of one database are two sinks.
func TestTables(t *testing.T) {
	path := file(t.TempDir())
	a, b := open(t, path, "a"), open(t, path, "b")
	if _, err := sqlite.Open(t.Context(), path, "A"); !errors.Is(err, sink.ErrLocked) {
		t.Errorf("the same table, in upper case: %v", err)
	}
	batch, err := b.Begin(t.Context()) // does not block a
	if err != nil {
		t.Fatal(err)
	}
	write(t, a, entity("x", "text/plain", "1"))
	if err := batch.Commit(t.Context(), feed.Position{ContentID: "<2@example.com>"}); err != nil {
		t.Fatal(err)
	}
	for k, want := range map[consumer.Sink]string{a: "<1@example.com>", b: "<2@example.com>"} {
		if p, err := k.Position(t.Context()); err != nil || p.ContentID != want {
			t.Errorf("position is %v (%v), want %v", p, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	for _, table := range []string{"", "1", "a b", "a\"b", "a;b", "sqlite_x", "Feedctl_positions", "feedctl_x", strings.Repeat("a", 65), "ü"} {
		if _, err := sqlite.Open(t.Context(), file(dir), table); !errors.Is(err, sink.ErrSpec) {
			t.Errorf("table %q: %v", table, err)
		}
	}
	for name, c := range map[string]struct{ script, want string }{
		"columns":  {"CREATE TABLE t (key TEXT PRIMARY KEY, body)", "no column content_type"},
		"rows":     {"DELETE FROM feedctl_positions", "no position"},
		"position": {"UPDATE feedctl_positions SET position = '{'", "read position"},
		"unique":   {"DROP TABLE t; CREATE TABLE t (key, content_type, body, last_modified, content_id, headers)", "ON CONFLICT"},
	} {
		path := filepath.Join(t.TempDir(), name)
		if name == "columns" {
			conn, err := zombiezen.OpenConn(path, zombiezen.OpenReadWrite|zombiezen.OpenCreate)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		} else {
			k := open(t, path, "t")
			write(t, k, entity("a", "text/plain", "a"))
			k.Close()
		}
		value(t, path, c.script)
		if _, err := sqlite.Open(t.Context(), path, "t"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := sqlite.Open(t.Context(), dir, "t"); err == nil {
		t.Error("a directory was opened")
	}
}

// TestTooLarge: a body that is too large for a row is an error, and its batch is rolled back.
func TestTooLarge(t *testing.T) {
	path := file(t.TempDir())
	k := open(t, path, "t")
	for _, size := range []int64{1 << 32, 1<<31 - 1, 1_000_000_001, 1_000_000_000} {
		b, err := k.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Apply(t.Context(), entity("small", "text/plain", "a")); err != nil {
			t.Fatal(err)
		}
		e := entity("large", "text/plain", "")
		e.Stream, e.Size = zeros{}, size
		var large *sink.TooLargeError
		if err := b.Apply(t.Context(), e); !errors.As(err, &large) || large.Key != "large" || large.ContentID != e.ContentID || large.Size != size {
			t.Errorf("%d bytes: %v", size, err)
		}
		if err := b.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := value(t, path, "SELECT count(*) FROM t"); got != "0" {
		t.Errorf("%s rows were kept", got)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestBusy: a sink waits for other writers of the database until its context ends.
func TestBusy(t *testing.T) {
	path := file(t.TempDir())
	k := open(t, path, "t")
	conn, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteTransient(conn, "BEGIN IMMEDIATE", nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b, err := k.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { result <- b.Apply(ctx, entity("a", "text/plain", "a")) }()
	cancel()
	if err := <-result; err == nil {
		t.Error("an entity was applied while another writer held the database lock")
	}
	if err := b.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sqlitex.ExecuteTransient(conn, "ROLLBACK", nil); err != nil {
		t.Fatal(err)
	}
	write(t, k, entity("a", "text/plain", "a"))
}

// TestCancelDuringApply: the context ends while an entity is being applied. Applying takes
// microseconds; interrupting it would lose the whole batch.
func TestCancelDuringApply(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.db")
	k := open(t, path, "t")
	ctx, cancel := context.WithCancel(t.Context())
	b, err := k.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	one, two := entity("a", "application/json", "1"), entity("b", "application/json", "")
	two.Body, two.Stream, two.Size = nil, readFunc(func(p []byte) (int, error) { cancel(); return copy(p, "2"), io.EOF }), -1
	for _, e := range []*feed.Entity{one, two} {
		if err := b.Apply(ctx, e); err != nil {
			t.Fatalf("apply: %v", err)
		}
	}
	if err := b.Commit(ctx, feed.Position{ContentID: "2"}); err != nil {
		t.Fatal(err)
	}
	if got := value(t, path, "SELECT group_concat(key || '=' || body) FROM t"); got != "a=1,b=2" {
		t.Errorf("rows: %s", got)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func BenchmarkSink(b *testing.B) { sinktest.Benchmark(b, options()) }

// BenchmarkStraight inserts the rows of BenchmarkSink directly with the library, as a
// baseline.
func BenchmarkStraight(b *testing.B) {
	conn, err := zombiezen.OpenConn(file(b.TempDir()), zombiezen.OpenReadWrite|zombiezen.OpenCreate)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	script := `PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -8192;
		CREATE TABLE t (key TEXT NOT NULL PRIMARY KEY, content_type TEXT NOT NULL, body BLOB NOT NULL,
			last_modified TEXT NOT NULL, content_id TEXT NOT NULL, headers TEXT NOT NULL)`
	for statement := range strings.SplitSeq(script, ";") {
		if err := sqlitex.ExecuteTransient(conn, statement, nil); err != nil {
			b.Fatal(err)
		}
	}
	execute := func(statement string) {
		if err := sqlitex.Execute(conn, statement, nil); err != nil {
			b.Fatal(err)
		}
	}
	insert := conn.Prep("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)")
	entities := sinktest.BenchmarkEntities()
	bodies := make([]string, len(entities))
	for i, e := range entities {
		bodies[i] = string(e.Body)
	}
	b.SetBytes(int64(len(bodies[0])))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%len(entities) == 0 {
			if n > 0 {
				execute("COMMIT")
			}
			execute("BEGIN IMMEDIATE")
		}
		e := entities[n%len(entities)]
		insert.BindText(1, fmt.Sprintf("users/%012d", n))
		insert.BindText(2, e.ContentType)
		insert.BindText(3, bodies[n%len(entities)])
		insert.BindText(4, "2026-05-01T10:00:00Z")
		insert.BindText(5, e.ContentID)
		insert.BindText(6, "{}")
		if _, err := insert.Step(); err != nil {
			b.Fatal(err)
		}
		if err := insert.Reset(); err != nil {
			b.Fatal(err)
		}
	}
	execute("COMMIT")
}

// TestOpenErrors opens databases whose files cannot be created. The error includes the system's
// reason.
func TestOpenErrors(t *testing.T) {
	for dir, want := range map[string]error{filepath.Join(t.TempDir(), "none"): fs.ErrNotExist, "/dev/null": syscall.ENOTDIR} {
		_, err := sqlite.Open(t.Context(), filepath.Join(dir, "x.db"), "t")
		if !errors.Is(err, want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("in %s: %v", dir, err)
		}
	}
}
