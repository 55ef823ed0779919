package installed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFind looks, from a directory below the root, for packages that are installed, and for
// packages that are not.
func TestFind(t *testing.T) {
	top := t.TempDir()
	below := filepath.Join(top, "a", "b")
	// The digest of an empty file begins with e3b0c44298fc.
	found := filepath.Join(top, ".cache", "name-e3b0c44298fc")
	for _, dir := range []string{below, filepath.Join(found, "packages")} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"go.mod", "a/lock"} {
		if err := os.WriteFile(filepath.Join(top, file), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(below)
	p := Packages{Name: "name", Source: "a", Lock: "lock", Has: "packages", Target: "it"}
	if source, dir, err := p.Find(); source != filepath.Join(top, "a") || dir != found || err != nil {
		t.Errorf("%s, %s, %v", source, dir, err)
	}
	p.Has = "more"
	if _, _, err := p.Find(); err == nil || !strings.HasSuffix(err.Error(), `: run "make it"`) {
		t.Error(err)
	}
}
