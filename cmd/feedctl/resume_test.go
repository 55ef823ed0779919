package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestResumeFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	r, err := openResumeFile(path)
	if err != nil || r.Published != 0 {
		t.Fatalf("new file: %+v, %v", r, err)
	}
	for _, n := range []int64{1, 4096, 5000} {
		if err := r.save(n); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := openResumeFile(path); err != nil || r.Published != 5000 {
		t.Errorf("read back %+v, %v", r, err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("temporary files are left: %v", files)
	}
	for _, text := range []string{"", "12", `{"published":-1}`, "PNG"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openResumeFile(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("file with %q: %v", text, err)
		}
	}
}
