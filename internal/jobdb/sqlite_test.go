package jobdb_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// TestReserveAgain reserves a file again once the first node has released it, in the same process.
func TestReserveAgain(t *testing.T) {
	t.Parallel()
	db, err := jobdb.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 2 {
		first, err := db.Reserve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Reserve(t.Context()); !errors.Is(err, jobdb.ErrReserved) {
			t.Errorf("reserved twice: %v", err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
