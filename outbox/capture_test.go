package outbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/outbox"
)

func (w *world) attach(c outbox.Capture) {
	w.Helper()
	c.Feed = testFeed
	if err := w.db.Attach(w.Context(), c); err != nil {
		w.Fatal(err)
	}
}

// events returns the events in the outbox, each as "op key body", and deletes them.
func (w *world) events() []string {
	w.Helper()
	rows, err := w.pool.Query(w.Context(), `WITH gone AS (DELETE FROM feedctl.outbox RETURNING *)
		SELECT op || ' ' || key || ' ' || convert_from(body, 'UTF8') FROM gone ORDER BY id`)
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	events := []string{}
	for rows.Next() {
		var e string
		if err := rows.Scan(&e); err != nil {
			w.Fatal(err)
		}
		events = append(events, strings.TrimSuffix(e, " "))
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	return events
}

// does executes a statement and compares the resulting events.
func (w *world) does(sql string, want ...string) {
	w.Helper()
	w.exec(sql)
	if diff := cmp.Diff(append([]string{}, want...), w.events()); diff != "" {
		w.Errorf("%s: (-want +got)\n%s", sql, diff)
	}
}

func TestCapture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY, name text, price numeric(10,2))`)
	w.exec(`INSERT INTO products VALUES (0, 'before', 1)`)
	w.attach(outbox.Capture{Table: "products"})
	w.does(`INSERT INTO products VALUES (1, 'a ü "', 1.5), (2, NULL, 2)`,
		`PUT 1 {"id":1,"name":"a ü \"","price":1.50}`, `PUT 2 {"id":2,"name":null,"price":2.00}`)
	w.does(`UPDATE products SET price = price + 1 WHERE id > 0`,
		`PUT 1 {"id":1,"name":"a ü \"","price":2.50}`, `PUT 2 {"id":2,"name":null,"price":3.00}`)
	w.does(`UPDATE products SET price = price`)
	w.does(`UPDATE products SET id = 3 WHERE id = 2`, `DELETE 2`, `PUT 3 {"id":3,"name":null,"price":3.00}`)
	w.does(`DELETE FROM products WHERE id = 1`, `DELETE 1`)
	w.does(`INSERT INTO products VALUES (3, 'again', 0) ON CONFLICT (id) DO UPDATE SET name = excluded.name`,
		`PUT 3 {"id":3,"name":"again","price":3.00}`)
	w.does(`ALTER TABLE products ADD COLUMN more bool DEFAULT true`)
	w.does(`UPDATE products SET name = 'x' WHERE id = 3`, `PUT 3 {"id":3,"name":"x","price":3.00,"more":true}`)
	w.does(`TRUNCATE products`, `DELETE 0`, `DELETE 3`)
	w.does(`BEGIN; INSERT INTO products VALUES (9); ROLLBACK`)

	// Attach again, with other columns and another key.
	w.exec(`ALTER TABLE products ALTER name SET NOT NULL, ADD UNIQUE (name)`)
	w.attach(outbox.Capture{Table: "public.products", Columns: []string{"id", "name"}, Key: []string{"name"}})
	w.does(`INSERT INTO products VALUES (1, 'a')`, `PUT a {"id":1,"name":"a"}`)
	w.does(`UPDATE products SET price = 5`)
	w.does(`UPDATE products SET name = 'b'`, `DELETE a`, `PUT b {"id":1,"name":"b"}`)
	w.exec(`ALTER TABLE products ADD UNIQUE (id, name)`)
	w.attach(outbox.Capture{Table: "public.products", Key: []string{"name", "id"}, Columns: []string{"price"}})
	w.does(`UPDATE products SET id = 2`, `DELETE ["b", 1]`, `PUT ["b", 2] {"price":5.00}`)
}

func TestCaptureCompositeKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE "Odd ""Table'%s" ("a'b%s" text, "row" int, chosen text, r text, PRIMARY KEY ("row", "a'b%s"))`)
	for _, columns := range [][]string{nil, {"chosen", "a'b%s", "r"}} {
		w.attach(outbox.Capture{Table: `"Odd ""Table'%s"`, Columns: columns})
		body := `{"a'b%s":"k","row":1,"chosen":"c","r":"r"}`
		if columns != nil {
			body = `{"chosen":"c","a'b%s":"k","r":"r"}`
		}
		w.does(`INSERT INTO "Odd ""Table'%s" VALUES ('k', 1, 'c', 'r')`, `PUT [1, "k"] `+body)
		w.does(`TRUNCATE "Odd ""Table'%s"`, `DELETE [1, "k"]`)
	}
}

