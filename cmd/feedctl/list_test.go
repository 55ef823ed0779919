package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestList lists feeds and snapshots, one of them damaged, as a document and line by line.
func TestList(t *testing.T) {
	eachStore(t, func(t *testing.T, store string) {
		for _, name := range []string{"a", "b", "c"} {
			mustRun(t, zones, "publish", store+"#"+name, "--key", "/name", "--max-page-entities", "2")
		}
		mustRun(t, "", "snapshot", "from-feed", store+"#b")
		all := mustRun(t, "", "list", store, "--json")
		lines := strings.Split(strings.TrimSuffix(all, "\n"), "\n")
		if len(lines) != 4 || !strings.Contains(lines[0], `{"kind":"feed","name":"a","pages":2,"newest":{"entities":1,`) ||
			!strings.Contains(lines[3], `{"kind":"snapshot","name":"b","pages":1,"newest":{"entities":3,`) {
			t.Fatalf("list: %s", all)
		}
		if got := mustRun(t, "", "list", store, "--json", "--limit", "1", "--after", "a"); got != lines[1]+"\n" {
			t.Errorf("the second line is %s, want %s", got, lines[1])
		}
		if got := mustRun(t, "", "list", store); strings.Count(got, "\n") != 5 || !strings.HasPrefix(got, "KIND ") {
			t.Errorf("table: %s", got)
		}
	})
	empty := "file:" + filepath.Join(t.TempDir(), "empty")
	mustRun(t, "", "init", empty)
	if got := mustRun(t, "", "list", empty); got != "" {
		t.Errorf("list of an empty store: %s", got)
	}
}
