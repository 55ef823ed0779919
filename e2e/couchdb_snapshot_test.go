package e2e

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchdiff"
	"github.com/feedctl/feedctl/internal/couchtest"
)

// snapshotRounds is the number of snapshots that TestCouchDBSnapshot writes. Before every
// other one, a run is killed.
const snapshotRounds = 4

// TestCouchDBSnapshot writes snapshots while a writer creates, updates and deletes
// documents, and creates and resolves conflicts. A database filled from any of them, and
// then from the feed, must equal the source.
func TestCouchDBSnapshot(t *testing.T) {
	t.Parallel()
	writer := &couchWriter{rng: rand.New(rand.NewPCG(newSeed(t), 1)), db: couchtest.NewDB(t)}
	dir := t.TempDir()
	store, index := "file:"+dir+"/store#copy", dir+"/index"
	bridge := []string{
		"bridge", "couchdb", writer.db, store, "--revs", "--conflicts", "--design-docs", "--attachments", "multipart",
		"--index", index, "--max-page-entities", "50", "--log-level", "error",
	}
	consume := func(to string, more ...string) {
		feedctl(t, append([]string{"consume", store, "--into", "couchdb:" + to, "--log-level", "error"}, more...)...)
	}
	var targets []string
	meanwhile := int64(0)
	for round := range snapshotRounds {
		written := make(chan error, 1)
		go func() {
			var err error
			for range *couchWrites / 2 / snapshotRounds {
				if err = writer.write(t.Context()); err != nil {
					break
				}
			}
			written <- err
		}()
		before := writer.done.Load()
		if round == 0 {
			waitFor(t, func() string { return "nothing is written" }, func() bool { return writer.done.Load() > 0 })
		}
		if round%2 == 1 {
			killed := &process{t: t, name: "bridge", args: slices.Concat(bridge, []string{"--snapshot"})}
			table := modified(t, index+".state-wal")
			killed.start()
			waitFor(t, killed.stderr.String, func() bool { return killed.ended() || modified(t, index+".state-wal") != table })
			killed.kill(os.Kill)
		}
		feedctl(t, slices.Concat(bridge, []string{"--snapshot"})...)
		meanwhile += writer.done.Load() - before
		to := couchtest.NewDB(t)
		consume(to, "--from", "snapshot")
		targets = append(targets, to)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
	}
	if meanwhile == 0 {
		t.Error("nothing was written during the snapshots")
	}
	feedctl(t, bridge...)
	for round, to := range targets {
		consume(to)
		differences, err := couchdiff.Compare(t.Context(), writer.db, to)
		if err != nil || len(differences) > 0 {
			t.Errorf("snapshot %d: %v\n%s", round, err, strings.Join(differences, "\n"))
		}
	}
}

// modified returns the modification time of a file, or zero if it does not exist.
func modified(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime().String()
}
