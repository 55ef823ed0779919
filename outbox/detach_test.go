package outbox_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/outbox"
)

// things returns the number of database objects that attach creates.
func (w *world) things() int {
	w.Helper()
	return get[int](w, `SELECT (SELECT count(*) FROM pg_trigger) + (SELECT count(*) FROM pg_proc) + (SELECT count(*) FROM feedctl.outbox_capture)`)
}

func (w *world) detach(table string) {
	w.Helper()
	if err := w.db.Detach(w.Context(), table); err != nil {
		w.Fatal(err)
	}
}

// captured returns the table captured for a feed, according to Status.
func (w *world) captured(feed string) *outbox.CapturedTable {
	w.Helper()
	s, err := w.db.Status(w.Context(), feed)
	if err != nil {
		w.Fatal(err)
	}
	if len(s.Feeds) == 0 {
		return nil
	}
	return s.Feeds[0].Table
}

// TestDetachDropped: detaching a dropped table removes everything, whichever name is used to detach it.
func TestDetachDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.things()
	const create = `CREATE TABLE "Odd.""Table" (id int PRIMARY KEY)`
	for _, detach := range []func() error{
		func() error { return w.db.Detach(t.Context(), `public."Odd.""Table"`) },
		func() error { return w.db.Detach(t.Context(), `"Odd.""Table"`) }, // in the search_path
		func() error { return w.db.DetachFeed(t.Context(), testFeed) },
		func() error { // another table has taken its name
			w.exec(create)
			defer w.exec(`DROP TABLE "Odd.""Table"`)
			return w.db.Detach(t.Context(), `"Odd.""Table"`)
		},
		func() error { // another table has taken its feed
			w.exec(`CREATE TABLE other (id int PRIMARY KEY)`)
			defer w.exec(`DROP TABLE other`)
			w.attach(outbox.Capture{Table: "other"})
			return w.db.DetachFeed(t.Context(), testFeed)
		},
		func() error { // a new table of the same name is attached with another feed
			w.exec(create)
			defer w.exec(`DROP TABLE "Odd.""Table"`)
			if err := w.db.Attach(t.Context(), outbox.Capture{Table: `"Odd.""Table"`, Feed: "another"}); err != nil {
				return err
			}
			return w.db.Detach(t.Context(), `"Odd.""Table"`)
		},
	} {
		w.exec(create)
		w.attach(outbox.Capture{Table: `"Odd.""Table"`})
		if diff := cmp.Diff(&outbox.CapturedTable{Name: `public."Odd.""Table"`}, w.captured(testFeed)); diff != "" {
			t.Error(diff)
		}
		w.exec(`DROP TABLE "Odd.""Table"`)
		if diff := cmp.Diff(&outbox.CapturedTable{Name: `public."Odd.""Table"`, Gone: true}, w.captured(testFeed)); diff != "" {
			t.Error(diff)
		}
		if err := detach(); err != nil {
			t.Error(err)
		}
		if after := w.things(); after != before {
			t.Errorf("%d objects are left", after-before)
		}
		if got := w.captured(testFeed); got != nil {
			t.Errorf("status has %+v", got)
		}
	}
	for _, err := range []error{w.db.Detach(t.Context(), `public."Odd.""Table"`), w.db.DetachFeed(t.Context(), testFeed)} {
		if !errors.Is(err, outbox.ErrNotCaptured) {
			t.Error(err)
		}
	}
}

