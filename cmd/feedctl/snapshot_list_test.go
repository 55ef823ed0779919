package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/stores"
)

// TestForeignIndexes: foreign objects among the indexes of snapshots are ignored.
func TestForeignIndexes(t *testing.T) {
	url := "file:" + filepath.Join(t.TempDir(), "store")
	var made task.Snapshot
	mustRun(t, zones, "publish", url+"#zones", "--key", "/name")
	out := mustRun(t, "", "snapshot", "from-feed", url+"#zones", "--json")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	store, err := stores.Open(t.Context(), url, stores.Options{})
	if err != nil {
		t.Fatal(err)
	}
	foreign := []string{"00-readme.txt", made.ID + ".bak", "zones"}
	for _, name := range foreign {
		if _, err := store.Create(t.Context(), layout.SnapshotIndex("zones", name), storage.Meta{}, storage.Bytes([]byte("not an index"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--store", url}, {url + "#zones"}} {
		code, stdout, stderr := feedctl(t, "", append([]string{"snapshot", "list", "--json"}, args...)...)
		var list []task.Snapshot
		if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != exit.OK || len(list) != 1 || list[0].ID != made.ID {
			t.Errorf("exit status %d: %s%s (%v)", code, stdout, stderr, err)
		}
		for _, name := range foreign {
			if !strings.Contains(stderr, layout.SnapshotIndex("zones", name)) {
				t.Errorf("stderr does not contain %s:\n%s", name, stderr)
			}
		}
	}
	// The newest of the snapshots is found.
	mustRun(t, "", "consume", url+"#zones", "--from", "snapshot", "--into", "jsonl:"+filepath.Join(t.TempDir(), "out"))
	if store, err = stores.Open(t.Context(), url, stores.Options{}); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var left []string
	for entry, err := range store.List(t.Context(), layout.SnapshotIndexes("zones"), "") {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, strings.TrimPrefix(entry.Key, layout.SnapshotIndexes("zones")))
	}
	if want := append(foreign, made.ID); !slices.Equal(slices.Sorted(slices.Values(left)), slices.Sorted(slices.Values(want))) {
		t.Errorf("left: %q", left)
	}
}
