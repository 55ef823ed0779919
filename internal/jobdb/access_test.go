package jobdb_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
)

// TestAccess opens databases that do not exist or are empty, and then tests the kinds of access to
// databases with tables.
func TestAccess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{
		"no file":    "sqlite:" + filepath.Join(dir, "none.db"),
		"empty file": "sqlite:" + empty,
		"PostgreSQL": pgtest.Start(t).URL("access"),
	} {
		for _, access := range []jobdb.Access{jobdb.Read, jobdb.Write, jobdb.Read} {
			if _, err := jobdb.Open(t.Context(), url, jobdb.Options{Access: access}); !errors.Is(err, jobdb.ErrNone) {
				t.Errorf("%s: open with access %d: %v", name, access, err)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("the directory has %v, want only the empty file", entries)
	}
	if info, err := os.Stat(empty); err != nil || info.Size() > 0 {
		t.Errorf("the empty file: %v, %v", info, err)
	}
	conn, err := pgx.Connect(t.Context(), pgtest.Start(t).URL("access"))
	if err != nil {
		t.Fatal(err)
	}
	var schemas int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = 'feedctl_jobs'").Scan(&schemas); err != nil || schemas > 0 {
		t.Errorf("%d schemas, %v", schemas, err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	for _, url := range []string{"sqlite:" + empty, pgtest.Start(t).URL("access")} {
		for _, open := range []struct {
			access jobdb.Access
			writes bool
		}{{jobdb.Migrate, true}, {jobdb.Read, false}, {jobdb.Write, true}} {
			db, err := jobdb.Open(t.Context(), url, jobdb.Options{Access: open.access})
			if err != nil {
				t.Fatal(err)
			}
			var version int
			read := func(tx jobdb.Tx) error {
				_, err := jobdb.One(t.Context(), tx, "SELECT version FROM @version @lock", nil, &version)
				return err
			}
			if err := db.View(t.Context(), read); err != nil || version == 0 {
				t.Errorf("access %d: version %d, %v", open.access, version, err)
			}
			write := func(tx jobdb.Tx) error {
				_, err := tx.Exec(t.Context(), "UPDATE @version SET version = version")
				return err
			}
			if err := db.Begin(t.Context(), write); (err == nil) != open.writes {
				t.Errorf("%s: writing with access %d: %v", url[:6], open.access, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]error{1: jobdb.ErrOld, 2: nil, 3: jobdb.ErrVersion} {
		if err := jobdb.Compare(version, 2); !errors.Is(err, want) {
			t.Errorf("Compare(%d, 2) = %v", version, err)
		}
	}
}
