package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/patch"
	"github.com/feedctl/feedctl/sink/postgres"
)

// testTypes projects values of many types, including unsuitable ones.
func testTypes(t *testing.T, w *world) {
	w.exec("CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TYPE pair AS (a int, b text)",
		"CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100)", "CREATE DOMAIN doc AS jsonb")
	cases := []struct{ typ, value, want string }{ // want is "" if the value is unsuitable
		{"bigint", `9223372036854775807`, "9223372036854775807"},
		{"bigint", `9223372036854775808`, ""},
		{"bigint", `"17"`, "17"},
		{"bigint", `1.5`, ""},
		{"bigint", `"a"`, ""},
		{"bigint", `true`, ""},
		{"bigint", `{}`, ""},
		{"bigint", `null`, "NULL"},
		{"smallint", `40000`, ""},
		{"numeric", `12345678901234567890.1234567890`, "12345678901234567890.1234567890"},
		{"numeric(4,2)", `1.5`, "1.50"},
		{"numeric(4,2)", `100`, ""},
		{"double precision", `1e400`, ""},
		{"real", `0.1`, "0.1"},
		{"boolean", `true`, "true"},
		{"boolean", `"maybe"`, ""},
		{"text", `"a\u00e9\n"`, "aé\n"},
		{"text", `"a\u0000"`, ""},
		{"text", `"\ud83d\ude00"`, "\U0001f600"},
		{"text", `"a\ud83d"`, ""},
		{"text", `1.50`, "1.50"},
		{"text", `["a"]`, ""},
		{"varchar(3)", `"abc"`, "abc"},
		{"varchar(3)", `"abcd"`, ""},
		{"char(3)", `"ab"`, "ab"},
		{"char(3)", `"abcd"`, ""},
		{"bit(3)", `"101"`, "101"},
		{"bit(3)", `"1010"`, ""},
		{"uuid", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		{"uuid", `"x"`, ""},
		{"date", `"2026-05-01"`, "2026-05-01"},
		{"date", `"2026-02-30"`, ""},
		{"timestamp with time zone", `"2026-05-01T12:00:00.123456+02:00"`, "2026-05-01 10:00:00.123456+00"},
		{"bytea", `"\\x00ff"`, "\\x00ff"},
		{"json", `{"b": 1.50, "a":"\u0000"}`, `{"b": 1.50, "a":"\u0000"}`},
		{"json", `null`, `null`},
		{"jsonb", `{"b": 1.50,"a":"x"}`, `{"a": "x", "b": 1.50}`},
		{"jsonb", `"\u0000"`, ""},
		{"json", `"\ud83d"`, `"\ud83d"`},
		{"jsonb", `"\ud83d"`, ""},
		{"jsonb", strings.Repeat("[", 1023) + strings.Repeat("]", 1023), strings.Repeat("[", 1023) + strings.Repeat("]", 1023)},
		{"jsonb", strings.Repeat("[", 1024) + strings.Repeat("]", 1024), ""}, // nested too deeply
		{"int[]", `[1, null,3]`, "{1,NULL,3}"},
		{"int[]", `[[1,2],[3,4]]`, "{{1,2},{3,4}}"},
		{"int[]", `[1,"a"]`, ""},
		{"int[]", `5`, ""},
		{"int[]", `[[[[[[[1]]]]]]]`, ""},
		{"text[]", `["\u0000"]`, ""},
		{"text[]", `["a,b","\"q\""]`, `{"a,b","\"q\""}`},
		{"pair", `{"a":1,"b":"x y"}`, `(1,"x y")`},
		{"mood", `"sad"`, "sad"},
		{"mood", `"glad"`, ""},
		{"public.mood", `"ok"`, "ok"},
		{"percent", `100`, "100"},
		{"percent", `101`, ""},
		{"doc", `[1]`, "[1]"},
		{"inet", `"10.0.0.1/8"`, "10.0.0.1/8"},
	}
	columns := map[string]string{} // by type
	var list []string
	for _, c := range cases {
		if columns[c.typ] == "" {
			columns[c.typ] = fmt.Sprintf("v%d", len(list))
			list = append(list, fmt.Sprintf("v%d=/v%[1]d:%s", len(list), c.typ))
		}
	}
	for _, what := range []string{"a new table", "an existing table"} {
		k := w.open(t, postgres.Options{Table: "t", Columns: strings.Join(list, ",")})
		var entities []*feed.Entity
		for i, c := range cases {
			entities = append(entities, entity(i, fmt.Sprint(i), fmt.Sprintf(`{%q:%s}`, columns[c.typ], c.value)))
		}
		write(t, k, entities...)
		k.Close()
		for i, c := range cases {
			got := w.value(fmt.Sprintf("SELECT coalesce(%s::text, 'NULL') FROM t WHERE key = '%d'", columns[c.typ], i))
			reasons := w.value(fmt.Sprintf("SELECT string_agg(content_id || ' ' || reason, '|') FROM feedctl_quarantine WHERE key = '%d'", i))
			switch {
			case c.want != "" && (got != c.want || reasons != ""):
				t.Errorf("%s: %s as %s: got %q (%s), want %q", what, c.value, c.typ, got, reasons, c.want)
			case c.want == "" && (got != "" || !strings.HasPrefix(reasons, fmt.Sprintf("<%d@example.com> ", i))):
				t.Errorf("%s: %s as %s: got %q (%q), want none", what, c.value, c.typ, got, reasons)
			}
		}
		w.exec("DELETE FROM t", "DELETE FROM feedctl_quarantine")
	}
}

// testQuarantine applies feeds with many unsuitable values in batches of several sizes. The
// table must equal the result of applying the entities one by one.
func testQuarantine(t *testing.T, w *world) {
	w.exec("CREATE TABLE parents (id int PRIMARY KEY)", "INSERT INTO parents SELECT generate_series(0, 6)")
	var entities []*feed.Entity
	want := map[string]string{}
	for n := range 300 {
		key := fmt.Sprint(n * 7 % 23)
		value := n * 5 % 9 // the parents 7 and 8 do not exist
		e := entity(n, key, fmt.Sprintf(`{"v":%d,"pad":"%02000d"}`, value, n))
		switch {
		case n%11 == 0:
			e = entity(n, key, "no JSON")
		case n%13 == 0:
			e = entity(n, key, `{"v":"x"}`)
		case n%7 == 0:
			e.Operation, e.Body = feed.Delete, nil
			delete(want, key)
		case value < 7:
			want[key] = fmt.Sprint(value)
		}
		entities = append(entities, e)
	}
	for _, size := range []int{1, 7, 50, 300} {
		table := fmt.Sprintf("t_%d", size)
		w.exec("CREATE TABLE " + table + " (id bigint PRIMARY KEY, v int REFERENCES parents DEFERRABLE INITIALLY DEFERRED, pad text, added text DEFAULT 'x')")
		k := w.open(t, postgres.Options{Table: table, Columns: "id=@key:bigint,v=/v:int,pad=/pad:text"})
		for at := 0; at < len(entities); at += size {
			write(t, k, entities[at:min(at+size, len(entities))]...)
		}
		if diff := cmp.Diff(want, w.pairs("SELECT id::text, v::text FROM "+table)); diff != "" {
			t.Errorf("batches of %d (-want +got):\n%s", size, diff)
		}
		if n := w.value("SELECT count(*)::text FROM feedctl_quarantine WHERE table_name = '" + table + "'"); n != fmt.Sprint(k.Rejected().Quarantined) || n == "0" {
			t.Errorf("batches of %d: %s in quarantine, counted %d", size, n, k.Rejected().Quarantined)
		}
		k.Close()
	}
	if a, b := w.value("SELECT count(*)::text FROM feedctl_quarantine WHERE table_name = 't_1'"), w.value("SELECT string_agg(content_id, ' ' ORDER BY id) FROM feedctl_quarantine WHERE table_name = 't_1' AND content_id < '<2'"); a == "0" || !strings.HasPrefix(b, "<0@example.com> <11@") {
		t.Errorf("quarantine has %s rows, first %q", a, b)
	}
}

// testQuarantineFaults makes each step of a batch with unsuitable values fail. Rows, position and
// quarantine must remain consistent.
func testQuarantineFaults(t *testing.T, w *world) {
	failing := errors.New("injected")
	o := postgres.Options{Table: "t", Columns: "v=/v:int not null,doc=:jsonb"}
	entities := []*feed.Entity{
		entity(1, "a", `{"v":0}`), entity(2, "b", `{"v":"x"}`), entity(3, "c", "no JSON"), entity(4, "d", `{"v":4}`), change(5, "a", `{"v":1}`),
	}
	want := map[string]string{"a": "1", "d": "4"}
	for step, failed := 1, true; failed; step++ {
		w.exec("DROP TABLE IF EXISTS t, feedctl_positions, feedctl_quarantine")
		failed = false
		steps := 0
		k, err := postgres.OpenFaulty(t.Context(), w.url, o, func() error {
			if steps++; steps == step {
				failed = true
				return failing
			}
			return nil
		})
		if err == nil {
			if err = tryWrite(t.Context(), k, entities...); err != nil && !errors.Is(err, failing) {
				t.Fatalf("step %d: %v", step, err)
			}
			k.Close()
		}
		k = w.open(t, o)
		p, err := k.Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if p.ContentID == "" {
			if n := w.value("SELECT ((SELECT count(*) FROM t) + (SELECT count(*) FROM feedctl_quarantine))::text"); n != "0" {
				t.Errorf("step %d: %s rows but no position", step, n)
			}
			write(t, k, entities...)
		}
		k.Close()
		if diff := cmp.Diff(want, w.pairs("SELECT key, v::text FROM t")); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", step, diff)
		}
		if got := w.value("SELECT string_agg(content_id, ' ' ORDER BY id) FROM feedctl_quarantine"); got != "<2@example.com> <3@example.com>" {
			t.Errorf("step %d: quarantine has %s", step, got)
		}
	}
}

