package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/task"
)

// A copied describes a copy of a feed, and the changes that a user may make to it.
type copied struct {
	name, into          string
	change, remove, add func(t *testing.T)
	note                string // what the output says
}

// TestReconcile compares and repairs copies of every kind, over HTTP and in the store.
func TestReconcile(t *testing.T) {
	store := "file:" + filepath.Join(t.TempDir(), "store") + "#zones"
	var lines strings.Builder
	for i := range 600 { // a state digest of two leaves
		fmt.Fprintf(&lines, `{"id":"zones/%03d","n":%d}`+"\n", i, i)
	}
	mustRun(t, lines.String(), "publish", store, "--key", "/id")
	url := serveStore(t, strings.TrimSuffix(store, "#zones")) + "/feeds/zones"
	dir := t.TempDir()
	database := pgtest.Start(t).URL("reconcile")
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	query := func(text string) func(*testing.T) {
		return func(t *testing.T) {
			if _, err := conn.Exec(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
	}
	lite := func(text string) func(*testing.T) {
		return func(t *testing.T) {
			db, err := sqlite.OpenConn(filepath.Join(dir, "zones.db"), sqlite.OpenReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := sqlitex.ExecuteTransient(db, text, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(name string) func(*testing.T) {
		return func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, "files", name), []byte("by hand"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	copies := []copied{
		{"sqlite", "sqlite:" + filepath.Join(dir, "zones.db") + "?table=zones",
			lite("UPDATE zones SET body = 'x' WHERE key = 'zones/007'"), lite("DELETE FROM zones WHERE key = 'zones/009'"),
			lite("INSERT INTO zones SELECT 'zzz', content_type, last_modified, content_id, headers, body FROM zones LIMIT 1"), ""},
		{"postgres", database + "&table=zones",
			query("UPDATE zones SET body = '{}' WHERE key = 'zones/007'"), query("DELETE FROM zones WHERE key = 'zones/009'"),
			query("INSERT INTO zones SELECT 'zzz', content_type, last_modified, content_id, headers, body, bytes FROM zones LIMIT 1"), ""},
		{"columns", database + "&table=typed&columns=id%3D%40key%3Atext,event%3D%40content_id%3Atext,n%3D/n%3Aint",
			query("UPDATE typed SET event = 'x' WHERE id = 'zones/007'"), query("DELETE FROM typed WHERE id = 'zones/009'"),
			query("INSERT INTO typed VALUES ('zzz', 'x', 1)"), "note: values of the columns are not compared"},
		{"dir", "dir:" + filepath.Join(dir, "files"),
			write("zones%2F007"), func(t *testing.T) {
				if err := os.Remove(filepath.Join(dir, "files", "zones%2F009")); err != nil {
					t.Fatal(err)
				}
			}, write("zzz"), "note: files"},
		copyInCouchDB(t),
	}
	if code, _, stderr := feedctl(t, "", "reconcile", url, "--into", copies[0].into); code != exit.NotFound || !strings.Contains(stderr, "feedctl digest") {
		t.Errorf("without a digest: %d\n%s", code, stderr)
	}
	mustRun(t, "", "digest", store)
	for _, c := range copies {
		t.Run(c.name, func(t *testing.T) { c.test(t, store, url) })
	}
}

func (c *copied) test(t *testing.T, store, url string) {
	reconcile := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := feedctl(t, "", append([]string{"reconcile"}, args...)...)
		if code != want {
			t.Fatalf("reconcile %q: exit status %d, want %d\n%s%s", args, code, want, stdout, stderr)
		}
		return stdout, stderr
	}
	if code, _, _ := feedctl(t, "", "reconcile", store, "--into", c.into, "--repair"); code == exit.OK || code == exit.Differs {
		t.Errorf("a sink that does not exist: exit status %d", code)
	}
	mustRun(t, "", "consume", store, "--into", c.into)
	for _, from := range []string{store, url} {
		if got, _ := reconcile(exit.OK, from, "--into", c.into); !strings.Contains(got, "600 rows compared: equal") {
			t.Errorf("printed %q", got)
		}
		c.change(t)
		c.remove(t)
		c.add(t)
		got, _ := reconcile(exit.Differs, from, "--into", c.into)
		if !strings.HasPrefix(got, "* zones/007\n+ zones/009\n- zzz\n") {
			t.Errorf("printed %q", got)
		}
		if !strings.Contains(got, c.note) {
			t.Errorf("printed %q", got)
		}
		if _, stderr := reconcile(exit.Error, from, "--into", c.into, "--repair", "--max-deletes", "0"); !strings.Contains(stderr, "would delete too many") {
			t.Errorf("printed %q", stderr)
		}
		reconcile(exit.Differs, from, "--into", c.into, "--prefix", "zz")
		reconcile(exit.OK, from, "--into", c.into, "--prefix", "zones/1")
		out, _ := reconcile(exit.OK, from, "--into", c.into, "--repair", "--json")
		var result task.Reconciled
		if err := json.Unmarshal([]byte(out), &result); err != nil {
			t.Fatal(err)
		}
		if r := result.Repair; r == nil || r.Written != 2 || r.Deleted != 1 || result.Remaining() != 0 || len(result.List) != 3 {
			t.Errorf("result is %s", out)
		}
		if got, _ := reconcile(exit.OK, from, "--into", c.into, "--all"); strings.Count(got, "= zones/") != 600 {
			t.Errorf("--all printed %d lines", strings.Count(got, "\n"))
		}
	}
}

// copyInCouchDB returns a copy in CouchDB.
func copyInCouchDB(t *testing.T) copied {
	database := couchtest.NewFake(t).NewDB(t)
	edit := func(id, old, new string) func(*testing.T) {
		return func(t *testing.T) {
			at := database + "/" + couchdb.DocPath(id)
			couchtest.Send(t, "PUT", at, strings.Replace(couchtest.Send(t, "GET", at, ""), old, new, 1))
		}
	}
	add := func(t *testing.T) {
		couchtest.Send(t, "PUT", database+"/zzz", `{"feedctl":{"contentId":"<x@example.com>"}}`)
	}
	return copied{"couchdb", "couchdb:" + database, edit("zones/007", `"contentId":"<`, `"contentId":"<x`), edit("zones/009", "{", `{"_deleted":true,`), add, "note: documents are compared by Content-ID"}
}

// TestReconcileWrong: wrong command lines are refused before anything is opened.
func TestReconcileWrong(t *testing.T) {
	for _, args := range [][]string{
		{"zones", "--into", "-"},
		{"zones", "--into", "jsonl:a.jsonl", "--repair"},
		{"zones", "--into", "kinto:http://127.0.0.1:1/v1/buckets/b"},
		{"zones", "--into", "sqlite:a.db", "--max-deletes", "many"},
		{"zones", "--into", "sqlite:a.db", "--max-deletes", "3"},
		{"zones", "--into", "sqlite:a.db", "--columns", "a=/a:int"},
		{"zones", "--into", "sqlite:a.db", "--key", "id"},
		{"zones"},
	} {
		args := slices.Concat([]string{"reconcile", "--store", "file:" + t.TempDir()}, args)
		if code, _, stderr := feedctl(t, "", args...); code != exit.Usage {
			t.Errorf("%q: exit status %d\n%s", args, code, stderr)
		}
	}
}