// TestCaptureWholeRows: an event contains TOASTed values that the update did not change, and no system
// columns.
func TestCaptureWholeRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TYPE pair AS (gone int, a int);
		ALTER TYPE pair DROP ATTRIBUTE gone;
		CREATE TABLE products (gone int, id int PRIMARY KEY, large text, n int, twice int GENERATED ALWAYS AS (n * 2) STORED, "Pair" pair);
		ALTER TABLE products DROP gone, ALTER large SET STORAGE EXTERNAL`)
	large := strings.Repeat("large", 5000)
	w.exec(`INSERT INTO products (id, large, n) VALUES (1, $1, 1)`, large)
	w.attach(outbox.Capture{Table: "products"})
	w.does(`UPDATE products SET n = 2`, `PUT 1 {"id":1,"large":"`+large+`","n":2,"twice":4,"Pair":null}`)
	w.does(`UPDATE products SET id = 2`, `DELETE 1`, `PUT 2 {"id":2,"large":"`+large+`","n":2,"twice":4,"Pair":null}`)
	w.does(`UPDATE products SET large = large`)
	w.does(`UPDATE products SET large = '', "Pair" = ROW(1)`, `PUT 2 {"id":2,"large":"","n":2,"twice":4,"Pair":{"a":1}}`)
	w.does(`ALTER TABLE products DROP large`)
	w.does(`UPDATE products SET n = 3`, `PUT 2 {"id":2,"n":3,"twice":6,"Pair":{"a":1}}`)
	w.attach(outbox.Capture{Table: "products", Columns: []string{"twice", "Pair"}})
	w.does(`UPDATE products SET n = 4`, `PUT 2 {"twice":8,"Pair":{"a":1}}`)
	w.does(`DELETE FROM products; INSERT INTO products (id, n) VALUES (5, 1)`, `DELETE 2`, `PUT 5 {"twice":2,"Pair":null}`)
	if get[int](w, `SELECT current_setting('server_version_num')::int`) >= 150000 { // MERGE is new in version 15
		w.does(`MERGE INTO products p USING (VALUES (5), (6)) v (id) ON p.id = v.id
			WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, n) VALUES (v.id, 1)`, `DELETE 5`, `PUT 6 {"twice":2,"Pair":null}`)
	}
}

// TestCaptureNames: columns may have the same names as variables of the trigger.
func TestCaptureNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (was int PRIMARY KEY, body text, "new" int, "old" int, feed text, tg_op text)`)
	for _, columns := range [][]string{nil, {"was", "body", "new", "old", "feed", "tg_op"}} {
		w.attach(outbox.Capture{Table: "products", Columns: columns})
		w.does(`INSERT INTO products VALUES (1, 'b', 2, 3, 'f', 't')`, `PUT 1 {"was":1,"body":"b","new":2,"old":3,"feed":"f","tg_op":"t"}`)
		w.does(`UPDATE products SET was = 4`, `DELETE 1`, `PUT 4 {"was":4,"body":"b","new":2,"old":3,"feed":"f","tg_op":"t"}`)
		w.does(`DELETE FROM products`, `DELETE 4`)
	}
}