// testSameKey applies different keys that are equal as values of the column.
func testSameKey(t *testing.T, w *world) {
	k := w.open(t, postgres.Options{Table: "t", Columns: "id=@key:int,v=/v:int,at=@last_modified:timestamptz,event=@content_id:text"})
	write(t, k, entity(1, "1", `{"v":1}`), entity(2, "01", `{"v":2}`), entity(3, "2", `{"v":3}`), entity(4, "x", `{"v":4}`))
	if diff := cmp.Diff(map[string]string{"1": "2 <2@example.com>", "2": "3 <3@example.com>"}, w.pairs("SELECT id::text, v || ' ' || event FROM t")); diff != "" {
		t.Error(diff)
	}
	if k.Rejected().Quarantined != 1 {
		t.Errorf("%d in quarantine", k.Rejected().Quarantined)
	}
	// Changes and deletions must be quarantined, too.
	write(t, k, gone(5, "2"), entity(6, "02", `{"v":6}`), entity(7, "1", `{"v":7}`), entity(8, "3", `{"v":8}`), gone(9, "01"), gone(10, "03"))
	if diff := cmp.Diff(map[string]string{"2": "6"}, w.pairs("SELECT id::text, v::text FROM t")); diff != "" {
		t.Error(diff)
	}
}

func testStrict(t *testing.T, w *world) {
	k := w.open(t, postgres.Options{Table: "t", Columns: "v=/v:int", Strict: true})
	write(t, k, entity(1, "a", `{"v":1}`))
	b, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n, body := range []string{`{"v":2}`, `{"v":"x"}`, `{"v":3}`} {
		if err := b.Apply(t.Context(), entity(n+2, fmt.Sprint("k", n), body)); err != nil {
			t.Fatal(err)
		}
	}
	err = b.Commit(t.Context(), at(4))
	if err == nil || !strings.Contains(err.Error(), `entity "<3@example.com>" with key "k1": invalid input syntax`) {
		t.Errorf("commit: %v", err)
	}
	if p, err := k.Position(t.Context()); err != nil || p.ContentID != at(1).ContentID {
		t.Errorf("position is %v (%v)", p, err)
	}
	b, err = k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(t.Context(), entity(9, "z", `no JSON`)); err == nil || !strings.Contains(err.Error(), "<9@example.com>") {
		t.Errorf("apply: %v", err)
	}
	b.Rollback(t.Context())
	if diff := cmp.Diff(map[string]string{"a": "1"}, w.pairs("SELECT key, v::text FROM t")); diff != "" {
		t.Error(diff)
	}
}

