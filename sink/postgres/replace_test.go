package postgres_test

import (
	"errors"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/postgres"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// testReplace replaces a table whose keys are numbers: "01.0" and "1" are the same key. A row whose new state
// goes into quarantine stays as it was.
func testReplace(t *testing.T, w *world) {
	k := w.open(t, postgres.Options{Table: "t", Columns: "id=@key:numeric,v=/v:int"})
	put := func(b consumer.Batch, key, body string) {
		t.Helper()
		e := &feed.Entity{ContentID: "<" + key + ">", ContentLocation: key, ContentType: "application/json", Body: []byte(body)}
		if err := b.Apply(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	b, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"1", "2.50", "3", "4", "5"} {
		put(b, key, `{"v":1}`)
	}
	if err := b.Commit(t.Context(), feed.Position{ContentID: "<before>"}); err != nil {
		t.Fatal(err)
	}
	during := feed.Position{Snapshot: &feed.SnapshotPosition{Index: "http://h/snapshots/t#1", Replaces: true}}
	for n, entities := range [][][2]string{
		{{"01.0", `{"v":2}`}, {"2.5", `{"v":2}`}},
		{{"3", `{"v":"no number"}`}, {"no key", `{"v":2}`}, {"4", `{"v":2}`}},
		{},
	} {
		b, err := k.BeginReplace(t.Context(), n == 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entities {
			put(b, e[0], e[1])
		}
		if n < 2 {
			err = b.Commit(t.Context(), during)
		} else {
			err = errors.Join(b.RemoveOthers(t.Context()), b.Commit(t.Context(), feed.Position{ContentID: "<after>"}))
		}
		if err != nil {
			t.Fatal(err)
		}
		if n == 2 && b.Removed() != 1 {
			t.Errorf("%d rows were removed", b.Removed())
		}
	}
	if got := w.value("SELECT string_agg(id || ' ' || v, ', ' ORDER BY id) FROM t"); got != "1 2, 2.50 2, 3 1, 4 2" {
		t.Errorf("the table has %s", got)
	}
	if got := w.value("SELECT count(*)::text FROM feedctl_seen"); got != "0" {
		t.Errorf("%s keys are left in feedctl_seen", got)
	}
}

// testReplaceShared: all rows of a table with two consumers are kept, since nothing shows which consumer
// wrote a row.
func testReplaceShared(t *testing.T, w *world) {
	first, second := w.open(t, postgres.Options{Table: "t", Name: "first"}), w.open(t, postgres.Options{Table: "t", Name: "second"})
	for key, k := range map[string]*postgres.Sink{"a": first, "b": second} {
		if err := sinktest.Write(t.Context(), k, &feed.Entity{ContentID: "<1>", ContentLocation: key, ContentType: "text/plain", Body: []byte(key)}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := first.BeginReplace(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.RemoveOthers(t.Context()), b.Commit(t.Context(), feed.Position{ContentID: "<after>"})); err != nil {
		t.Fatal(err)
	}
	if got := w.value("SELECT string_agg(key, ' ' ORDER BY key) || (SELECT count(*) FROM feedctl_seen) FROM t"); got != "a b0" || b.Removed() != 0 {
		t.Errorf("%d rows were removed, the table has %s", b.Removed(), got)
	}
}