// TestCaptureAfterRename: if a table is changed in a way that the trigger cannot follow, writes fail
// until the table is attached again, instead of publishing wrong events.
func TestCaptureAfterRename(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY, a int, b int)`)
	w.attach(outbox.Capture{Table: "products", Columns: []string{"a"}})
	w.does(`ALTER TABLE products RENAME b TO c; INSERT INTO products VALUES (1, 2, 3)`, `PUT 1 {"a":2}`)
	w.exec(`ALTER TABLE products RENAME a TO b; ALTER TABLE products RENAME TO goods`)
	if _, err := w.pool.Exec(t.Context(), `UPDATE goods SET b = 3`); err == nil {
		t.Errorf("an update was captured although a column is missing: %v", w.events())
	}
	w.attach(outbox.Capture{Table: "goods", Columns: []string{"b"}})
	w.does(`UPDATE goods SET b = 4`, `PUT 1 {"b":4}`)
	w.does(`ALTER TABLE goods ALTER b TYPE numeric(5,1), ALTER id TYPE text`)
	// Until the table is attached again, writes may also fail in sessions that have written before.
	w.attach(outbox.Capture{Table: "goods", Columns: []string{"b"}})
	w.does(`UPDATE goods SET b = 6`, `PUT 1 {"b":6.0}`)
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE parents (id int PRIMARY KEY)`)
	w.exec(`CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents ON DELETE CASCADE ON UPDATE CASCADE)`)
	w.exec(`INSERT INTO parents VALUES (1), (2)`)
	w.exec(`INSERT INTO children VALUES (10, 1), (20, 2)`)
	w.attach(outbox.Capture{Table: "children"})
	w.does(`UPDATE parents SET id = 3 WHERE id = 2`, `PUT 20 {"id":20,"parent":3}`)
	w.does(`DELETE FROM parents WHERE id = 3`, `DELETE 20`)
	w.does(`TRUNCATE parents CASCADE`, `DELETE 10`)
	_, err := w.pool.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; TRUNCATE children; COMMIT`)
	if err == nil || !strings.Contains(err.Error(), "READ COMMITTED") {
		t.Error(err)
	}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE parts (id int, day int, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
		CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
		CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20) PARTITION BY LIST (day);
		CREATE TABLE parts_2_1 PARTITION OF parts_2 FOR VALUES IN (10, 11)`)
	for range 2 { // the second time, the table is already attached
		w.attach(outbox.Capture{Table: "parts"})
		w.does(`INSERT INTO parts VALUES (1, 1, 'a'), (2, 10, 'b')`,
			`PUT [1, 1] {"id":1,"day":1,"v":"a"}`, `PUT [2, 10] {"id":2,"day":10,"v":"b"}`)
		w.does(`UPDATE parts SET v = 'c' WHERE id = 2`, `PUT [2, 10] {"id":2,"day":10,"v":"c"}`)
		w.does(`UPDATE parts SET day = 11 WHERE id = 1`, `DELETE [1, 1]`, `PUT [1, 11] {"id":1,"day":11,"v":"a"}`)
		w.does(`TRUNCATE parts_2_1`, `DELETE [2, 10]`, `DELETE [1, 11]`)
		w.exec(`CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (20) TO (30)`)
		w.does(`INSERT INTO parts VALUES (3, 20, 'c'), (4, 2, 'd')`, `PUT [3, 20] {"id":3,"day":20,"v":"c"}`, `PUT [4, 2] {"id":4,"day":2,"v":"d"}`)
		w.does(`TRUNCATE parts`, `DELETE [3, 20]`, `DELETE [4, 2]`)
		w.exec(`DROP TABLE parts_3`)
	}
	if err := w.db.Detach(t.Context(), "parts"); err != nil {
		t.Fatal(err)
	}
	w.does(`INSERT INTO parts VALUES (1, 1, 'a')`)
	w.does(`TRUNCATE parts`)
}