func testPatchColumns(t *testing.T, w *world) {
	k := w.open(t, postgres.Options{Table: "t", Columns: "id=/id:int,doc=:json,price=/price:numeric"})
	write(t, k, entity(1, "a", `{"id":1,"price":1.50}`), change(2, "a", `{"price":2.50}`), change(3, "none", `{}`))
	write(t, k, change(4, "a", `{"x":[1]}`), change(5, "a", `{"id":"x"}`), entity(6, "b", `{"id":2}`))
	write(t, k, change(7, "a", `{"id":7}`), change(8, "b", "{"))
	want := map[string]string{"a": `7 2.50 {"id":7,"price":2.50,"x":[1]}`, "b": `2  {"id":2}`}
	got := w.pairs("SELECT key, concat_ws(' ', id, coalesce(price::text, ''), doc) FROM t")
	if diff := cmp.Diff(map[string]string{"a": want["a"], "b": want["b"]}, got); diff != "" {
		t.Error(diff)
	}
	if got := w.pairs("SELECT content_id, operation FROM feedctl_quarantine"); !cmp.Equal(got, map[string]string{"<3@example.com>": "PATCH", "<5@example.com>": "PATCH", "<8@example.com>": "PATCH"}) {
		t.Errorf("quarantine: %v", got)
	}
	k = w.open(t, postgres.Options{Table: "u", Columns: "id=/id:int"})
	b, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var p *patch.Error
	if err := b.Apply(t.Context(), change(1, "a", "{}")); !errors.As(err, &p) || !strings.Contains(err.Error(), "document=:jsonb") {
		t.Errorf("patch without a document: %v", err)
	}
}

