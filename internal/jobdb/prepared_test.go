package jobdb_test

import (
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// TestPrepared executes statements until they are prepared, and then changes their table: the statements
// return the new contents. Statements that cannot be executed twice still fail.
func TestPrepared(t *testing.T) {
	t.Parallel()
	db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string, args ...any) error {
		return db.Begin(t.Context(), func(tx jobdb.Tx) error {
			_, err := tx.Exec(t.Context(), sql, args...)
			return err
		})
	}
	const create, insert, first = "CREATE TABLE @prepared (a bigint)", "INSERT INTO @prepared (a) VALUES ($1)", "SELECT * FROM @prepared ORDER BY 1 LIMIT 1"
	read := func(into ...any) {
		t.Helper()
		err := db.View(t.Context(), func(tx jobdb.Tx) error {
			_, err := jobdb.One(t.Context(), tx, first, nil, into...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := exec(create); err != nil {
		t.Fatal(err)
	}
	before := db.Prepared()
	var a, b int
	for n := range 4 {
		if err := exec(insert, 7+n); err != nil {
			t.Fatal(err)
		}
		if read(&a); a != 7 {
			t.Errorf("the first row is %d after %d insertions", a, n+1)
		}
		if err := exec(create); err == nil {
			t.Error("a table was created twice")
		}
	}
	if n := db.Prepared() - before; n != 2 {
		t.Errorf("%d statements are prepared, want 2", n)
	}
	if err := exec("ALTER TABLE @prepared ADD COLUMN b bigint DEFAULT 3"); err != nil {
		t.Fatal(err)
	}
	if read(&a, &b); a != 7 || b != 3 {
		t.Errorf("the first row is %d, %d after the table was changed", a, b)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
