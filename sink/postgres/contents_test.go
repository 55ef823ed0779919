package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/postgres"
)

// contents returns the rows of a table with keys in a range, and the results of About and Position.
func (w *world) contents(t *testing.T, o postgres.Options, from, to string) ([]sink.Row, sink.About, feed.Position) {
	t.Helper()
	scheme, rest, _ := strings.Cut(w.url, ":")
	path, query, _ := strings.Cut(rest, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	params.Set("table", o.Table)
	if o.Columns != "" {
		params.Set("columns", o.Columns)
	}
	c, err := postgres.OpenContents(t.Context(), sink.Spec{Scheme: scheme, Path: path, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var rows []sink.Row
	for row, err := range c.Rows(t.Context(), from, to) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows, c.About(), c.Position()
}

// testContents: the server computes the sums that package digest defines.
func testContents(t *testing.T, w *world) {
	o := postgres.Options{Table: "zones"}
	k := w.open(t, o)
	states := []*feed.Entity{
		{ContentLocation: "B", ContentType: "application/json", Body: []byte(` {"b": 1.50}`)},
		{ContentLocation: "a", ContentType: "application/json", Body: []byte(`not JSON`)},
		{ContentLocation: "a%20b", ContentType: "text/plain", Body: []byte("\x00\xff")},
		{ContentLocation: "large", ContentType: "application/json", Body: []byte(`"` + strings.Repeat("x", 2<<20) + `"`)},
		{ContentLocation: "none", ContentType: "text/plain", ContentID: "<none>"},
		{ContentLocation: "\xc3\xa4", ContentID: "<last>", ContentType: "text/plain", Body: []byte("ä")},
	}
	write(t, k, states...)
	rows, about, at := w.contents(t, o, "", "")
	if !about.Ordered || !about.Whole || about.Shared || len(about.Remarks) > 0 || at.ContentID == "" {
		t.Errorf("about %+v at %+v", about, at)
	}
	for i, e := range states {
		if len(rows) != len(states) || rows[i].Key != e.Key() || rows[i].Sum != digest.SumOf(e.Key(), e.ContentType, e.Body) || rows[i].Version == "" {
			t.Fatalf("row %d is %+v, want that of %q", i, rows[i], e.Key())
		}
	}
	if part, _, _ := w.contents(t, o, "a", "large"); len(part) != 2 || part[0].Key != "a" || part[1].Key != "a b" {
		t.Errorf("from a to large there are %+v", part)
	}

	// A key that the type text cannot hold is out of order, and its row has no sum.
	write(t, k, &feed.Entity{ContentLocation: "a%00", ContentType: "text/plain", ContentID: "<odd>", Body: []byte("x")})
	rows, about, _ = w.contents(t, o, "a\x00", "b")
	if i := slices.IndexFunc(rows, func(r sink.Row) bool { return r.Key == "a\x00" }); i < 0 || about.Ordered || rows[i].Sum != (digest.Sum{}) || rows[i].ContentID != "<odd>" {
		t.Errorf("%+v, %+v", rows, about)
	}

	w.exec("ALTER TABLE zones ALTER body TYPE jsonb")
	rows, about, _ = w.contents(t, o, "", "")
	if about.Whole || len(about.Remarks) != 1 || rows[0].Sum != (digest.Sum{}) || rows[0].Version == "" {
		t.Errorf("with jsonb: %+v, %+v", rows[0], about)
	}
}

// testContentsOrder: if the collation of the key is not the order of bytes, the rows are not
// Ordered.
func testContentsOrder(t *testing.T, w *world) {
	icu := w.value(`SELECT quote_ident(collname) FROM pg_collation WHERE collprovider = 'i' AND collname LIKE 'en%' LIMIT 1`)
	if icu == "" {
		t.Skip("the server has no ICU")
	}
	w.exec(`CREATE TABLE zones (key text COLLATE ` + icu + ` PRIMARY KEY, content_type text NOT NULL, last_modified timestamptz NOT NULL,
		content_id text NOT NULL, headers json NOT NULL, body json, bytes bytea)`)
	o := postgres.Options{Table: "zones"}
	write(t, w.open(t, o), &feed.Entity{ContentLocation: "a", ContentType: "text/plain"}, &feed.Entity{ContentLocation: "B", ContentType: "text/plain"})
	rows, about, _ := w.contents(t, o, "", "")
	if about.Ordered || len(rows) != 2 || rows[0].Key != "B" {
		t.Errorf("%+v, %+v", rows, about)
	}
}

// testKeyCollation: in new tables, keys are sorted in byte order.
func testKeyCollation(t *testing.T, w *world) {
	for columns, key := range map[string]string{"": "key", "id=@key:text not null,n=/n:int": "id", "n=/n:int": "key"} {
		w.exec("DROP TABLE IF EXISTS zones, feedctl_positions")
		o := postgres.Options{Table: "zones", Columns: columns}
		k := w.open(t, o)
		for _, key := range []string{"a", "B", "ä", "Z"} {
			write(t, k, &feed.Entity{ContentLocation: feed.EncodeKey(key), ContentType: "application/json", Body: []byte("{}")})
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		rows, about, _ := w.contents(t, o, "", "")
		if !about.Ordered || len(rows) != 4 || rows[0].Key != "B" || rows[3].Key != "ä" {
			t.Errorf("columns %q: %+v, %+v", columns, rows, about)
		}
		collation := w.value(`SELECT c.collname FROM pg_attribute AS a JOIN pg_collation AS c ON c.oid = a.attcollation
			WHERE a.attrelid = 'zones'::regclass AND a.attname = '` + key + `'`)
		if collation != "C" {
			t.Errorf("columns %q: the collation of the key is %s", columns, collation)
		}
	}
}

// testContentsColumns: in a table with custom columns, only keys and Content-IDs are read.
func testContentsColumns(t *testing.T, w *world) {
	o := postgres.Options{Table: "zones", Columns: "id=@key:bigint,event=@content_id:text,n=/n:int"}
	k := w.open(t, o)
	write(t, k, &feed.Entity{ContentLocation: "10", ContentType: "application/json", ContentID: "<ten>", Body: []byte(`{"n":1}`)},
		&feed.Entity{ContentLocation: "9", ContentType: "application/json", ContentID: "<nine>", Body: []byte(`{"n":1}`)})
	rows, about, _ := w.contents(t, o, "", "")
	if about.Ordered || about.Whole || len(about.Remarks) != 1 || len(rows) != 2 || rows[0].Key != "10" || rows[0].ContentID != "<ten>" {
		t.Errorf("%+v, %+v", rows, about)
	}
	other := w.open(t, postgres.Options{Table: "zones", Columns: "id=@key:bigint,n=/n:int", Name: "other"})
	write(t, other, &feed.Entity{ContentLocation: "11", ContentType: "application/json", Body: []byte(`{"n":1}`)})
	o.Columns = "id=@key:bigint,n=/n:int"
	if rows, about, _ = w.contents(t, o, "", ""); len(about.Remarks) != 2 || !about.Shared || rows[0].ContentID != "" {
		t.Errorf("without Content-ID: %+v, %+v", rows, about)
	}
}

// testExpect: if an expected row has changed, the batch has no effect.
func testExpect(t *testing.T, w *world) {
	o := postgres.Options{Table: "zones"}
	k := w.open(t, o)
	for _, key := range []string{"a", "b", "c"} {
		write(t, k, &feed.Entity{ContentLocation: key, ContentType: "text/plain", Body: []byte("as published")})
	}
	rows, _, at := w.contents(t, o, "", "")
	attempt := func(expect map[string]*sink.Row) error {
		t.Helper()
		b, err := k.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for key, was := range expect {
			err := errors.Join(b.(interface {
				consumer.Batch
				guard
			}).Expect(t.Context(), key, was), b.Apply(t.Context(), &feed.Entity{ContentLocation: key, ContentType: "text/plain", Body: []byte("mended")}))
			if err != nil {
				t.Fatal(err)
			}
		}
		err = b.Commit(t.Context(), at)
		if _, e := k.Position(t.Context()); e != nil {
			t.Fatal(e)
		}
		return err
	}
	w.exec("UPDATE zones SET bytes = 'by hand' WHERE key = 'b'", "INSERT INTO zones VALUES ('d', '', now(), '', '{}')", "DELETE FROM zones WHERE key = 'c'")
	err := attempt(map[string]*sink.Row{"a": &rows[0], "b": &rows[1], "c": &rows[2], "d": nil, "e": nil})
	var changed *sink.ChangedError
	if !errors.As(err, &changed) || !slices.Equal(changed.Keys, []string{"b", "c", "d"}) {
		t.Errorf("%v, want b, c and d to have changed", err)
	}
	if n := w.value("SELECT count(*) FROM zones WHERE bytes = 'mended'"); n != "0" {
		t.Errorf("%s rows were written", n)
	}
	if err := attempt(map[string]*sink.Row{"a": &rows[0], "e": nil}); err != nil {
		t.Error(err)
	}
	if n := w.value("SELECT count(*) FROM zones WHERE bytes = 'mended'"); n != "2" {
		t.Errorf("%s rows were written, want 2", n)
	}
	// A row that was written again with the same contents counts as changed, too.
	if err := attempt(map[string]*sink.Row{"a": &rows[0]}); !errors.As(err, &changed) {
		t.Errorf("%v, want a to have changed", err)
	}
}

type guard interface {
	Expect(ctx context.Context, key string, was *sink.Row) error
}
