package jobdb_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// TestLanded: migrations that may have been applied to databases never change; any further change of the
// tables needs a new migration.
func TestLanded(t *testing.T) {
	t.Parallel()
	landed := map[string]string{
		"001_jobs.sql":   "aedc6864c2162c4fe437e89cc255fc0ac388f6b702f3cdf73f93d8aca109a487",
		"002_behind.sql": "ac9f891d737889a03cc20f8c1a55e26282a1595b63810470fe2f7ec858affeba",
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