func testColumnsRefused(t *testing.T, w *world) {
	w.exec("CREATE TABLE t (key text PRIMARY KEY, v int)", "CREATE TABLE plain (key text, v int)")
	for columns, want := range map[string]string{
		"v":                           "incomplete",
		"v=/v":                        "incomplete",
		"v=v:int":                     "must begin with",
		"v=/v:int)":                   "the type",
		"v=/v:int; DROP TABLE t":      "the type",
		"v=/v:int, v=/w:int":          "twice",
		"a=@key:int,b=@key:int":       "more than one",
		"a=@op:int":                   "@content_id",
		"key=/key:int":                "use @key",
		`a"b=/v:int`:                  "the name",
		"v=/v:nothing":                `type "nothing"`,
		"w=/w:int":                    "no column w",
		"v=/v:bigint":                 "has the type integer",
		strings.Repeat("a", 64) + "=": "incomplete",
	} {
		k, err := postgres.Open(t.Context(), w.url, postgres.Options{Table: "t", Columns: columns})
		if err == nil {
			k.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", columns, err, want)
		}
	}
	if _, err := postgres.Open(t.Context(), w.url, postgres.Options{Table: "plain", Columns: "v=/v:int"}); err == nil || !strings.Contains(err.Error(), "unique index") {
		t.Errorf("table without a key: %v", err)
	}
	k := w.open(t, postgres.Options{Table: "t", Columns: "v=/v:integer"})
	if _, err := postgres.Open(t.Context(), w.url, postgres.Options{Table: "t", Columns: "v=/v:int"}); !errors.Is(err, sink.ErrLocked) {
		t.Errorf("second consumer: %v", err)
	}
	k.Close()
}

func entity(n int, key, body string) *feed.Entity {
	return &feed.Entity{
		ContentID: fmt.Sprintf("<%d@example.com>", n), Operation: feed.Put, ContentType: "application/json",
		LastModified: time.Date(2026, 5, 1, 12, 0, n, 0, time.UTC), ContentLocation: feed.EncodeKey(key), Body: []byte(body),
	}
}

func at(n int) feed.Position { return feed.Position{ContentID: fmt.Sprintf("<%d@example.com>", n)} }

// write commits entities as one batch, at the position of the last one.
func write(t testing.TB, k *postgres.Sink, entities ...*feed.Entity) {
	t.Helper()
	if err := tryWrite(t.Context(), k, entities...); err != nil {
		t.Fatal(err)
	}
}

func tryWrite(ctx context.Context, k *postgres.Sink, entities ...*feed.Entity) error {
	b, err := k.Begin(ctx)
	if err != nil {
		return err
	}
	for _, e := range entities {
		if err := b.Apply(ctx, e); err != nil {
			return errors.Join(err, b.Rollback(ctx))
		}
	}
	return b.Commit(ctx, feed.Position{ContentID: entities[len(entities)-1].ContentID})
}
