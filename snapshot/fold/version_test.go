package fold_test

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot/fold"
)

var errNoVersion = errors.New("no version is given")

// versionOf reads versions from bodies, which consist of the name, the replaced names, "|" and the
// rest.
func versionOf(_ *feed.Entity, body io.Reader) (string, []string, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return "", nil, err
	}
	if len(text) == 0 {
		return "", nil, errNoVersion
	}
	head, _, _ := strings.Cut(string(text), "|")
	names := strings.Fields(head)
	if len(names) == 0 {
		return "", nil, nil
	}
	return names[0], names[1:], nil
}

func removed(key, body string) *feed.Entity {
	e := put(key, body)
	e.Operation = feed.Delete
	return e
}

// versionsIn returns the bodies of each key in the newest snapshot, in the order of the snapshot.
func (w *world) versionsIn() map[string][]string {
	w.t.Helper()
	state := map[string][]string{}
	for e, err := range w.client.Snapshot(w.t.Context(), origin+layout.SnapshotPath("things"), feed.SnapshotPosition{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		body := e.Body
		if e.Stream != nil {
			if body, err = io.ReadAll(e.Stream); err != nil {
				w.t.Fatal(err)
			}
		}
		state[e.Key()] = append(state[e.Key()], string(body))
	}
	return state
}

func (w *world) checkVersions(want map[string][]string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.versionsIn()); diff != "" {
		w.t.Errorf("snapshot does not have the versions (-want +got):\n%s", diff)
	}
}

// TestVersions: a snapshot has all versions of each key that have not been replaced, including
// deletions.
func TestVersions(t *testing.T) {
	w := newWorld(t)
	large := strings.Repeat("large ", 500_000) // a stream
	c := fold.Config{Table: filepath.Join(t.TempDir(), "table"), Version: versionOf}
	w.publish(put("a b%", "1|"), put("a b%", "2 1|two"), put("a b%", "3 1|three"), put("a", "1|"), put("a b", "1|"),
		removed("a", "2 1|"), put("large", "1|"), put("large", "2 1|"+large), put("large", "3|"+large),
		put("plain", "|x"), put("plain", "|y"), put("plain away", "|x"), removed("plain away", "|x"))
	want := map[string][]string{
		"a b%": {"2 1|two", "3 1|three"}, "a": {"2 1|"}, "a b": {"1|"}, "large": {"2 1|" + large, "3|" + large}, "plain": {"|y"},
	}
	w.fold(c)
	w.checkVersions(want)

	w.publish(removed("a b%", "4 2 1|"), put("a b%", "5 3 2|"), put("a", "3 2 1|again"), put("large", "4 4 2 3|"))
	want["a b%"], want["a"], want["large"] = []string{"4 2 1|", "5 3 2|"}, []string{"3 2 1|again"}, []string{"4 4 2 3|"}
	read := int64(0)
	c.Progress = func(p consumer.Progress) { read = p.Entities }
	w.fold(c)
	w.checkVersions(want)
	if read != 4 {
		t.Errorf("%d entities were read, want the 4 new ones", read)
	}

	// A fold with a new table uses the snapshot in place of the pruned pages.
	if _, err := chain.RaiseFloor(t.Context(), w.store, "things", 2); err != nil {
		t.Fatal(err)
	}
	w.publish(put("a", "4 3 2|"))
	want["a"] = []string{"4 3 2|"}
	c.Table = filepath.Join(t.TempDir(), "table")
	w.fold(c)
	w.checkVersions(want)
}

// TestTableOfVersions: a table with versions is not used for a fold without versions, or the other
// way round.
func TestTableOfVersions(t *testing.T) {
	w := newWorld(t)
	c := fold.Config{Table: filepath.Join(t.TempDir(), "table"), Version: versionOf}
	w.publish(put("a", "1|"), put("a", "2|"))
	for _, want := range [][]string{{"1|", "2|"}, {"2|"}, {"1|", "2|"}} {
		w.fold(c)
		w.checkVersions(map[string][]string{"a": want})
		if c.Version = nil; len(want) == 1 {
			c.Version = versionOf
		}
	}
}

// TestNoVersion: a fold fails with the error of its VersionFunc.
func TestNoVersion(t *testing.T) {
	w := newWorld(t)
	w.publish(put("a", "1|"), remove("a"))
	_, err := fold.Feed(t.Context(), w.store, "things", fold.Config{TempDir: t.TempDir(), Version: versionOf})
	if !errors.Is(err, errNoVersion) {
		t.Errorf("got %v", err)
	}
}
