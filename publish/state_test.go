package publish

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
)

func TestState(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	r, err := OpenState(path, "store#a")
	if err != nil || r.Published != 0 {
		t.Fatalf("new file: %+v, %v", r, err)
	}
	for _, n := range []int64{1, 4096, 5000} {
		if err := r.save(n, &feed.Entity{Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := OpenState(path, "store#a"); err != nil || r.Published != 5000 {
		t.Errorf("read back %+v, %v", r, err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("temporary files are left: %v", files)
	}
	for _, text := range []string{"", "12", `{"published":-1}`, "PNG"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenState(path, "store#a"); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("file with %q: %v", text, err)
		}
	}
}
