package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
)

// completed returns the completions of the last word.
func completed(t *testing.T, words ...string) string {
	t.Helper()
	code, stdout, stderr := feedctl(t, "", append([]string{"__complete"}, words...)...)
	if code != exit.OK {
		t.Errorf("complete %q: exit status %d, %s", words, code, stderr)
	}
	offered := stdout[:strings.LastIndex(stdout, ":")] // without the directives to the shell's script
	return strings.Join(strings.Fields(offered), " ")
}

func TestCompleteNames(t *testing.T) {
	store := "file:" + filepath.ToSlash(t.TempDir())
	for _, name := range []string{"zebras", "zones", "apes"} {
		mustRun(t, `{"id":1}`+"\n", "publish", store+"#"+name, "--key", "/id")
	}
	mustRun(t, `{"id":1}`+"\n", "snapshot", "create", store+"#zoo", "--key", "/id")
	var index task.Snapshot
	if err := json.Unmarshal([]byte(mustRun(t, `{"id":1}`+"\n", "snapshot", "create", store+"#zoo2", "--key", "/id", "--json")), &index); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("store: "+store+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	both := store + "#zebras " + store + "#zones"
	for _, test := range []struct {
		line string
		want string
	}{
		{"--store " + store + " prune z", "zebras zones"},
		{"--store " + store + " retain z", "zebras zones"},
		{"--store " + store + " repair ", "apes zebras zones"},
		{"--store " + store + " restore z", "zebras zones"},
		{"--store " + store + " new-epoch zones z", "zebras zones"},
		{"--store " + store + " retain zones z", ""},
		{"--config " + config + " verify zo", "zones"},
		{"verify " + store + "#z", both},
		{"bridge couchdb http://127.0.0.1:1/db " + store + "#z", both},
		{"copy " + store + "#z", both},
		{"--store " + store + " copy z", ""},
		{"--store " + store + " bridge couchdb z", ""},
		{"--store " + store + " snapshot delete z", "zoo zoo2"},
		{"--store " + store + " snapshot delete zoo2 ", index.ID},
		{"snapshot delete " + store + "#zoo2 " + index.ID[:4], index.ID},
		{"snapshot delete " + store + "#zoo2 " + index.ID + " ", ""},
		{"prune " + store + "#zones --before-snapshot z", "zoo zoo2"},
		{"--store " + store + " prune --before-snapshot zoo2", "zoo2"},
		{"list " + store + " --after ", "apes zebras zones zoo zoo2"},
		{"--store " + store + " snapshot from-feed ze", "zebras"},
		{"--store " + store + " inspect --index z", "zoo zoo2"},
		{"prune " + store + "-absent#z", ""},
		{"prune nowhere:#z", ""},
		{"--store http://127.0.0.1:1 prune z", ""},
		{"list " + store + "-absent --after ", ""},
		{"outbox run --db postgres://127.0.0.1:1/none --feed ", ""},
		{"--config " + config + "-absent prune z", ""},
		{"tail http://127.0.0.1:1/feeds/z", ""},
	} {
		if got := completed(t, strings.Split(test.line, " ")...); got != test.want {
			t.Errorf("complete %q: got %q, want %q", test.line, got, test.want)
		}
	}
	if _, err := os.Stat(strings.TrimPrefix(store, "file:") + "-absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("completion created a store: %v", err)
	}
}

func TestCompleteValues(t *testing.T) {
	for line, want := range map[string]string{
		"publish zones --format ":              "ndjson multipart dir raw",
		"publish zones --op ":                  "PUT PATCH DELETE",
		"list --log-format ":                   "text json",
		"--log-level ":                         "debug info warn error",
		"bridge couchdb --attachments ":        "none stub inline multipart",
		"bridge kinto --attachments ":          "none stub inline",
		"bridge kinto --on-gone ":              "stop delete",
		"consume zones --on-gap ":              "fail replay snapshot",
		"consume zones --into x --from ":       "beginning latest snapshot",
		"tail zones --from=":                   "beginning latest",
		"consume zones --into=jsonl:x --from ": "beginning latest snapshot",
	} {
		if got := completed(t, strings.Split(line, " ")...); got != want {
			t.Errorf("complete %q: got %q, want %q", line, got, want)
		}
	}
}

func TestCompleteDescribes(t *testing.T) {
	for _, flag := range []string{"--max-page-b", "--sto"} {
		if got := completed(t, "publish", "zones", flag); strings.Contains(got, "`") || !strings.Contains(got, " ") {
			t.Errorf("flag %s is described as %q", flag, got)
		}
	}
}
