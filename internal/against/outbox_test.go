package against_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/internal/against"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestTable compares a captured table with its feed. Some rows have changes that wait in the outbox, or
// changes that were made without the triggers; some rows are large.
func TestTable(t *testing.T) {
	t.Parallel()
	server, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	url, err := server.Database("shop")
	if err != nil {
		t.Fatal(err)
	}
	db, err := outbox.Create(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	store := memory.New()
	pages := fromstore.New(store, fromstore.Config{})
	reader, err := consumer.New(consumer.Config{Source: pages})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pages.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	move := func() {
		t.Helper()
		runner, err := db.NewRunner(outbox.Config{Feed: "products", Store: store})
		if err == nil {
			err = runner.Drain(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func(want ...string) {
		t.Helper()
		report, err := against.Compare(t.Context(), against.Config{
			Source: against.Table{Outbox: db, Feed: "products"}, Client: reader, URL: pages.Feed("products"), Deep: true, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range report.Differences {
			got = append(got, d.Kind+" "+d.Key)
		}
		if !slices.Equal(got, want) || report.Copy || report.Changing {
			t.Fatalf("%q, want %q: %+v", got, want, report)
		}
	}
	exec(`CREATE TABLE products (sku text PRIMARY KEY, price numeric, note text, at timestamptz DEFAULT '2026-01-02 03:04:05+02', hidden int)`)
	if err := db.Rows(t.Context(), "products", nil); !errors.Is(err, outbox.ErrNotCaptured) {
		t.Errorf("%v, want ErrNotCaptured", err)
	}
	if err := db.Attach(t.Context(), outbox.Capture{Feed: "products", Table: "products", Columns: []string{"sku", "price", "note", "at"}}); err != nil {
		t.Fatal(err)
	}
	exec(`INSERT INTO products (sku, price, note) SELECT 'p' || n, n * 1.10, 'ä "x"' FROM generate_series(1, 500) AS n`)
	exec(`INSERT INTO products (sku, note) VALUES ('large', $1), ('a/ä %', NULL)`, strings.Repeat("x", 3<<20))
	move()
	check()
	exec(`SET TimeZone = 'Asia/Tokyo'; UPDATE products SET hidden = 1`) // hidden is not a published column
	check()
	exec(`UPDATE products SET price = 2.20 WHERE sku = 'p1'; DELETE FROM products WHERE sku = 'p2'; INSERT INTO products (sku) VALUES ('new')`)
	check("missing new", "body p1", "extra p2")
	move()
	check()
	exec(`ALTER TABLE products DISABLE TRIGGER USER; UPDATE products SET note = note || 'y' WHERE sku IN ('p3', 'large'); DELETE FROM products WHERE sku = 'p4'; ALTER TABLE products ENABLE TRIGGER USER`)
	move()
	check("body large", "body p3", "extra p4")
}
