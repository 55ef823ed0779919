package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

// TestReplaceMany removes more rows than one statement does, from a table whose keys are not case-sensitive.
func TestReplaceMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	conn, err := zombiezen.OpenConn(path, zombiezen.OpenReadWrite|zombiezen.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteTransient(conn, `CREATE TABLE t (key TEXT NOT NULL PRIMARY KEY COLLATE NOCASE, content_type, last_modified, content_id, headers, body)`, nil); err != nil {
		t.Fatal(err)
	}
	k, ok := open(t, path, "t").(consumer.Replacer)
	if !ok {
		t.Fatal("the sink is not a Replacer")
	}
	var entities []*feed.Entity
	const rows = 25_000
	for n := range rows {
		entities = append(entities, entity(fmt.Sprintf("k%d", n), "text/plain", "x"))
	}
	write(t, k, entities...)
	b, err := k.BeginReplace(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"K7", "K24999", "new"} { // the keys of the rows keep their spelling
		if err := b.Apply(t.Context(), entity(key, "text/plain", "y")); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.RemoveOthers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context(), feed.Position{ContentID: "<2@example.com>"}); err != nil {
		t.Fatal(err)
	}
	if b.Removed() != rows-2 {
		t.Errorf("%d rows were removed", b.Removed())
	}
	if got := value(t, path, "SELECT group_concat(key || body) FROM (SELECT * FROM t ORDER BY key)"); got != "k24999y,k7y,newy" {
		t.Errorf("the table has %.200s", got)
	}
	if got := value(t, path, "SELECT count(*) FROM feedctl_seen"); got != "0" {
		t.Errorf("%s keys are left in feedctl_seen", got)
	}
}
