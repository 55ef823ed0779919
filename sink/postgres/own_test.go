package postgres_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/postgres"
)

// testOwnTables opens tables that feedctl did not create. Unsuitable tables are refused, with a
// remedy in the error.
func testOwnTables(t *testing.T, w *world) {
	const columns = "id=@key:int,v=/v:int not null"
	for _, c := range []struct {
		name, columns, create, want string // want is "" if the table is suitable
	}{
		{"more columns", columns, "CREATE TABLE t (other int, id int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), v int NOT NULL)", ""},
		{"a generated column", columns, "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL, other int NOT NULL GENERATED ALWAYS AS (v + 1) STORED)", ""},
		{"an identity", columns, "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL, other int GENERATED ALWAYS AS IDENTITY)", ""},
		{"a dropped column", columns, "CREATE TABLE t (id int PRIMARY KEY, other int NOT NULL, v int NOT NULL); ALTER TABLE t DROP other", ""},
		{"a column without a default", columns, "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL, other int NOT NULL)", "column other"},
		{"a column that a trigger fills", columns, "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL, other int NOT NULL);" +
			"CREATE TRIGGER fill BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION fill()", ""},
		{"no such column", columns, "CREATE TABLE t (id int PRIMARY KEY)", "ALTER TABLE"},
		{"no column for the key", "v=/v:int", "CREATE TABLE t (v int)", "=@key:"},
		{"another type", columns, "CREATE TABLE t (id int PRIMARY KEY, v text NOT NULL)", "v of the table has the type text, not integer"},
		{"no key", columns, "CREATE TABLE t (id int, v int NOT NULL)", "unique index"},
		{"a nullable key", columns, "CREATE TABLE t (id int UNIQUE, v int NOT NULL)", ""},
		{"a deferrable key", columns, "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, v int NOT NULL)", "deferrable"},
		{"a nullable column", columns, "CREATE TABLE t (id int PRIMARY KEY, v int)", ""},
		{"a key that is generated", columns, "CREATE TABLE t (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, v int NOT NULL)", "cannot be used"},
		{"partitions", columns, "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL) PARTITION BY RANGE (id);" +
			"CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (100)", ""},
		{"a view", columns, "CREATE TABLE t_1 (id int PRIMARY KEY, v int NOT NULL); CREATE VIEW t AS SELECT * FROM t_1", "is a view"},
		{"a view without all columns", columns, "CREATE TABLE t_1 (id int PRIMARY KEY, v int NOT NULL, other int NOT NULL); CREATE VIEW t AS SELECT id, v FROM t_1", "is a view"},
		{"a materialized view", columns, "CREATE TABLE t_1 (id int PRIMARY KEY, v int NOT NULL); CREATE MATERIALIZED VIEW t AS SELECT * FROM t_1", "is a materialized view"},
		{"a foreign table", columns, "DROP FOREIGN DATA WRAPPER IF EXISTS none CASCADE; CREATE FOREIGN DATA WRAPPER none; CREATE SERVER s FOREIGN DATA WRAPPER none;" +
			"CREATE FOREIGN TABLE t (id int, v int NOT NULL) SERVER s", "is a foreign table"},
		{"an unlogged table", columns, "CREATE UNLOGGED TABLE t (id int PRIMARY KEY, v int NOT NULL)", "SET LOGGED"},
		{"an unlogged partition", columns, "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL) PARTITION BY RANGE (id);" +
			"CREATE UNLOGGED TABLE t_1 PARTITION OF t DEFAULT", "public.t_1 SET LOGGED"},
		{"an index", columns, "CREATE TABLE t_1 (id int PRIMARY KEY, v int NOT NULL); CREATE INDEX t ON t_1 (v)", "is an index"},
		{"rows", columns, "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); INSERT INTO t VALUES (1, 1)", "no position"},
		{"a wrong table for whole entities", "", "CREATE TABLE t (key text PRIMARY KEY, body json)", "no column content_type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.exec("DROP SCHEMA public CASCADE; CREATE SCHEMA public",
				"CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.other := 7; RETURN NEW; END $$")
			for sql := range strings.SplitSeq(c.create, ";") {
				w.exec(sql)
			}
			k, err := postgres.Open(t.Context(), w.url, postgres.Options{Table: "t", Columns: c.columns})
			if c.want != "" {
				if err == nil {
					k.Close()
				}
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			write(t, k, entity(1, "1", `{"v":1}`), entity(2, "2", `{"v":2}`), entity(3, "1", `{"v":3}`), entity(4, "3", `{}`))
			if diff := cmp.Diff(map[string]string{"1": "3", "2": "2"}, w.pairs("SELECT id::text, v::text FROM t")); diff != "" || k.Rejected().Quarantined != 1 {
				t.Errorf("%d in quarantine (-want +got):\n%s", k.Rejected().Quarantined, diff)
			}
		})
	}
}

