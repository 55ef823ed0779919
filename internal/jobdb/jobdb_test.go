package jobdb_test

import (
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// TestListsKept: of queries with lists of all lengths up to 500, only some are kept.
func TestListsKept(t *testing.T) {
	t.Parallel()
	db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := db.Kept()
	err = db.View(t.Context(), func(tx jobdb.Tx) error {
		var args []any
		for n := range 500 {
			args = append(args, n)
			var count int
			if _, err := jobdb.One(t.Context(), tx, "SELECT count(*) FROM @version WHERE version IN ("+jobdb.List(1, len(args))+")", args, &count); err != nil {
				return err
			}
		}
		return nil
	})
	if kept := db.Kept() - before; err != nil || kept > 50 {
		t.Errorf("%d statements are kept, error %v", kept, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