func TestDetach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY)`)
	count := func() int {
		return get[int](w, `SELECT (SELECT count(*) FROM pg_trigger) + (SELECT count(*) FROM pg_proc) + (SELECT count(*) FROM feedctl.outbox_capture)`)
	}
	before := count()
	w.attach(outbox.Capture{Table: "products"})
	if count() == before {
		t.Fatal("attach created nothing")
	}
	if err := w.db.Detach(t.Context(), "products"); err != nil {
		t.Fatal(err)
	}
	if after := count(); after != before {
		t.Errorf("%d objects are left", after-before)
	}
	w.does(`INSERT INTO products VALUES (1)`)
	if err := w.db.Detach(t.Context(), "products"); !errors.Is(err, outbox.ErrNotCaptured) {
		t.Error(err)
	}
	if err := w.db.Detach(t.Context(), "missing"); !errors.Is(err, outbox.ErrNotCaptured) {
		t.Error(err)
	}
	// Dropping a table frees its feed.
	w.attach(outbox.Capture{Table: "products"})
	w.exec(`DROP TABLE products; CREATE TABLE products (id int PRIMARY KEY)`)
	w.attach(outbox.Capture{Table: "products"})
}

func TestAttachErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE no_key (id int);
		CREATE TABLE nulls (id int UNIQUE);
		CREATE TABLE partial (id int NOT NULL); CREATE UNIQUE INDEX ON partial (id) WHERE id > 0;
		CREATE TABLE deferred (id int PRIMARY KEY DEFERRABLE);
		CREATE TABLE good (id int PRIMARY KEY, v int);
		CREATE TABLE taken (id int PRIMARY KEY);
		CREATE VIEW view AS SELECT * FROM good;
		CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child () INHERITS (parent)`)
	if err := w.db.Attach(t.Context(), outbox.Capture{Feed: "taken", Table: "taken"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		capture outbox.Capture
		want    string
	}{
		{outbox.Capture{Table: "missing"}, "does not exist"},
		{outbox.Capture{Table: "no_key"}, "no primary key"},
		{outbox.Capture{Table: "no_key", Key: []string{"id"}}, "unique index"},
		{outbox.Capture{Table: "nulls", Key: []string{"id"}}, "all NOT NULL"},
		{outbox.Capture{Table: "partial", Key: []string{"id"}}, "partial"},
		{outbox.Capture{Table: "deferred"}, "primary key"},
		{outbox.Capture{Table: "deferred", Key: []string{"id"}}, "deferrable"},
		{outbox.Capture{Table: "good", Key: []string{"v"}}, "unique index"},
		{outbox.Capture{Table: "good", Key: []string{"w"}}, `no column "w"`},
		{outbox.Capture{Table: "good", Columns: []string{"w"}}, `no column "w"`},
		{outbox.Capture{Table: "view"}, "not a table"},
		{outbox.Capture{Table: "parent"}, "inherit"},
		{outbox.Capture{Table: "feedctl.objects"}, "belongs to feedctl"},
		{outbox.Capture{Table: "pg_catalog.pg_class"}, "belongs to feedctl or to the system"},
		{outbox.Capture{Table: "good", Feed: "taken"}, "taken"},
	} {
		if c.capture.Feed == "" {
			c.capture.Feed = testFeed
		}
		err := w.db.Attach(t.Context(), c.capture)
		if !errors.Is(err, outbox.ErrCapture) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.capture, err, c.want)
		}
	}
}

// TestVirtualColumns: a column whose value triggers cannot see must not be published as null.
func TestVirtualColumns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stored := "STORED"
	if get[int](w, `SELECT current_setting('server_version_num')::int`) >= 180000 { // virtual columns are new in version 18
		stored = "VIRTUAL"
	}
	w.exec(`CREATE TABLE products (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2) ` + stored + `)`)
	for _, columns := range [][]string{nil, {"twice"}, {"id", "n"}} {
		err := w.db.Attach(t.Context(), outbox.Capture{Table: "products", Feed: testFeed, Columns: columns})
		if stored == "VIRTUAL" && len(columns) != 2 {
			if !errors.Is(err, outbox.ErrCapture) || !strings.Contains(err.Error(), `"twice"`) {
				t.Errorf("%q: %v", columns, err)
			}
		} else if err != nil {
			t.Errorf("%q: %v", columns, err)
		}
	}
	w.does(`INSERT INTO products VALUES (1, 2)`, `PUT 1 {"id":1,"n":2}`)
}