// TestCaptureMigration: in a migration, a capture created before names were stored gets the name of its
// table.
func TestCaptureMigration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY); CREATE TABLE gone (id int PRIMARY KEY)`)
	before := w.things()
	w.attach(outbox.Capture{Table: "products"})
	if err := w.db.Attach(t.Context(), outbox.Capture{Table: "gone", Feed: "gone"}); err != nil {
		t.Fatal(err)
	}
	w.exec(`DROP TABLE gone; ALTER TABLE feedctl.outbox_capture DROP COLUMN name;
		DROP PROCEDURE feedctl.add_chunks, feedctl.create_object, feedctl.append_object, feedctl.replace_object;
		UPDATE feedctl.schema_version SET version = 2`)
	config, err := pgx.ParseConfig(w.url)
	if err == nil {
		_, err = schema.Migrate(t.Context(), config, schema.Default, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.exec(`DROP TABLE products`)
	w.detach("products")
	if err := w.db.DetachFeed(t.Context(), "gone"); err != nil {
		t.Error(err)
	}
	if after := w.things(); after != before {
		t.Errorf("%d objects are left", after-before)
	}
}

// TestDetachRenamed: a renamed table is found by its new name, and is not confused with a table in
// another schema.
func TestDetachRenamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.things()
	w.exec(`CREATE TABLE products (id int PRIMARY KEY)`)
	w.attach(outbox.Capture{Table: "products"})
	w.exec(`ALTER TABLE products RENAME TO goods`)
	if got := w.captured(testFeed); got == nil || got.Name != "public.goods" {
		t.Errorf("status has %+v", got)
	}
	for _, other := range []string{"products", "feedctl.goods", "feedctl.products"} {
		if err := w.db.Detach(t.Context(), other); !errors.Is(err, outbox.ErrNotCaptured) {
			t.Errorf("detach %s: %v", other, err)
		}
	}
	w.detach("goods")
	if after := w.things(); after != before {
		t.Errorf("%d objects are left", after-before)
	}
}

// TestDetachedPartition: nothing of the capture is left on a former partition.
func TestDetachedPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id);
		CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
		CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20)`)
	before := w.things()
	w.attach(outbox.Capture{Table: "parts"})
	w.does(`INSERT INTO parts VALUES (1), (11)`, `PUT 1 {"id":1}`, `PUT 11 {"id":11}`)
	w.exec(`ALTER TABLE parts DETACH PARTITION parts_1;
		CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (0) TO (10)`)
	w.does(`INSERT INTO parts SELECT * FROM parts_1`, `PUT 1 {"id":1}`)
	w.does(`TRUNCATE parts_1`) // this table now holds the row again
	w.detach("parts")
	w.exec(`DROP TABLE parts_3`)
	if after := w.things(); after > before {
		t.Errorf("%d objects are left", after-before)
	}
}

// TestNewPartitions: Status reports partitions that were added after the table was attached. Attaching
// the table again captures them, and changes nothing else.
func TestNewPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id);
		CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)`)
	w.attach(outbox.Capture{Table: "parts"})
	uncovered := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(&outbox.CapturedTable{Name: "public.parts", Uncovered: want}, w.captured(testFeed)); diff != "" {
			t.Error(diff)
		}
	}
	uncovered()
	w.exec(`CREATE TABLE "Parts 2" PARTITION OF parts FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
		CREATE TABLE parts_2_1 PARTITION OF "Parts 2" FOR VALUES FROM (10) TO (15);
		CREATE TABLE parts_3 (id int PRIMARY KEY); ALTER TABLE parts ATTACH PARTITION parts_3 FOR VALUES FROM (20) TO (30)`)
	uncovered("public.parts_2_1", "public.parts_3")
	w.does(`INSERT INTO parts VALUES (1), (10), (20)`, `PUT 1 {"id":1}`, `PUT 10 {"id":10}`, `PUT 20 {"id":20}`)
	w.does(`TRUNCATE parts`, `DELETE 10`, `DELETE 20`, `DELETE 1`) // TRUNCATE now covers the new partitions
	w.does(`INSERT INTO parts VALUES (1), (10), (20)`, `PUT 1 {"id":1}`, `PUT 10 {"id":10}`, `PUT 20 {"id":20}`)
	w.attach(outbox.Capture{Table: "parts"})
	uncovered()
	w.does(`TRUNCATE parts_2_1`, `DELETE 10`)
	w.does(`TRUNCATE parts`, `DELETE 1`, `DELETE 20`)
}
