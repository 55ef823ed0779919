package fold

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSweep: files left behind by a killed fold are removed, but files that may be in use are not.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	long := time.Now().Add(-2 * leftover)
	for name, files := range map[string]map[string]time.Time{
		tempPrefix + "left":  {"state.db": long},
		tempPrefix + "used":  {"state.db": long, "state.db-wal": time.Now()},
		tempPrefix + "young": {},
		"other":              {"state.db": long},
	} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, at := range files {
			if err := os.WriteFile(filepath.Join(path, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(path, file), at, at); err != nil {
				t.Fatal(err)
			}
		}
		if len(files) > 0 {
			if err := os.Chtimes(path, long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	sweep(dir)
	for name, want := range map[string]bool{"left": false, "used": true, "young": true} {
		if _, err := os.Stat(filepath.Join(dir, tempPrefix+name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); err != nil {
		t.Error(err)
	}
}