// TestOtherTriggers: if another trigger of the table changes the row again, the events are still in
// order.
func TestOtherTriggers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY, v int, touched bool);
		CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			UPDATE products SET touched = true WHERE id = NEW.id AND NOT touched; RETURN NULL;
		END $$;
		CREATE TRIGGER "0_touch" AFTER INSERT OR UPDATE ON products FOR EACH ROW EXECUTE FUNCTION touch()`)
	w.attach(outbox.Capture{Table: "products"})
	w.does(`INSERT INTO products VALUES (1, 1, false)`, `PUT 1 {"id":1,"v":1,"touched":false}`, `PUT 1 {"id":1,"v":1,"touched":true}`)
}

// TestCaptureRights: writers need no rights on the outbox, and row security hides nothing.
func TestCaptureRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY, owner text); ALTER TABLE products ENABLE ROW LEVEL SECURITY;
		CREATE POLICY own ON products USING (owner = current_user)`)
	w.attach(outbox.Capture{Table: "products"})
	w.exec(`DO $$ BEGIN IF to_regrole('shop') IS NULL THEN CREATE ROLE shop; END IF; END $$`)
	w.exec(`GRANT INSERT, TRUNCATE ON products TO shop`)
	w.exec(`INSERT INTO products VALUES (1, 'other')`)
	w.events()
	w.does(`BEGIN; SET LOCAL ROLE shop; INSERT INTO products VALUES (2, 'shop'); TRUNCATE products; COMMIT`,
		`PUT 2 {"id":2,"owner":"shop"}`, `DELETE 1`, `DELETE 2`)
	_, err := w.pool.Exec(t.Context(), `BEGIN; SET LOCAL ROLE shop; CREATE TEMP TABLE mine (id int);
		CREATE TRIGGER t AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION feedctl.capture_1(); ROLLBACK`)
	if err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("any user may call the trigger function: %v", err)
	}
}

