package jobdb_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// TestReserveAgain: once a node has released a file, another node can reserve it in the same
// process.
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

// TestMigratedAtOnce: several processes can open a new file at the same time.
func TestMigratedAtOnce(t *testing.T) {
	t.Parallel()
	if url := os.Getenv("FEEDCTL_TEST_MIGRATE"); url != "" {
		db, err := jobdb.Open(t.Context(), url, jobdb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		return
	}
	for range 5 {
		url := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
		var all errgroup.Group
		for range 4 {
			all.Go(func() error {
				open := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMigratedAtOnce$")
				open.Env = append(os.Environ(), "FEEDCTL_TEST_MIGRATE="+url)
				if out, err := open.CombinedOutput(); err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			t.Error(err)
		}
	}
}
