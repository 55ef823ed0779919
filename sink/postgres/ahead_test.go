package postgres_test

import (
	"crypto/md5"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/postgres"
)

// many returns n entities of 1 KB with different keys, numbered from first. A few are not JSON, and
// a few have 1.5 MB.
func many(first, n int) (entities []*feed.Entity) {
	for i := first; i < first+n; i++ {
		e := entity(i, fmt.Sprintf("key %d\x00", i), `"`+strings.Repeat("x", 1000)+`"`)
		switch i % 250 {
		case 1:
			e.ContentType = "text/plain"
		case 2:
			e.Body = []byte(`"` + strings.Repeat("y", 1_500_000) + `"`)
		}
		entities = append(entities, e)
	}
	return entities
}

// testCopyNew: rows are copied straight into a table as long as their keys are new. The first batch
// with anything else is staged on the same connection, and so are all later batches.
func testCopyNew(t *testing.T, w *world) {
	const n = 600 // some rows are sent before the last ones are applied
	first, next := many(0, n), slices.Clip(many(n, n))
	old, sent, unsent := first[0].Key(), next[0].Key(), next[n-1].Key()
	for _, c := range []struct {
		name  string
		batch []*feed.Entity
		new   bool
	}{
		{"new keys", next, true},
		{"a key already in the table", append(next, entity(9001, old, `"again"`)), false},
		{"a key already in the table, first", append([]*feed.Entity{entity(9001, old, `"again"`)}, next...), false},
		{"a key twice", append(next, entity(9001, sent, `"again"`)), false},
		{"a key twice, not sent yet", append(next, entity(9001, unsent, `"again"`)), false},
		{"deletions", append(next, gone(9001, sent), gone(9002, old)), false},
		{"a deletion of a missing key", append(next, gone(9001, "none")), false},
		{"a patch", append(next, change(9001, sent, `{"a":1}`)), false},
	} {
		w.exec("DROP TABLE IF EXISTS t, feedctl_positions, statements", "CREATE TABLE statements (text text)")
		k := w.open(t, postgres.Options{Table: "t"})
		w.exec(`CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				INSERT INTO statements VALUES (split_part(current_query(), ' ', 1)); RETURN NULL;
			END $$`, "CREATE TRIGGER note AFTER INSERT ON t EXECUTE FUNCTION note()",
			"ALTER TABLE t ALTER content_type DROP NOT NULL, ALTER headers DROP NOT NULL") // a table made by a user may lack NOT NULL, too
		session := func() string {
			return w.value(`SELECT pid::text FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
				WHERE locktype = 'advisory' AND datname = current_database()`)
		}
		before, statements, want := session(), []string(nil), make(map[string]string)
		for _, batch := range [][]*feed.Entity{first, c.batch, many(2*n, n)} {
			w.exec("TRUNCATE statements")
			write(t, k, batch...)
			statements = append(statements, w.value("SELECT string_agg(text, ' ') FROM statements"))
			for _, e := range batch {
				switch contentType := e.ContentType; e.Operation {
				case feed.Delete:
					delete(want, e.Key())
				case feed.Patch:
					contentType = "application/json"
					fallthrough
				default:
					want[e.Key()] = fmt.Sprintf("%s %s %x", e.ContentID, contentType, md5.Sum(e.Body))
				}
			}
		}
		if s := map[bool]string{true: "COPY", false: "INSERT"}[c.new]; !slices.Equal(statements, []string{"COPY", s, s}) {
			t.Errorf("%s: statements %v", c.name, statements)
		}
		if after := session(); after != before {
			t.Errorf("%s: session %s had the lock, then %s", c.name, before, after)
		}
		got := make(map[string]string)
		for key, text := range w.pairs("SELECT key, content_id || ' ' || content_type || ' ' || md5(coalesce(convert_to(body::text, 'UTF8'), bytes)) FROM t") {
			got[unescape(key)] = text
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: rows (-want +got):\n%s", c.name, diff)
		}
		k.Close()
	}
}
