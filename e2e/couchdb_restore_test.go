package e2e

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/couchdiff"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/s3test"
)

var restorePoints = flag.Int("restore-points", 2, "points that TestRestoreCouchDB restores from each store")

// A point is a moment in a database's history.
type point struct {
	id    string // Content-ID of the last entity of the feed
	at    string // its time, if no later entity has the same time; otherwise ""
	state couchdiff.State
}

// TestRestoreCouchDB backs a database up into a feed after each of several random changes, with
// snapshots between them, and prunes the pages before the first snapshot. Then random points are restored into new
// databases, some by runs that are killed. Each must be equal to what the source was then: documents, leaf
// revisions and attachments.
func TestRestoreCouchDB(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) { restoreCouchDB(t, "file:"+t.TempDir()) })
	t.Run("S3", func(t *testing.T) { restoreCouchDB(t, s3test.Start(t).URL("backup")) })
}

func restoreCouchDB(t *testing.T, store string) {
	rng := rand.New(rand.NewPCG(newSeed(t), 1))
	writer := &couchWriter{rng: rng, db: couchtest.NewDB(t)}
	feedctl(t, "init", store)
	feed := store + "#backup"
	bridge := []string{
		"bridge", "couchdb", writer.db, feed, "--revs", "--conflicts", "--design-docs", "--attachments", "multipart",
		"--index", t.TempDir() + "/index", "--max-page-entities", "10", "--log-level", "error",
	}
	if err := writer.attach(t.Context(), "attached"); err != nil { // to a document that is not written again
		t.Fatal(err)
	}
	var points []point
	for round := range 2 * *restorePoints {
		for range 12 {
			if err := writer.write(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		run := bridge
		if round%2 == 0 {
			run = slices.Concat(bridge, []string{"--snapshot"})
		}
		feedctl(t, run...)
		state, err := couchdiff.Read(t.Context(), writer.db)
		if err != nil {
			t.Fatal(err)
		}
		id, at := newestEntity(t, feed)
		if last := len(points) - 1; last >= 0 && points[last].at == at {
			points[last].at = "" // more entities of that second followed
		}
		points = append(points, point{id, at, state})
	}
	points[len(points)-1].at = "" // that second may not be over
	feedctl(t, "prune", feed, "--before-snapshot", "backup/"+oldestSnapshot(t, feed), "--log-level", "error")

	attachments := 0
	for n, i := range rng.Perm(len(points))[:*restorePoints] {
		p := points[i]
		at := p.id
		if p.at != "" {
			at = p.at
		}
		into := couchtest.NewDB(t)
		restore := []string{"restore", "--at", at, feed, "--into", "couchdb:" + into, "--batch-entities", "7", "--json", "--log-level", "error"}
		if n%2 == 1 {
			killed := &process{t: t, name: "restore", args: restore}
			killed.start()
			waitFor(t, killed.stderr.String, func() bool { return killed.ended() || updates(t, into) > 0 })
			killed.kill(os.Kill)
		}
		var result struct {
			Verified bool
			Check    struct{ Keys int }
		}
		if err := json.Unmarshal([]byte(feedctl(t, restore...)), &result); err != nil || !result.Verified || result.Check.Keys == 0 {
			t.Errorf("point %d, restored to %s: %+v, %v", i, at, result, err)
		}
		got, err := couchdiff.Read(t.Context(), into)
		if err != nil {
			t.Fatal(err)
		}
		if differences := p.state.Differences(got); len(differences) > 0 {
			t.Errorf("point %d, restored to %s:\n%s", i, at, strings.Join(differences, "\n"))
		}
		for name := range got {
			if strings.Contains(name, ", attachment ") {
				attachments++
			}
		}
	}
	if attachments == 0 {
		t.Error("no attachment was restored")
	}
}

// newestEntity returns the Content-ID and the time of the newest entity of a feed.
func newestEntity(t *testing.T, feed string) (id, at string) {
	t.Helper()
	var newest struct {
		ContentID    string    `json:"contentId"`
		LastModified time.Time `json:"lastModified"`
	}
	out := feedctl(t, "consume", feed, "--into", "-", "--log-level", "error")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &newest); err != nil {
		t.Fatal(err)
	}
	return newest.ContentID, newest.LastModified.UTC().Format(time.RFC3339)
}

// oldestSnapshot returns the ID of the oldest snapshot of a feed.
func oldestSnapshot(t *testing.T, feed string) string {
	t.Helper()
	var all []struct{ ID string }
	if err := json.Unmarshal([]byte(feedctl(t, "snapshot", "list", feed, "--json")), &all); err != nil || len(all) == 0 {
		t.Fatalf("%d snapshots: %v", len(all), err)
	}
	return all[0].ID
}

// updates returns the number of updates of a database.
func updates(t *testing.T, db string) int64 {
	t.Helper()
	var info struct {
		Seq int64 `json:"update_seq"`
	}
	if _, err := (&couchWriter{db: db}).do(t.Context(), http.MethodGet, "", nil, &info); err != nil {
		t.Fatal(err)
	}
	return info.Seq
}
