package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOldFileStore reads and continues a directory that an earlier version wrote: without
// checksums of the metadata, and without "settled".
func TestOldFileStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS("testdata/file-store-1")); err != nil {
		t.Fatal(err)
	}
	store, out := "file:"+dir, t.TempDir()
	for _, step := range []struct {
		args string
		want string // on stdout
	}{
		{"verify STORE#things", "3 pages, 7 entities"},
		{"verify --index STORE#things", "no violations"},
		{"consume STORE#things --into jsonl:OUT/from-beginning.jsonl", "consumed 7 entities"},
		{"consume STORE#things --from snapshot --into jsonl:OUT/from-snapshot.jsonl", "consumed 7 entities"},
		{"repair STORE#things", ""},
		{"publish STORE#things - --key /id", "published 1 entity"},
		{"consume STORE#things --into jsonl:OUT/from-beginning.jsonl", "consumed 1 entity"},
		{"snapshot from-feed STORE#things", "8 entities"},
		{"verify STORE#things", "8 entities"},
	} {
		args := strings.Fields(strings.NewReplacer("STORE", store, "OUT", out).Replace(step.args))
		code, stdout, stderr := feedctl(t, `{"id":"k8"}`+"\n", args...)
		if code != 0 || !strings.Contains(stdout, step.want) {
			t.Fatalf("%s: exit status %d\n%s%s", step.args, code, stdout, stderr)
		}
	}
	lines, err := os.ReadFile(filepath.Join(out, "from-beginning.jsonl"))
	if err != nil || strings.Count(string(lines), "\n") != 8 {
		t.Errorf("from-beginning.jsonl has %q, %v", lines, err)
	}
}
