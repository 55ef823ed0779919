package jobdb_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// TestLanded compares migrations with what databases have been migrated by. They do not change: what is
// to be different needs a migration of its own.
func TestLanded(t *testing.T) {
	t.Parallel()
	landed := map[string]string{
		"001_jobs.sql":   "aedc6864c2162c4fe437e89cc255fc0ac388f6b702f3cdf73f93d8aca109a487",
		"002_behind.sql": "096d26b7d0a6c02b5f50dc1ed54fda5b6c4008eed8648f3821b5540318eead81",
	}
	names, err := filepath.Glob("sql/*.sql")
	if err != nil || len(names) != len(landed) {
		t.Errorf("%d migrations (%v), want %d", len(names), err, len(landed))
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if got := hex.EncodeToString(sum[:]); got != landed[filepath.Base(name)] {
			t.Errorf("%s has the digest %s, want %s", name, got, landed[filepath.Base(name)])
		}
	}
}
