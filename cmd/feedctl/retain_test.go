package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/storage/stores"
)

// TestRetain sets a policy, has it carried out, and removes it.
func TestRetain(t *testing.T) {
	dir := t.TempDir()
	feed := "file:" + filepath.Join(dir, "store") + "#zones"
	mustRun(t, zones, "publish", feed, "--key", "/name")
	refused := func(status int, want string, args ...string) {
		t.Helper()
		code, _, stderr := feedctl(t, "", append([]string{"retain"}, args...)...)
		if code != status || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, %s", args, code, stderr)
		}
	}
	refused(exit.NotFound, "no retention policy", feed)
	refused(exit.NotFound, "no retention policy", feed, "--off")
	refused(exit.Usage, "--keep-age is missing", feed, "--snapshot-every", "1h")
	refused(exit.Usage, "less than 1h", feed, "--keep-age", "59m")
	refused(exit.Usage, "at least one", feed, "--keep-age", "1h", "--keep-snapshots", "0")
	refused(exit.Usage, "--key", feed, "--keep-age", "1h", "--key", "no pointer")
	refused(exit.Usage, "cannot be combined", feed, "--off", "--run")
	refused(exit.NotFound, "no pages", strings.TrimSuffix(feed, "zones")+"zoned", "--keep-age", "1h")

	if got, want := mustRun(t, "", "retain", feed, "--keep-age", "30d"), "feed zones keeps entities for 30d and 3 snapshots, one every 24h0m\nwould make a snapshot; would delete 0 pages (0 B), leaving 1 to 1; would delete 0 snapshots, leaving 1\n"; got != want {
		t.Errorf("set: %s", got)
	}
	if got := mustRun(t, "", "retain", feed, "--keep-snapshots", "2"); !strings.Contains(got, "30d and 2 snapshots, one every 24h0m") {
		t.Errorf("changed: %s", got)
	}
	if got := mustRun(t, "", "snapshot", "list", feed); strings.Contains(got, "zones/") {
		t.Errorf("a snapshot was made before the policy was carried out: %s", got)
	}
	tables := filepath.Join(dir, "tables")
	if got := mustRun(t, "", "retain", feed, "--run", "--tables", tables); !strings.Contains(got, "made a snapshot; deleted 0 pages") {
		t.Errorf("run: %s", got)
	}
	if _, err := os.Stat(filepath.Join(tables, "zones.db")); err != nil {
		t.Error(err)
	}
	if got := mustRun(t, "", "retain", feed, "--json"); !strings.Contains(got, `"policy":{"keepAgeSeconds":2592000,"snapshotEverySeconds":86400,"keepSnapshots":2},"dryRun":true,"snapshotMade":false`) {
		t.Errorf("as JSON: %s", got)
	}
	mustRun(t, "", "retain", feed, "--off")
	refused(exit.NotFound, "no retention policy", feed, "--run")
	mustRun(t, "", "retain", feed, "--keep-age", "1h")
	mustRun(t, "", "delete", feed, "--yes")
	if left, err := filepath.Glob(filepath.Join(dir, "store", "objects", "feeds", "zones", "retention*")); err != nil || len(left) > 0 {
		t.Errorf("after the feed was deleted: %v, %v", left, err)
	}
}

// TestGapIsClosed: a consumer was away for longer than the feed is kept. It is told where to continue, and
// then its tables and files have what the feed has, without what was deleted in the gap.
func TestGapIsClosed(t *testing.T) {
	dir := t.TempDir()
	store := "file:" + filepath.Join(dir, "store")
	feed := store + "#zones"
	mustRun(t, `{"id":"deleted"}`+"\n"+`{"id":"kept","n":1}`, "publish", feed, "--key", "/id", "--max-page-entities", "2")
	url := serveStore(t, store) + "/feeds/zones"
	sinks := map[string]string{"table": "sqlite:" + filepath.Join(dir, "t.db"), "files": "dir:" + filepath.Join(dir, "files"), "log": "jsonl:" + filepath.Join(dir, "log")}
	for _, into := range sinks {
		mustRun(t, "", "consume", url, "--into", into)
	}
	mustRun(t, `{"id":"deleted","op":"DELETE"}`+"\n"+`{"id":"kept","n":2}`, "publish", feed, "--key", "/id", "--op-field", "/op", "--max-page-entities", "2")
	mustRun(t, `{"id":"new"}`, "publish", feed, "--key", "/id", "--max-page-entities", "2")
	mustRun(t, "", "retain", feed, "--keep-age", "30d")
	mustRun(t, "", "retain", feed, "--run")
	opened, err := stores.Open(t.Context(), store, stores.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chain.RaiseFloor(t.Context(), opened, "zones", 3); err != nil { // as if they were 30 days old
		t.Fatal(err)
	}
	for name, into := range sinks {
		code, _, stderr := feedctl(t, "", "consume", url, "--into", into)
		if code != exit.Gap || !strings.Contains(stderr, "the feed keeps entities for 30 days; its newest snapshot is "+strings.TrimSuffix(url, "feeds/zones")+"snapshots/zones") {
			t.Errorf("%s: exit status %d, %s", name, code, stderr)
		}
		code, stdout, stderr := feedctl(t, "", "consume", url, "--into", into, "--on-gap", "snapshot", "--json")
		want, warned := `"removed":1`, strings.Contains(stderr, "the sink keeps what was deleted")
		if name == "log" {
			want = `"gaps":1`
		}
		if code != exit.OK || !strings.Contains(stdout, want) || warned != (name == "log") {
			t.Errorf("%s: exit status %d, %s%s", name, code, stdout, stderr)
		}
	}
	files, err := os.ReadDir(filepath.Join(dir, "files"))
	if err != nil || len(files) != 3 || files[1].Name() != "kept" || files[2].Name() != "new" {
		t.Errorf("the directory has %v, %v", files, err)
	}
}
