package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/pgtest"
)

// shop returns the URL of a new database, and a function that executes SQL in it.
func shop(t *testing.T) (database string, exec func(sql string)) {
	t.Helper()
	database = pgtest.Start(t).URL("shop")
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	return database, func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// TestOutboxCapturedTables: status names the problem of a captured table, and the remedy.
func TestOutboxCapturedTables(t *testing.T) {
	database, exec := shop(t)
	outbox := func(want int, args ...string) string {
		t.Helper()
		code, stdout, stderr := feedctl(t, "", append([]string{"outbox", args[0], "--db", database}, args[1:]...)...)
		if code != want {
			t.Errorf("%q: exit status %d, want %d\n%s%s", args, code, want, stdout, stderr)
		}
		return stdout + stderr
	}
	exec("CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)")
	outbox(exit.OK, "attach", "--table", "parts", "--feed", "products")
	status := outbox(exit.OK, "status")
	if !strings.Contains(status, "products") || strings.Contains(status, "parts") {
		t.Errorf("status lacks products, or has parts: %s", status)
	}
	exec("CREATE TABLE parts_1 PARTITION OF parts DEFAULT")
	for _, want := range []string{"TRUNCATE of public.parts_1", "attach public.parts again"} {
		if got := outbox(exit.OK, "status"); !strings.Contains(got, want) {
			t.Errorf("status without %q: %s", want, got)
		}
	}
	if got := outbox(exit.OK, "status", "--json"); !strings.Contains(strings.Join(strings.Fields(got), ""), `"table":{"name":"public.parts","uncovered":["public.parts_1"]}`) {
		t.Error(got)
	}
	outbox(exit.OK, "attach", "--table", "parts", "--feed", "products")
	if got := outbox(exit.OK, "status"); got != status {
		t.Error(got)
	}
	exec("INSERT INTO parts VALUES (1), (2)")
	if got := outbox(exit.OK, "run", "--all", "--once"); !strings.Contains(got, "moved 2 entities to products\n") {
		t.Error(got)
	}
	exec("DROP TABLE parts")
	if got := outbox(exit.OK, "status"); !strings.Contains(got, `"feedctl outbox detach --feed products"`) {
		t.Error(got)
	}
	outbox(exit.OK, "detach", "--feed", "products")
	outbox(exit.NotFound, "detach", "--feed", "products")
	outbox(exit.NotFound, "detach", "--table", "parts")
	outbox(exit.Usage, "detach", "--feed", "a b")
	outbox(exit.Usage, "detach", "--feed", "products", "--table", "parts")
	outbox(exit.Usage, "detach")
}

// A patientWriter records its input, and calls done when a command begins to wait.
type patientWriter struct {
	bytes.Buffer
	done func()
}

func (w *patientWriter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("retrying")) {
		w.done()
	}
	return w.Buffer.Write(p)
}

// TestNoDatabase: an unreachable server is not reported as missing; the command waits for it.
func TestNoDatabase(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, url := range []string{"postgres://ann:secret@/d?host=" + t.TempDir(), "postgres://ann:secret@127.0.0.1:1/d"} {
		for _, args := range [][]string{
			{"outbox", "status", "--db", url},
			{"outbox", "run", "--all", "--once", "--db", url},
			{"outbox", "attach", "--table", "t", "--feed", "f", "--db", url},
			{"outbox", "detach", "--feed", "f", "--db", url},
			{"inspect", url + "#f"},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			stderr := &patientWriter{done: cancel}
			code := run(ctx, args, app.Streams{In: strings.NewReader(""), Out: io.Discard, Err: stderr})
			if code != exit.Error || ctx.Err() == nil || strings.Contains(stderr.String(), "secret") || !strings.Contains(stderr.String(), "dial") {
				t.Errorf("%q: exit status %d, want %d\n%s", args, code, exit.Error, stderr)
			}
			cancel()
		}
	}
}
