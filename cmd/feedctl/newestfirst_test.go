package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
)

// TestNewestFirst fills sinks newest first, from a store and from a server: back to the beginning of a
// feed, and to its snapshot.
func TestNewestFirst(t *testing.T) {
	dir := t.TempDir()
	store := "file:" + filepath.Join(dir, "store")
	feed := store + "#zones"
	for range 3 {
		mustRun(t, zones, "publish", feed, "--key", "/name", "--max-page-entities", "2")
	}
	served := serveStore(t, store) + "/feeds/zones"
	sink := func(name string) string { return "sqlite:" + filepath.Join(dir, name) + "?table=zones" }
	for name, from := range map[string]string{"stored.db": feed, "served.db": served} {
		if got := mustRun(t, "", "consume", from, "--into", sink(name), "--newest-first"); !strings.HasPrefix(got, "consumed 9 entities into ") {
			t.Errorf("from %s: %s", from, got)
		}
		if got := mustRun(t, "", "consume", from, "--into", sink(name), "--newest-first"); !strings.HasPrefix(got, "consumed 0 entities into ") {
			t.Errorf("from %s again: %s", from, got)
		}
	}

	mustRun(t, "", "snapshot", "from-feed", feed)
	mustRun(t, zones, "publish", feed, "--key", "/name", "--max-page-entities", "2")
	if got := mustRun(t, "", "consume", served, "--into", sink("snapshot.db"), "--newest-first", "--from", "snapshot"); !strings.HasPrefix(got, "consumed 6 entities into ") {
		t.Errorf("from the snapshot: %s", got)
	}

	into := filepath.Join(dir, "out.jsonl")
	for _, args := range [][]string{{"--into", "jsonl:" + into}, {"--into", sink("latest.db"), "--from", "latest"}} {
		code, _, stderr := feedctl(t, "", append([]string{"consume", feed, "--newest-first"}, args...)...)
		if code != exit.Usage || !strings.Contains(stderr, "newest") {
			t.Errorf("%v: exit status %d\n%s", args, code, stderr)
		}
	}
	if _, err := os.Stat(into); err == nil {
		t.Error("a sink that was refused was created")
	}
}
