package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/repair"
)

// TestRepairSeveral: one run examines several feeds, or all of a store, and prints a result
// for each. Its status says whether something is left to repair. A feed that cannot be
// repaired does not affect the others.
func TestRepairSeveral(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	store := "file:" + dir
	object := func(feed, name string) string { return filepath.Join(dir, "objects", "feeds", feed, name) }
	for _, feed := range []string{"good", "gone", "ill", "lost", "worse"} {
		mustRun(t, zones, "publish", store+"#"+feed, "--key", "/name", "--max-page-entities", "1")
	}
	remove := func(files string) {
		t.Helper()
		found, err := filepath.Glob(files)
		if err != nil || len(found) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range found {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustRun(t, "", "delete", store+"#gone", "--yes")
	remove(object("ill", "pages/000000000002@meta"))
	remove(object("lost", "pages/*@meta"))
	remove(object("worse", "pages/000000000001@meta"))
	// For now, a directory blocks the path of a file to be written.
	blocked := object("worse", "pages/000000000001@meta")

	run := func(code int, args ...string) (results map[string]repair.Report, stderr string) {
		t.Helper()
		got, stdout, stderr := feedctl(t, "", append([]string{"repair", "--json"}, args...)...)
		if got != code {
			t.Fatalf("repair %v: exit status %d: %s%s", args, got, stdout, stderr)
		}
		results = map[string]repair.Report{}
		for line := range strings.Lines(stdout) {
			var r repair.Report
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			results[r.Feed] = r
		}
		return results, stderr
	}
	results, stderr := run(exit.Invalid, "--all", store)
	if len(results) != 4 || len(results["good"].Steps) > 0 || len(results["ill"].Steps) != 1 || results["ill"].Applied || len(results["lost"].Steps) != 3 {
		t.Errorf("dry run: %+v", results)
	}
	if !strings.Contains(stderr, "3 of 4 feeds need repair") {
		t.Errorf("dry run: %s", stderr)
	}
	if again, _ := run(exit.Invalid, "--all", "--store", store); len(again) != 4 {
		t.Errorf("dry run: %+v", again)
	}
	if results, stderr = run(exit.NotFound, store+"#none", store+"#good", "--apply"); len(results) != 1 || !strings.Contains(stderr, "1 of 2 feeds failed") {
		t.Errorf("a feed that is missing: %+v, %s", results, stderr)
	}
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	results, stderr = run(exit.Error, "--all", store, "--apply")
	if results["worse"].Error == "" || results["worse"].Applied || !results["ill"].Applied || !strings.Contains(stderr, "1 of 4 feeds failed") {
		t.Errorf("a feed that cannot be repaired: %+v, %s", results, stderr)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	if results, _ = run(exit.OK, "--all", store, "--apply"); len(results["worse"].Steps) == 0 || len(results["ill"].Steps) > 0 {
		t.Errorf("the rest: %+v", results)
	}
	for _, feed := range []string{"good", "ill", "lost", "worse"} {
		mustRun(t, "", "verify", store+"#"+feed)
	}
	if out := mustRun(t, "", "repair", store+"#good", store+"#ill"); strings.Count(out, "nothing to repair") != 2 {
		t.Errorf("two: %s", out)
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exit.Usage, "needs a FEED, or --all"},
		{[]string{"--all", store, store}, exit.Usage, "takes one STORE"},
		{[]string{"--all", "file:" + t.TempDir() + "/none"}, exit.NotFound, "no store"},
	} {
		code, _, stderr := feedctl(t, "", append([]string{"repair"}, test.args...)...)
		if code != test.code || !strings.Contains(stderr, test.want) {
			t.Errorf("repair %v: exit status %d: %s", test.args, code, stderr)
		}
	}
}
