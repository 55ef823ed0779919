package postgres_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/patch"
	"github.com/feedctl/feedctl/sink/postgres"
)

// testBackfill fills a table with custom columns newest first. Keys are compared as values of their
// column.
func testBackfill(t *testing.T, w *world) {
	k := w.open(t, postgres.Options{Table: "t", Columns: "id=@key:bigint,v=/v:int,doc=:jsonb"})
	begin := func() consumer.Backfill {
		t.Helper()
		b, err := k.BeginBackfill(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	apply := func(b consumer.Backfill, operation feed.Operation, key, body string) {
		t.Helper()
		e := &feed.Entity{ContentID: "<" + key + ">", Operation: operation, ContentLocation: key, ContentType: "application/json", Body: []byte(body)}
		if operation == feed.Patch {
			e.ContentType = patch.Merge
		}
		if err := b.Apply(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	tail := feed.Position{ContentID: "<head>", Tail: &feed.TailPosition{ContentID: "<tail>"}}

	b := begin()
	apply(b, feed.Put, "1", `{"v":1}`)
	if err := b.Hold(t.Context(), "2", -1, []byte(`{"v":3}`)); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context(), tail); err != nil {
		t.Fatal(err)
	}
	b = begin()
	got, err := b.Recall(t.Context(), []string{"01", "no number", "2", "3"})
	if diff := cmp.Diff([]consumer.Recall{{Known: true}, {}, {Held: 1}, {}}, got); diff != "" || err != nil {
		t.Errorf("recalled (-want +got):\n%s%v", diff, err)
	}
	apply(b, feed.Put, "2", `{"v":2,"w":2}`)
	err = b.Release(t.Context(), "2", func(held []byte) error {
		apply(b, feed.Patch, "2", string(held))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	apply(b, feed.Put, "no number", `{"v":5}`)
	if err := b.Commit(t.Context(), tail); err != nil {
		t.Fatal(err)
	}
	if got := w.value("SELECT string_agg(id || ' ' || v || ' ' || doc, ', ' ORDER BY id) FROM t"); got != `1 1 {"v": 1}, 2 3 {"v": 3, "w": 2}` {
		t.Errorf("the table has %s", got)
	}
	if got := w.value("SELECT key FROM feedctl_quarantine"); got != "no number" {
		t.Errorf("quarantine has %s", got)
	}

	b = begin()
	apply(b, feed.Put, "4", `{"v":4}`)
	apply(b, feed.Put, "04", `{"v":5}`)
	if err := b.Commit(t.Context(), tail); err == nil || !strings.Contains(err.Error(), "spellings") {
		t.Errorf("commit of one key in two spellings: %v", err)
	}
	if at, err := k.Position(t.Context()); err != nil || at.Tail == nil {
		t.Fatalf("position %+v: %v", at, err)
	}
	b = begin()
	if err := b.Commit(t.Context(), feed.Position{ContentID: "<end>"}); err != nil {
		t.Fatal(err)
	}
	if got := w.value("SELECT count(*) FROM feedctl_notes"); got != "0" {
		t.Errorf("%s notes are left", got)
	}
}