// TestTypes: the JSON of a value does not depend on the settings of the session, whatever the value's
// type.
func TestTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TYPE mood AS ENUM ('sad', 'so so'); CREATE TYPE pair AS (a int, b timestamptz); CREATE DOMAIN posint AS int CHECK (value > 0);
		CREATE DOMAIN stamps AS timestamptz[]`)
	cases := []struct{ typ, value, want string }{
		{"smallint", "-32768", "-32768"},
		{"bigint", "9223372036854775807", "9223372036854775807"},
		{"numeric", "123456789012345678901234567890.1234567890123456789000", "123456789012345678901234567890.1234567890123456789000"},
		{"numeric(5,2)", "1.5", "1.50"},
		{"numeric", "'NaN'", `"NaN"`},
		{"numeric", "'Infinity'", `"Infinity"`},
		{"real", "0.1", "0.1"},
		{"double precision", "0.1::float8 + 0.2::float8", "0.30000000000000004"},
		{"double precision", "1e300", "1e+300"},
		{"double precision", "'-0'", "-0"},
		{"double precision", "'-Infinity'", `"-Infinity"`},
		{"boolean", "true", "true"},
		{"text", `E'a\n\t"\\ü\u0001'`, `"a\n\t\"\\ü\u0001"`},
		{"text", "''", `""`},
		{"text", "NULL", "null"},
		{"char(3)", "'a'", `"a  "`},
		{"bytea", `'\x00ff10'`, `"\\x00ff10"`},
		{"timestamptz", "'2024-03-31 01:59:59.123456+02'", `"2024-03-30T23:59:59.123456+00:00"`},
		{"timestamptz", "'infinity'", `"infinity"`},
		{"timestamp", "'2024-03-31 01:59:59.1'", `"2024-03-31T01:59:59.1"`},
		{"date", "'2024-03-31'", `"2024-03-31"`},
		{"time", "'23:59:59.000001'", `"23:59:59.000001"`},
		{"timetz", "'23:59:59+02'", `"23:59:59+02"`},
		{"interval", "'1 year 2 days 03:04:05.6'", `"P1Y2DT3H4M5.6S"`},
		{"uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`},
		{"json", `'{"b": 1,  "a":[1.0]}'`, `{"b": 1,  "a":[1.0]}`},
		{"jsonb", `'{"b": 1.50,  "a":[1e2]}'`, `{"a": [100], "b": 1.50}`},
		{"int[]", "'{1,NULL,3}'", "[1,null,3]"},
		{"text[][]", `'{{a,"b c"},{NULL,""}}'`, `[["a","b c"],[null,""]]`},
		{"timestamptz[]", `'{2024-03-31 01:59:59+02}'`, `["2024-03-30T23:59:59+00:00"]`},
		{"stamps", `'{2024-03-31 01:59:59+02}'`, `["2024-03-30T23:59:59+00:00"]`},
		{"mood", "'so so'", `"so so"`},
		{"pair", "(1, '2024-03-31 01:59:59+02')::pair", `{"a":1,"b":"2024-03-30T23:59:59+00:00"}`},
		{"posint", "7", "7"},
		{"int4range", "'[1,5]'", `"[1,6)"`},
		{"tstzrange", "'[2024-03-31 00:00+02,)'", `"[\"2024-03-30 22:00:00+00\",)"`},
		{"money", "1234.5", `"$1,234.50"`},
		{"inet", "'10.0.0.1/8'", `"10.0.0.1/8"`},
		{"bit(3)", "B'101'", `"101"`},
		{"point", "'(1.5,2)'", `"(1.5,2)"`},
		{"oid", "4294967295", `"4294967295"`},
		{"regclass", "'public.types'", `"public.types"`},
		{"int GENERATED ALWAYS AS (id * 2) STORED", "DEFAULT", "2"},
		{"xml", "'<a>ü</a>'", `"<a>ü</a>"`},
	}
	var columns, values strings.Builder
	for n, c := range cases {
		fmt.Fprintf(&columns, ", c%d %s", n, c.typ)
		fmt.Fprintf(&values, ", %s", c.value)
	}
	w.exec(`CREATE TABLE types (id int PRIMARY KEY` + columns.String() + `)`)
	w.attach(outbox.Capture{Table: "types"})
	w.exec(`BEGIN; SET LOCAL timezone = 'America/St_Johns'; SET LOCAL datestyle = 'German, DMY'; SET LOCAL intervalstyle = 'sql_standard';
		SET LOCAL extra_float_digits = -5; SET LOCAL bytea_output = 'escape'; SET LOCAL search_path = public;
		INSERT INTO types VALUES (1` + values.String() + `); COMMIT`)
	var got map[string]json.RawMessage
	if err := json.Unmarshal([]byte(strings.TrimPrefix(w.events()[0], "PUT 1 ")), &got); err != nil {
		t.Fatal(err)
	}
	for n, c := range cases {
		if g := string(got[fmt.Sprint("c", n)]); g != c.want {
			t.Errorf("%s %s: got %s, want %s", c.typ, c.value, g, c.want)
		}
	}
}

// TestCaptureNullKey: if a key column becomes nullable, writes of NULL fail, instead of publishing
// wrong events.
func TestCaptureNullKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (id int NOT NULL, "n'" int NOT NULL, UNIQUE (id), UNIQUE (id, "n'"))`)
	for _, key := range [][]string{{"id"}, {"n'", "id"}} {
		w.exec(`ALTER TABLE products ALTER id SET NOT NULL`)
		w.attach(outbox.Capture{Table: "products", Key: key})
		w.exec(`ALTER TABLE products ALTER id DROP NOT NULL`)
		if _, err := w.pool.Exec(t.Context(), `INSERT INTO products VALUES (NULL, 1)`); err == nil {
			t.Errorf("a row with NULL in the key %q was captured: %v", key, w.events())
		}
	}
}
