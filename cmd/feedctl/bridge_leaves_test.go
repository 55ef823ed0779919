package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchdiff"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
)

// A copyRig is a database that is replicated through a feed into others.
type copyRig struct {
	t           *testing.T
	from, store string
}

func newCopyRig(t *testing.T) *copyRig {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return &copyRig{t, couchtest.NewDB(t), "file:" + filepath.Join(t.TempDir(), "store") + "#copy"}
}

// write stores revisions, each given as "ID REV [ANCESTOR...]", with further members of the
// document.
func (r *copyRig) write(more string, revisions ...string) {
	r.t.Helper()
	docs := make([]string, len(revisions))
	for i, revision := range revisions {
		fields := strings.Fields(revision)
		var generation int
		if _, err := fmt.Sscanf(fields[1], "%d-", &generation); err != nil {
			r.t.Fatal(err)
		}
		hashes := make([]string, 0, len(fields))
		for _, rev := range fields[1:] {
			_, hash, _ := strings.Cut(rev, "-")
			hashes = append(hashes, hash)
		}
		docs[i] = fmt.Sprintf(`{"_id":%q,"_rev":%q,"_revisions":{"start":%d,"ids":["%s"]},"of":%q%s}`,
			fields[0], fields[1], generation, strings.Join(hashes, `","`), fields[1], more)
	}
	answer := couchtest.Send(r.t, http.MethodPost, r.from+"/_bulk_docs", `{"new_edits":false,"docs":[`+strings.Join(docs, ",")+`]}`)
	if strings.Contains(answer, `"error"`) {
		r.t.Fatal(answer)
	}
}

// bridge publishes new changes, with everything that another CouchDB needs.
func (r *copyRig) bridge(more ...string) {
	r.t.Helper()
	mustRun(r.t, "", append([]string{
		"bridge", "couchdb", r.from, r.store, "--revs", "--conflicts", "--design-docs", "--attachments", "multipart",
	}, more...)...)
}

// check fills a new database from the newest snapshot and then the feed, and compares it
// with the source. It returns the number of entities in the snapshot.
func (r *copyRig) check() int64 {
	r.t.Helper()
	to := couchtest.NewDB(r.t)
	mustRun(r.t, "", "consume", r.store, "--from", "snapshot", "--into", "couchdb:"+to)
	differences, err := couchdiff.Compare(r.t.Context(), r.from, to)
	if err != nil || len(differences) > 0 {
		r.t.Errorf("%v\n%s", err, strings.Join(differences, "\n"))
	}
	var snapshots []task.Snapshot
	if err := json.Unmarshal([]byte(mustRun(r.t, "", "snapshot", "list", r.store, "--json")), &snapshots); err != nil {
		r.t.Fatal(err)
	}
	return *snapshots[len(snapshots)-1].Entities
}

// TestSnapshotOfConflicts: a database filled from a snapshot equals the source, including
// conflicts and deleted documents.
func TestSnapshotOfConflicts(t *testing.T) {
	r := newCopyRig(t)
	const deleted, attached = `,"_deleted":true`, `,"_attachments":{"a":{"content_type":"text/plain","data":"aGVsbG8="}}`
	large := fmt.Sprintf(`,"text":%q`, strings.Repeat("x", 3<<20)) // streamed to the reader
	r.write("", "plain 1-a", "conflict 2-b 1-a", "conflict 2-c 1-a", "loser-deleted 2-b 1-a", "loser-deleted 2-c 1-a",
		"winner-deleted 2-b 1-a", "winner-deleted 2-c 1-a", "recreated 1-a", "gone 1-a", "changed 1-a", "_design/d 1-a")
	r.write(attached, "files 2-b 1-a", "files 2-c 1-a")
	r.write(large, "large 2-b 1-a", "large 2-c 1-a")
	r.bridge()
	r.write("", "changed 2-b 1-a", "winner-deleted 3-d 2-c 1-a")
	r.write(deleted, "recreated 2-b 1-a", "gone 2-b 1-a")
	r.write(attached, "files 3-d 2-c 1-a")
	r.bridge("--snapshot")
	// 15 leaves: plain, conflict 2, loser-deleted 2, winner-deleted 2, recreated, gone, changed, _design/d, files 2, large 2
	if n := r.check(); n != 15 {
		t.Errorf("first snapshot has %d entities, want 15", n)
	}

	r.write("", "recreated 3-c 2-b 1-a", "changed 4-d 3-c 2-b 1-a")
	r.write(deleted, "winner-deleted 4-e 3-d 2-c 1-a", "loser-deleted 3-d 2-b 1-a", "large 3-d 2-c 1-a")
	r.bridge("--snapshot")
	if n := r.check(); n != 15 {
		t.Errorf("second snapshot has %d entities, want 15", n)
	}

	r.write("", "plain 2-b 1-a", "conflict 3-d 2-b 1-a")
	r.write(deleted, "conflict 3-e 2-c 1-a", "changed 5-e 4-d 3-c 2-b 1-a")
	r.bridge()
	r.check() // continued in the feed

	mustRun(t, "", "snapshot", "from-feed", r.store)
	if n := r.check(); n != 15 {
		t.Errorf("snapshot from the feed has %d entities, want 15", n)
	}
	mustRun(t, "", "verify", r.store)
}

// TestSnapshotOfConflictsWithoutRevs: leaves are known only from _revisions.
func TestSnapshotOfConflictsWithoutRevs(t *testing.T) {
	r := newCopyRig(t)
	r.write("", "doc 2-b 1-a", "doc 2-c 1-a")
	for _, c := range []struct {
		want int
		says string
		args []string
	}{
		{exit.Usage, "--snapshot with --conflicts needs --revs", []string{"bridge", "couchdb", r.from, r.store, "--conflicts", "--snapshot"}},
		{exit.OK, "", []string{"bridge", "couchdb", r.from, r.store, "--conflicts"}},
		{exit.Error, "has no _revisions", []string{"snapshot", "from-feed", r.store}},
		{exit.OK, "", []string{"bridge", "couchdb", r.from, r.store, "--conflicts", "--revs"}},
		{exit.Error, "has no _revisions", []string{"bridge", "couchdb", r.from, r.store, "--conflicts", "--revs", "--snapshot"}},
	} {
		code, _, stderr := feedctl(t, "", slices.Clone(c.args)...)
		if code != c.want || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit status %d: %s", c.args, code, stderr)
		}
	}
	// If only winners are published, the snapshot has one entity for each document, its last winner, even if
	// the documents have _revisions.
	mustRun(t, "", "bridge", "couchdb", r.from, r.store+"-winners", "--revs", "--snapshot")
	out := filepath.Join(t.TempDir(), "out")
	mustRun(t, "", "consume", r.store+"-winners", "--from", "snapshot", "--into", "jsonl:"+out)
	if n := lines(t, out); n != 1 {
		t.Errorf("%d entities, want the winner", n)
	}
}

// TestSnapshotOfRetried: the snapshot of a feed that begins with quarantined entities has all
// leaves, too.
func TestSnapshotOfRetried(t *testing.T) {
	r := newCopyRig(t)
	r.write("", "doc 2-b 1-a", "doc 2-c 1-a")
	r.bridge("--max-document", "10", "--max-quarantine", "100%")
	mustRun(t, "", "bridge", "quarantine", r.store, "--retry", r.from)
	mustRun(t, "", "snapshot", "from-feed", r.store)
	if n := r.check(); n != 2 {
		t.Errorf("snapshot has %d entities, want both leaves", n)
	}
}
