package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/erase"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sqlite"
)

const people = `{"id":"ann","n":1,"note":"SECRET"}
{"id":"bob","n":1}
{"id":"ann","n":2,"note":"SECRET"}
{"id":"cem","n":1}
`

// filesWith returns the files below a directory that contain the given string.
func filesWith(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// keysIn returns the keys of a table in SQLite.
func keysIn(t *testing.T, path string) (keys []string) {
	t.Helper()
	contents, err := sqlite.OpenContents(t.Context(), sink.Spec{Scheme: "sqlite", Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer contents.Close()
	for row, err := range contents.Rows(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, row.Key)
	}
	return keys
}

// TestEraseText: the output says what is published or deleted, even if no page has a key.
func TestEraseText(t *testing.T) {
	for _, test := range []struct {
		done task.Erased
		want string
	}{
		{task.Erased{Report: erase.Report{Entities: 2, Affected: 1, Pages: 3, Bytes: 100, Deletes: 1}, Feed: "a"},
			"erased 2 entities on 1 of 3 pages of feed a\nwrote 100 B again, and published 1 DELETE\n"},
		{task.Erased{Report: erase.Report{Pages: 3, Bytes: 100, Deletes: 1}, Feed: "a", Snapshots: []string{"a/1"}},
			"erased 0 entities on 0 of 3 pages of feed a\npublished 1 DELETE, since a snapshot has a key that no page has\nreplaced snapshot a/1\n"},
		{task.Erased{Report: erase.Report{Pages: 3, Deletes: 2}, Feed: "a", DryRun: true},
			"would erase 0 entities on 0 of 3 pages of feed a\nwould publish 2 DELETEs, since a snapshot has a key that no page has\n"},
		{task.Erased{Report: erase.Report{Pages: 3, Former: 2}, Feed: "a"},
			"erased 0 entities on 0 of 3 pages of feed a\ndeleted 2 other objects: former pages, quarantine entries or state digests\n"},
		{task.Erased{Report: erase.Report{Pages: 3, Former: 1}, Feed: "a", DryRun: true},
			"would erase 0 entities on 0 of 3 pages of feed a\nwould delete 1 other object: former pages, quarantine entries or state digests\n"},
	} {
		if got := eraseText(&test.done); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestErase(t *testing.T) {
	dir := t.TempDir()
	store, copied, keys := filepath.Join(dir, "store"), filepath.Join(dir, "copy"), filepath.Join(dir, "keys")
	feed := "file:" + store + "#people"
	if err := os.WriteFile(keys, []byte("ann\r\n\nzoe\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	early, late := "sqlite:"+filepath.Join(dir, "early.db"), "sqlite:"+filepath.Join(dir, "late.db")
	mustRun(t, people, "publish", feed, "--key", "/id")
	mustRun(t, "", "consume", feed, "--into", early)
	mustRun(t, "", "snapshot", "from-feed", feed)
	mustRun(t, "", "snapshot", "from-feed", feed, "--name", "other")
	mustRun(t, "", "copy", "file:"+store, "file:"+copied)

	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"erase", feed}, exit.Usage, "needs a KEY, or --keys-from"},
		{[]string{"erase", feed, "ann"}, exit.Usage, "--yes"},
		{[]string{"erase", feed, "zoe", "--yes"}, exit.NotFound, `no entity with the key "zoe"`},
		{[]string{"erase", feed + "s", "ann", "--yes"}, exit.NotFound, `did you mean "people"?`},
		{[]string{"erase", feed, "ann", "--key", "id"}, exit.Usage, "JSON Pointer"},
		{[]string{"erase", feed, "ann", "--forget-keys", "--yes"}, exit.Error, "not a DELETE"},
		{[]string{"erase", feed, "--keys-from", dir + "/none"}, exit.NotFound, "--keys-from"},
		{[]string{"erase", feed, "ann", "--dry-run"}, exit.OK, "would erase 2 entities on 1 of 1 page of feed people"},
		{[]string{"erase", feed, "--keys-from", keys, "--snapshot", "other", "--yes"}, exit.OK, "no entity has the key zoe"},
		{[]string{"erase", feed, "ann", "--yes"}, exit.OK, "erased 0 entities"},
		{[]string{"verify", feed}, exit.OK, ""},
		{[]string{"repair", feed}, exit.OK, ""},
		{[]string{"consume", feed, "--into", early}, exit.OK, ""},
		{[]string{"consume", feed, "--into", late, "--from", "snapshot"}, exit.OK, ""},
		{[]string{"copy", "file:" + store, "file:" + copied}, exit.OK, ""},
		{[]string{"verify", "file:" + copied + "#people"}, exit.OK, ""},
	} {
		code, stdout, stderr := feedctl(t, "", test.args...)
		if code != test.code || !strings.Contains(stdout+stderr, test.want) {
			t.Errorf("%s: exit status %d: %s%s", strings.Join(test.args, " "), code, stdout, stderr)
		}
	}
	if got := filesWith(t, store, "SECRET"); got != nil {
		t.Errorf("the secret is left in %v", got)
	}
	if got := mustRun(t, "", "snapshot", "list", feed); strings.Count(got, "\n") != 2 {
		t.Errorf("snapshots: %s", got)
	}
	for _, into := range []string{early, late} {
		if got := keysIn(t, strings.TrimPrefix(into, "sqlite:")); !slices.Equal(got, []string{"bob", "cem"}) {
			t.Errorf("%s has %v", into, got)
		}
	}
	var done task.Erased
	if err := json.Unmarshal([]byte(mustRun(t, "", "erase", feed, "ann", "--forget-keys", "--yes", "--json")), &done); err != nil || done.Entities != 3 {
		t.Errorf("%+v, %v", done, err)
	}
	if got := filesWith(t, filepath.Join(store, "objects"), "ann"); got != nil {
		t.Errorf("the key is left in %v", got)
	}
}
