package fold_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/snapshot/fold"
)

func (w *world) digest(c fold.Config) *digests.Result {
	w.t.Helper()
	c.TempDir = w.t.TempDir()
	result, err := fold.Digest(w.t.Context(), w.store, "things", c)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// digested reads the entries of a digest from the store.
func (w *world) digested(id string) map[string]digest.Entry {
	w.t.Helper()
	root, err := digests.Read(w.t.Context(), w.store, "things", id)
	if err != nil {
		w.t.Fatal(err)
	}
	entries := map[string]digest.Entry{}
	r := &digest.Reader{Root: root, Objects: digests.Objects(w.store, "things")}
	for e, err := range r.In(w.t.Context(), digest.All) {
		if err != nil {
			w.t.Fatal(err)
		}
		entries[e.Key] = e
	}
	return entries
}

// checkDigest compares a digest with the state of the feed.
func (w *world) checkDigest(result *digests.Result) {
	w.t.Helper()
	want := map[string]digest.Sum{}
	state, ids := w.state(consumer.Beginning())
	for key, body := range state {
		want[key] = digest.SumOf(key, "text/plain", []byte(body))
	}
	got := map[string]digest.Sum{}
	for key, e := range w.digested(result.ID) {
		got[key] = e.Sum
	}
	if !maps.Equal(want, got) {
		w.t.Errorf("digest is not that of the state (-want +got):\n%s", cmp.Diff(want, got))
	}
	if result.Root.Feed.ContentID != ids[len(ids)-1] || result.Root.Feed.URL != "../../feeds/things" {
		w.t.Errorf("position is %+v, want after %s", result.Root.Feed, ids[len(ids)-1])
	}
}

// TestDigestIncrementally: a digest for which only changed leaves were computed equals one that was
// computed from all rows, whatever has changed.
func TestDigestIncrementally(t *testing.T) {
	const keys, rounds, seeds = 12_000, 6, 2
	for seed := range uint64(seeds) {
		w, rng := newWorld(t), rand.New(rand.NewPCG(seed, 0))
		kept := fold.Config{Table: filepath.Join(t.TempDir(), "table")}
		var entities []*feed.Entity
		for n := range keys {
			entities = append(entities, put(fmt.Sprint("key ", n), "first"))
		}
		var computed, all int64
		for round := range rounds {
			w.publish(entities...)
			result, scratch := w.digest(kept), w.digest(fold.Config{})
			if diff := cmp.Diff(scratch.Root.Tree, result.Root.Tree); diff != "" {
				t.Fatalf("seed %d, round %d: digest differs from one made from scratch (-want +got):\n%s", seed, round, diff)
			}
			computed, all = computed+result.Objects, all+scratch.Objects
			if round == rounds-1 {
				w.checkDigest(result)
			}
			entities = w.changes(rng, result)
		}
		if computed >= all*3/4 {
			t.Errorf("seed %d: %d of %d objects were computed, want less than three quarters", seed, computed, all)
		}
	}
}

// changes returns a few random changes, some at the first keys of leaves.
func (w *world) changes(rng *rand.Rand, result *digests.Result) (entities []*feed.Entity) {
	w.t.Helper()
	r := &digest.Reader{Root: result.Root, Objects: digests.Objects(w.store, "things")}
	var starts []string
	for i := range result.Root.Nodes {
		leaves, err := r.Leaves(w.t.Context(), i)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, leaf := range leaves[1:] {
			starts = append(starts, leaf.From)
		}
	}
	for range 1 + rng.IntN(4) {
		key := fmt.Sprint("key ", rng.IntN(16_000))
		if rng.IntN(2) == 0 {
			key = starts[rng.IntN(len(starts))]
		}
		if rng.IntN(2) == 0 {
			entities = append(entities, remove(key))
		} else {
			entities = append(entities, put(key, fmt.Sprint("body ", rng.IntN(3))))
		}
	}
	return entities
}

// TestDigestOfSameState: the hash of a digest does not depend on the history.
func TestDigestOfSameState(t *testing.T) {
	var hashes []digest.Hash
	for range 2 {
		w, rng := newWorld(t), rand.New(rand.NewPCG(uint64(len(hashes)), 0))
		order := rng.Perm(500)
		for _, n := range order {
			if rng.IntN(2) == 0 {
				w.publish(put(fmt.Sprint("key ", n), "other"), put(fmt.Sprint("gone ", n), "x"))
			}
			w.publish(put(fmt.Sprint("key ", n), fmt.Sprint("body ", n)))
		}
		for n := range 500 {
			w.publish(remove(fmt.Sprint("gone ", n)))
		}
		hashes = append(hashes, w.digest(fold.Config{}).Root.Hash)
	}
	if hashes[0] != hashes[1] {
		t.Errorf("hashes of equal states are %s and %s", hashes[0], hashes[1])
	}
}

// TestDigestPlaces: an entry has the place of the last PUT of its key, even after a resumed fold
// and after a PATCH. Entries for state from a snapshot have no place.
func TestDigestPlaces(t *testing.T) {
	w := newWorld(t)
	c := fold.Config{Table: filepath.Join(t.TempDir(), "table")}
	large := string(bytes.Repeat([]byte("large "), 100_000))
	w.publish(put("a", "old"), put("large", large), put("json", `{"n":1}`))
	w.digest(c)
	w.fill(0, 30)
	patch := &feed.Entity{
		Operation: feed.Patch, ContentLocation: "json", ContentType: "application/merge-patch+json",
		Body: []byte(`{"n":2}`), ContentID: "<patch>",
	}
	w.publish(put("a", "new"), patch)
	entries := w.digested(w.digest(c).ID)
	want, _ := w.state(consumer.Beginning())
	want["json"] = `{"n":1}` // of the PUT
	for key, e := range entries {
		at := w.at(e)
		if string(at.body) != want[key] || key != "json" && at.contentID != e.ContentID {
			t.Errorf("key %q: entity %s with %d bytes is at page %d, offset %d", key, at.contentID, len(at.body), e.Page, e.Offset)
		}
	}
	if e := entries["json"]; e.ContentID != "<patch>" || e.Sum != digest.SumOf("json", "text/plain", []byte(`{"n":2}`)) {
		t.Errorf("entry after a PATCH is %+v", e)
	}

	w.fold(c)
	if _, err := chain.RaiseFloor(t.Context(), w.store, "things", 4); err != nil {
		t.Fatal(err)
	}
	w.publish(put("a", "after"))
	for key, e := range w.digested(w.digest(fold.Config{}).ID) {
		if (e.Page != 0) != (key == "a") {
			t.Errorf("key %q, read from a snapshot: %+v", key, e)
		}
	}
}

type placed struct {
	body      []byte
	contentID string
}

// at reads the part of a page at the place of an entry.
func (w *world) at(e digest.Entry) placed {
	w.t.Helper()
	o, err := w.store.Get(w.t.Context(), layout.FeedPage("things", e.Page), e.Offset, -1)
	if err != nil {
		w.t.Fatal(err)
	}
	defer o.Body.Close()
	boundary, err := page.Boundary(o.Meta.ContentType)
	if err != nil {
		w.t.Fatal(err)
	}
	for part, err := range page.NewReader(o.Body, boundary, page.ReaderOptions{MaxWhole: 1 << 20}).Parts() {
		if err != nil {
			w.t.Fatal(err)
		}
		for _, field := range part.Header {
			if string(field.Name) == "Content-ID" {
				return placed{slices.Clone(part.Body), string(field.Value)}
			}
		}
	}
	w.t.Fatalf("no entity at the offset of %+v", e)
	return placed{}
}

// TestDigestWithSnapshot: a digest that is written along with a snapshot names the snapshot.
func TestDigestWithSnapshot(t *testing.T) {
	w := newWorld(t)
	w.fill(0, 30)
	var result *digests.Result
	index := w.fold(fold.Config{Digested: func(r *digests.Result) { result = r }})
	w.checkDigest(result)
	if want := "../../snapshots/things/" + index.ID; result.Root.Snapshot != want {
		t.Errorf("snapshot is %q, want %q", result.Root.Snapshot, want)
	}
}

// TestDigestVersions: if keys have versions, a digest has an entry for each version, including
// deletions.
func TestDigestVersions(t *testing.T) {
	w := newWorld(t)
	w.publish(put("doc a", "1-a|x"), put("doc a", "1-b|y"), put("doc a", "2-a 1-a|z"), removed("b", "2-b|"), put("c", "|plain"))
	result := w.digest(fold.Config{Version: versionOf})
	keys := slices.Sorted(maps.Keys(w.digested(result.ID)))
	if diff := cmp.Diff([]string{"b 2-b", "c", "doc%20a 1-b", "doc%20a 2-a"}, keys); diff != "" || !result.Root.Versions {
		t.Errorf("versions: %v (-want +got):\n%s", result.Root.Versions, diff)
	}
}

// TestDigestWithoutBase: leaves of the last digest are reused only if they still exist.
func TestDigestWithoutBase(t *testing.T) {
	w := newWorld(t)
	c := fold.Config{Table: filepath.Join(t.TempDir(), "table")}
	w.fill(0, 1000)
	first := w.digest(c)
	if again := w.digest(c); again.Objects != 1 { // the node
		t.Errorf("%d objects were computed for an unchanged state", again.Objects)
	}
	leaves, err := (&digest.Reader{Root: first.Root, Objects: digests.Objects(w.store, "things")}).Leaves(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.Delete(t.Context(), layout.DigestNode("things", leaves[0].Object.String())); err != nil {
		t.Fatal(err)
	}
	healed := w.digest(c)
	w.checkDigest(healed)
	if healed.Written != 1 {
		t.Errorf("%d objects were written, want the 1 that was missing", healed.Written)
	}
	for entry, err := range w.store.List(t.Context(), layout.DigestsPrefix, "") {
		if err == nil {
			err = w.store.Delete(t.Context(), entry.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	result := w.digest(c)
	if result.Root.Hash != first.Root.Hash || result.Written != result.Objects {
		t.Errorf("%d of %d objects were written again", result.Written, result.Objects)
	}
	w.checkDigest(result)
}

// TestDigestEmpty: a feed in which everything was deleted has a digest.
func TestDigestEmpty(t *testing.T) {
	w := newWorld(t)
	c := fold.Config{Table: filepath.Join(t.TempDir(), "table")}
	w.publish(put("a", "a"), remove("a"))
	for _, change := range []*feed.Entity{put("b", "b"), remove("b"), put("c", "c")} {
		w.checkDigest(w.digest(c))
		w.publish(change)
	}
	w.checkDigest(w.digest(c))
}

// TestTableOfVersion1: a fold uses a table whose rows have no places, and gives new rows their
// places.
func TestTableOfVersion1(t *testing.T) {
	w := newWorld(t)
	c := fold.Config{Table: filepath.Join(t.TempDir(), "table")}
	w.fill(0, 30)
	w.digest(c)
	conn, err := sqlite.OpenConn(c.Table, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteScript(conn, `
		UPDATE feedctl_fold SET origin = replace(origin, '"Version":2', '"Version":1');
		UPDATE state SET headers = '{}';
		DROP TABLE feedctl_leaves; DROP TABLE feedctl_digest;
		DROP TRIGGER feedctl_inserted; DROP TRIGGER feedctl_updated; DROP TRIGGER feedctl_deleted;
	`, nil)
	if err = errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	w.publish(put("new", "new"))
	c.Progress = func(p consumer.Progress) {
		if p.Entities > 1 {
			t.Errorf("%d entities were read", p.Entities)
		}
	}
	result := w.digest(c)
	w.checkDigest(result)
	for key, e := range w.digested(result.ID) {
		if (e.Page != 0) != (key == "new") {
			t.Errorf("key %q: %+v", key, e)
		}
	}
}
