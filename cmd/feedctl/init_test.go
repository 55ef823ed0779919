package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/pgtest"
)

// TestReadersCreateNothing gives the URL of a missing store to every command that reads. Each must
// say so, name the remedy, and create nothing.
func TestReadersCreateNothing(t *testing.T) {
	dir := t.TempDir()
	database := pgtest.Start(t).URL("none")
	for _, store := range []string{"file:" + filepath.Join(dir, "none"), database} {
		for _, args := range [][]string{
			{"serve", "--listen", "127.0.0.1:0"},
			{"serve", "--listen", "127.0.0.1:0", "--writable"},
			{"inspect", "zones"},
			{"verify", "zones"},
			{"consume", "zones", "--into", "-"},
			{"consume", "zones", "--into", "-", "--follow"},
			{"tail", "zones"},
			{"doctor"},
			{"snapshot", "list"},
			{"snapshot", "from-feed", "zones"},
			{"snapshot", "delete", "zones", "20200101T000000.000Z-aaaaaaaa"},
			{"snapshot", "collect", "zones"},
			{"prune", "zones", "--keep-pages", "1"},
			{"delete", "zones", "--yes"},
			{"bridge", "quarantine", "zones"},
			{"migrate"},
		} {
			code, stdout, stderr := feedctl(t, "", append(args, "--store", store)...)
			if code != exit.NotFound || !strings.Contains(stderr, "there is no store") || !strings.Contains(stderr, `"feedctl init `) {
				t.Errorf("%s: exit status %d: %s%s", strings.Join(args, " "), code, stdout, stderr)
			}
		}
		var made initJSON
		for _, want := range []bool{true, false} {
			if err := json.Unmarshal([]byte(mustRun(t, "", "init", store, "--json")), &made); err != nil || made.Made != want {
				t.Errorf("init %s: %+v, %v", store, made, err)
			}
		}
		mustRun(t, "", "snapshot", "list", "--store", store)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("directory has %v, %v", entries, err)
	}
}

// TestWritersCreate: commands that write create the store.
func TestWritersCreate(t *testing.T) {
	for _, args := range [][]string{{"publish", "zones", "--key", "/name"}, {"snapshot", "create", "zones", "--key", "/name"}} {
		store := "file:" + filepath.Join(t.TempDir(), "new", "store")
		mustRun(t, zones, append(args, "--store", store)...)
		mustRun(t, "", "snapshot", "list", "--store", store)
	}
}
