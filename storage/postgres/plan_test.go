package postgres_test

import (
	"fmt"
	"testing"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/storage"
)

// TestPlans: a session keeps the plans of writes, so even plans that were made while a table fits
// into one page of the server must use the indexes.
func TestPlans(t *testing.T) {
	t.Parallel()
	url := pgtest.StartOwn(t, "autovacuum=off").URL("a")
	store, conn := open(t, url), connect(t, url)
	defer store.Close()
	at := put(t, store, "a")
	run(t, conn, "VACUUM ANALYZE feedctl.objects", "VACUUM ANALYZE feedctl.chunks")
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := store.WithTx(tx)
	const rounds = 10 // a plan is kept after its fifth execution
	for n := range rounds {
		if _, err := s.Create(t.Context(), fmt.Sprintf("b/%d", n), storage.Meta{}, storage.Bytes([]byte("b"))); err != nil {
			t.Fatal(err)
		}
		if at, err = s.Append(t.Context(), "a", at, storage.Meta{}, storage.Bytes([]byte("a"))); err != nil {
			t.Fatal(err)
		}
		if at, err = s.Replace(t.Context(), "a", at, storage.Meta{}, storage.Bytes([]byte("c"))); err != nil {
			t.Fatal(err)
		}
	}
	var whole, byIndex int
	err = tx.QueryRow(t.Context(), `
		SELECT sum(seq_scan), sum(idx_scan) FROM pg_stat_xact_user_tables WHERE relname IN ('objects', 'chunks')`).Scan(&whole, &byIndex)
	if err != nil {
		t.Fatal(err)
	}
	if whole > 0 || byIndex < 4*rounds {
		t.Errorf("tables were scanned sequentially %d times, by an index %d times", whole, byIndex)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestPageIsOneStatement: a page of a producer's default size, with its closing delimiter,
// is written in one statement and thus without a savepoint.
func TestPageIsOneStatement(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	store, conn := open(t, url), connect(t, url)
	defer store.Close()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		key  string
		size int
		want bool
	}{{"page", 1<<20 + 200, true}, {"larger", 2 << 20, false}} {
		if _, err := store.WithTx(tx).Create(t.Context(), test.key, storage.Meta{}, storage.Bytes(make([]byte, test.size))); err != nil {
			t.Fatal(err)
		}
		var got bool // with a savepoint, xmin would be the ID of the subtransaction
		err := tx.QueryRow(t.Context(), "SELECT xmin = pg_current_xact_id()::xid FROM feedctl.objects WHERE key = $1", test.key).Scan(&got)
		if err != nil {
			t.Fatal(err)
		}
		if got != test.want {
			t.Errorf("%d bytes are written as one statement: %v", test.size, got)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}
