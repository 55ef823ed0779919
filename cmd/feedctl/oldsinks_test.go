package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
)

// TestOldSinks resumes sinks that an earlier version filled from the feed in file-store-1:
// existing rows stay, and only new entities are added.
func TestOldSinks(t *testing.T) {
	dir := t.TempDir()
	store := "file:" + filepath.Join(dir, "store")
	if err := os.CopyFS(filepath.Join(dir, "store"), os.DirFS("testdata/file-store-1")); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("testdata/sqlite-sink-1.db")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "sink.db"), file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	dump, err := os.ReadFile("testdata/postgres-sink-1.sql")
	if err != nil {
		t.Fatal(err)
	}
	database := pgtest.Start(t).URL("sinks")
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec(t, conn, string(dump))

	sinks := [][]string{
		{"--into", "sqlite:" + dir + "/sink.db?table=things"},
		{"--into", database + "&table=things"},
		{"--into", database + "&table=typed", "--columns", "id=@key:text,n=/n:int not null,doc=:jsonb"},
	}
	for n, want := range []string{"consumed 0 entities", "consumed 2 entities", "consumed 0 entities"} {
		if n == 1 {
			lines := `{"id":"k8","n":8}` + "\n" + `{"id":"k1","n":9}` + "\n"
			if code, _, stderr := feedctl(t, lines, "publish", store+"#things", "-", "--key", "/id"); code != 0 {
				t.Fatal(stderr)
			}
		}
		for _, into := range sinks {
			code, stdout, stderr := feedctl(t, "", append([]string{"consume", store + "#things"}, into...)...)
			if code != 0 || !strings.Contains(stdout, want) {
				t.Fatalf("%s: exit status %d, want %q\n%s%s", into, code, want, stdout, stderr)
			}
		}
	}
	for _, query := range []string{
		"SELECT count(*) = 8 AND max(body->>'n') = '9' AND bool_and(content_id <> '') FROM things",
		"SELECT count(*) = 8 AND sum(n) = 44 AND sum((doc->>'n')::int) = 44 FROM typed",
		"SELECT count(*) = 2 AND min(commits) > 1 FROM feedctl_positions",
	} {
		var ok bool
		if err := conn.QueryRow(t.Context(), query).Scan(&ok); err != nil || !ok {
			t.Errorf("%s: %v, %v", query, ok, err)
		}
	}
}