// testTriggerRefuses: a row that a trigger rejects is treated like one that a constraint rejects.
func testTriggerRefuses(t *testing.T, w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, v int)", `
		CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.v % 2 = 0 THEN RAISE EXCEPTION '% is even', NEW.v; END IF;
			RETURN NEW;
		END $$`, "CREATE TRIGGER odd BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION odd()")
	k := w.open(t, postgres.Options{Table: "t", Columns: "id=@key:int,v=/v:int"})
	write(t, k, entity(1, "1", `{"v":1}`), entity(2, "2", `{"v":2}`), entity(3, "3", `{"v":3}`))
	if diff := cmp.Diff(map[string]string{"1": "1", "3": "3"}, w.pairs("SELECT id::text, v::text FROM t")); diff != "" {
		t.Error(diff)
	}
	if got := w.value("SELECT content_id || ' ' || reason FROM feedctl_quarantine"); got != "<2@example.com> 2 is even" {
		t.Errorf("quarantine: %q", got)
	}
}

// testUnique moves values of a column with a unique index from one row to another within a batch.
func testUnique(t *testing.T, w *world) {
	for _, deferrable := range []string{"", " DEFERRABLE"} {
		w.exec("DROP TABLE IF EXISTS t, feedctl_positions, feedctl_quarantine", "CREATE TABLE t (id int PRIMARY KEY, sku text UNIQUE"+deferrable+")")
		k := w.open(t, postgres.Options{Table: "t", Columns: "id=@key:int,sku=/sku:text"})
		write(t, k, entity(1, "1", `{"sku":"a"}`), entity(2, "2", `{"sku":"b"}`))
		gone := entity(3, "1", "")
		gone.Operation = feed.Delete
		write(t, k, gone, entity(4, "3", `{"sku":"a"}`))                                                // a is free: its row was deleted
		write(t, k, entity(5, "3", `{"sku":"c"}`), entity(6, "4", `{"sku":"a"}`))                       // a is free: its row was changed
		write(t, k, entity(7, "4", `{"sku":"d"}`), entity(8, "5", `{"sku":"a"}`), entity(9, "4", `{}`)) // and changed again
		want := map[string]string{"2": "b", "3": "c", "4": "", "5": "a"}
		const rows = "SELECT id::text, coalesce(sku, '') FROM t"
		if diff := cmp.Diff(want, w.pairs(rows)); diff != "" || k.Rejected().Quarantined != 0 {
			t.Errorf("%d in quarantine (-want +got):\n%s", k.Rejected().Quarantined, diff)
		}
		write(t, k, entity(10, "6", `{"sku":"b"}`), entity(11, "7", `{"sku":"e"}`), entity(12, "8", `{"sku":"e"}`))
		want["7"] = "e"
		if diff := cmp.Diff(want, w.pairs(rows)); diff != "" || k.Rejected().Quarantined != 2 {
			t.Errorf("%d in quarantine (-want +got):\n%s", k.Rejected().Quarantined, diff)
		}
		k.Close()
	}
}

// testWholeRefused: a constraint rejects an entity, and a table with whole entities has no
// quarantine. The error names the entity.
func testWholeRefused(t *testing.T, w *world) {
	k := w.open(t, postgres.Options{Table: "t"})
	w.exec("ALTER TABLE t ADD CHECK (key <> 'b')", "ALTER TABLE t ALTER body TYPE jsonb")
	for key, body := range map[string]string{"b": `1`, "c": `"\u0000"`} {
		err := tryWrite(t.Context(), k, entity(1, "a", `1`), entity(2, key, body), entity(3, "d", `1`))
		if err == nil || !strings.Contains(err.Error(), `entity "<2@example.com>" with key "`+key+`"`) || !strings.Contains(err.Error(), "--columns") {
			t.Errorf("%s: %v", key, err)
		}
		if p, err := k.Position(t.Context()); err != nil || p.ContentID != "" {
			t.Errorf("position is %v (%v)", p, err)
		}
	}
	if n := w.value("SELECT count(*)::text FROM t"); n != "0" {
		t.Errorf("%s rows", n)
	}
}

// testSettings uses a database whose settings change how values are read and limit the
// duration of statements.
func testSettings(t *testing.T, w *world) {
	name := `"` + w.value("SELECT current_database()") + `"`
	w.exec("ALTER DATABASE "+name+" SET client_encoding = 'LATIN1'", "ALTER DATABASE "+name+" SET timezone = 'Asia/Kolkata'",
		"ALTER DATABASE "+name+" SET datestyle = 'SQL, DMY'", "ALTER DATABASE "+name+" SET intervalstyle = 'sql_standard'",
		"ALTER DATABASE "+name+" SET default_transaction_isolation = 'serializable'", "ALTER DATABASE "+name+" SET quote_all_identifiers = on", "ALTER DATABASE "+name+" SET lc_monetary = 'POSIX'",
		"ALTER DATABASE "+name+" SET statement_timeout = '700ms'", "ALTER DATABASE "+name+" SET lock_timeout = '600ms'")
	k := w.open(t, postgres.Options{Table: "t", Columns: "name=/name:text,at=/at:timestamptz,day=/day:date,took=/took:interval,changed=@last_modified:timestamp"})
	write(t, k, entity(1, "ü", `{"name":"é","at":"2026-05-01T12:00:00","day":"02/03/2026","took":"P1DT-2H"}`))
	w.exec("SET datestyle = ISO", "SET intervalstyle = postgres")
	if got, want := w.value("SELECT concat_ws(' ', key, name, at, day, took, changed) FROM t"),
		"ü é 2026-05-01 12:00:00+00 2026-02-03 1 day -02:00:00 2026-05-01 12:00:01"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := postgres.Open(t.Context(), w.url, postgres.Options{Table: "t", Columns: "name=/name:text"}); !errors.Is(err, sink.ErrLocked) {
		t.Errorf("a second consumer: %v", err)
	}
	k.Close()
	// A PATCH finds the row by the key in its original spelling.
	k = w.open(t, postgres.Options{Table: "days", Columns: "day=@key:date,doc=:jsonb"})
	write(t, k, entity(1, "02/03/2026", `{"v":1}`), entity(2, "03/02/2026", `{"v":2}`))
	write(t, k, change(3, "02/03/2026", `{"w":3}`))
	want := map[string]string{"2026-02-03": `{"v": 1, "w": 3}`, "2026-03-02": `{"v": 2}`}
	if diff := cmp.Diff(want, w.pairs("SELECT day::text, doc::text FROM days")); diff != "" || k.Rejected().Quarantined != 0 {
		t.Errorf("%d in quarantine, rows (-want +got):\n%s", k.Rejected().Quarantined, diff)
	}
	k.Close()
	// Some locales have no decimal point. Not every machine has such a locale.
	w.exec("CREATE TABLE sums (key text PRIMARY KEY, sum money, place text DEFAULT current_setting('lc_monetary'))")
	k = w.open(t, postgres.Options{Table: "sums", Columns: "sum=/sum:money"})
	write(t, k, entity(1, "a", `{"sum":"$1,234.50"}`))
	if got := w.value("SELECT place FROM sums"); got != "C" {
		t.Errorf("sums of money are read in the locale %s, want C", got)
	}
	k.Close()
	// A COPY ahead is cancelled, as happens if the feed is so slow that a timeout expires.
	k = w.open(t, postgres.Options{Table: "u"})
	b, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pad := strings.Repeat("x", 1000)
	for i := range 400 {
		if err := b.Apply(t.Context(), entity(i, string(rune('A'+i)), `"`+pad+`"`)); err != nil {
			t.Fatal(err)
		}
	}
	for w.value("SELECT pg_cancel_backend(pid)::text FROM pg_stat_activity WHERE query LIKE 'COPY%' AND datname = current_database()") != "true" {
	}
	if err := b.Commit(t.Context(), at(1)); err != nil {
		t.Fatal(err)
	}
	if n := w.value("SELECT count(*)::text FROM u"); n != "400" {
		t.Errorf("%s rows", n)
	}
}

// testRole uses existing tables as a role that has only the documented rights.
func testRole(t *testing.T, w *world) {
	database := w.value("SELECT current_database()")
	role := "writer_" + strings.ToLower(database)
	o := postgres.Options{Table: "t", Columns: "v=/v:int"}
	w.exec("CREATE ROLE "+role+" LOGIN", "REVOKE CREATE ON SCHEMA public FROM PUBLIC") // which PostgreSQL 14 grants
	defer w.exec("DROP OWNED BY "+role, "DROP ROLE "+role)
	w.open(t, o).Close()
	u, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	for _, grant := range []string{
		"TEMPORARY ON DATABASE " + pgx.Identifier{database}.Sanitize(),
		"SELECT, INSERT, UPDATE, DELETE ON t",
		"SELECT, INSERT, UPDATE ON feedctl_positions",
		"SELECT, INSERT ON feedctl_quarantine",
	} {
		w.exec("REVOKE TEMPORARY ON DATABASE " + pgx.Identifier{database}.Sanitize() + " FROM PUBLIC")
		if k, err := postgres.Open(t.Context(), u.String(), o); err == nil {
			k.Close()
			t.Errorf("the role does not need %s", grant)
		} else if !strings.Contains(err.Error(), "GRANT the privilege to this user") {
			t.Errorf("without %s: %v", grant, err)
		}
		w.exec("GRANT " + grant + " TO " + role)
	}
	k, err := postgres.Open(t.Context(), u.String(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	gone := entity(3, "a", "")
	gone.Operation = feed.Delete
	write(t, k, entity(1, "a", `{"v":1}`), entity(2, "b", `{"v":"x"}`), gone)
	if k.Rejected().Quarantined != 1 {
		t.Errorf("%d in quarantine", k.Rejected().Quarantined)
	}
	k.Close()
	u.User = url.User(role)
	if _, err := postgres.Open(t.Context(), u.String(), postgres.Options{Table: "new"}); err == nil || !strings.Contains(err.Error(), "CREATE on the schema") {
		t.Errorf("missing table: %v", err)
	}
}
