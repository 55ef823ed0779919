package outbox_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestMarkOfTransactions: a transaction that has drawn an id may still make rows visible until it ends,
// whichever way it ends.
func TestMarkOfTransactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var m outbox.Watermark
	look := func(what string, want int64) {
		t.Helper()
		if got, err := m.Look(t.Context(), w.db); err != nil || got != want {
			t.Errorf("%s: settled up to %d, %v; want %d", what, got, err, want)
		}
	}
	look("no id was drawn", 0)
	w.publish("1", "2")
	look("all have ended", 2)

	reader, locker := w.begin(), w.begin()
	w.in(reader, "SELECT FROM feedctl.outbox")
	w.in(locker, "LOCK TABLE feedctl.outbox IN ROW SHARE MODE")
	w.publish("3")
	look("other transactions only read", 3)

	plain, function := w.begin(), w.begin()
	w.in(plain, "INSERT INTO feedctl.outbox (feed) VALUES ('elsewhere')") // 4
	w.in(function, "SELECT feedctl.publish('things', 'k')")               // 5
	w.publish("6")
	look("two are open", 3)
	later := w.begin()
	w.in(later, "SELECT feedctl.publish('things', 'k')") // 7
	w.commit(plain)
	look("one of the two is open", 3)
	w.in(function, "PREPARE TRANSACTION 'function'")
	look("a prepared transaction", 3)
	w.exec("COMMIT PREPARED 'function'")
	look("both have ended", 6)

	w.in(later, "SAVEPOINT s")
	w.in(later, "SELECT feedctl.publish('things', 'k')") // 8
	w.in(later, "ROLLBACK TO s")
	look("a partial rollback", 6)
	if err := later.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	look("a complete rollback", 8)

	part := w.begin()
	w.in(part, "SAVEPOINT s")
	w.in(part, "SELECT feedctl.publish('things', 'k')") // 9
	look("a savepoint is open", 8)
	w.in(part, "ROLLBACK TO s")
	look("all of its ids were rolled back", 9)
}

// TestRowsAreReadOnce: rows are read only once, even while an old snapshot prevents deleted rows from
// being removed, and rows after the batch are not read.
func TestRowsAreReadOnce(t *testing.T) {
	t.Parallel()
	const backlog, moves = 3000, 30
	w := newWorld(t)
	w.exec(`INSERT INTO feedctl.outbox (feed) SELECT 'things' FROM generate_series(1, $1)`, backlog)
	old := w.begin()
	w.in(old, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	w.in(old, "SELECT FROM feedctl.outbox LIMIT 1")
	config := w.pool.Config()
	config.ConnConfig.RuntimeParams["application_name"] = "dead"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := w.run(outbox.Use(pool, schema.Default), outbox.Config{Store: memory.New(), MaxRows: 100})
	for n := range int64(moves) {
		for r.Stats().Rows < backlog+n { // a query of the table would itself read rows
			w.exec("SELECT pg_sleep(0.002)")
		}
		w.publish("one")
	}
	r.mustStop(t)
	pool.Close()
	// Statistics are complete once the sessions have ended.
	for get[bool](w, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'dead' AND datname = current_database()) FROM pg_sleep(0.002)`) {
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
	}
	read := get[int](w, `SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'outbox_pkey'`)
	if read < backlog || read > 10*backlog {
		t.Errorf("%d index entries were read for %d rows", read, backlog+moves)
	}
	w.commit(old)
}
