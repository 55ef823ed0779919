package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
)

func TestDeleteFeed(t *testing.T) {
	dir := t.TempDir()
	store := "file:" + filepath.Join(dir, "store")
	sink, other := "jsonl:"+filepath.Join(dir, "old"), "jsonl:"+filepath.Join(dir, "new")
	feed, copied := store+"#zones", "file:"+filepath.Join(dir, "copy")
	mustRun(t, zones, "publish", feed, "--key", "/name")
	mustRun(t, "", "consume", feed, "--into", sink)
	mustRun(t, "", "copy", store, copied)

	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"delete", feed}, exit.Usage, "--yes"},
		{[]string{"delete", store + "#zonse", "--yes"}, exit.NotFound, `did you mean "zones"?`},
		{[]string{"delete", store + "#zonse", "--dry-run"}, exit.NotFound, `did you mean "zones"?`},
		{[]string{"delete", feed, "--dry-run"}, exit.OK, "would delete feed zones: 1 page"},
		{[]string{"delete", feed, "--yes"}, exit.OK, "deleted feed zones: 1 page"},
		{[]string{"delete", feed, "--yes"}, exit.NotFound, "it was deleted"},
		{[]string{"consume", feed, "--into", sink}, exit.NotFound, "it was deleted"},
		{[]string{"inspect", feed}, exit.NotFound, "deleted"},
		{[]string{"verify", feed}, exit.NotFound, "it was deleted"},
		{[]string{"repair", feed}, exit.NotFound, "feed has no pages"},
		{[]string{"snapshot", "from-feed", feed}, exit.NotFound, "it was deleted"},
		{[]string{"copy", store, copied}, exit.OK, ""},
		{[]string{"verify", copied + "#zones"}, exit.NotFound, "it was deleted"},
	} {
		code, stdout, stderr := feedctl(t, "", test.args...)
		if code != test.code || !strings.Contains(stdout+stderr, test.want) {
			t.Errorf("%s: exit status %d: %s%s", strings.Join(test.args, " "), code, stdout, stderr)
		}
	}
	if out := mustRun(t, "", "list", store, "--json"); strings.Contains(out, "zones") {
		t.Errorf("list: %s", out)
	}

	mustRun(t, zones, "publish", feed, "--key", "/name")
	mustRun(t, "", "copy", store, copied)
	for _, in := range []string{store, copied} {
		mustRun(t, "", "verify", in+"#zones")
		mustRun(t, "", "repair", in+"#zones")
	}
	mustRun(t, "", "consume", feed, "--into", other)
	mustRun(t, "", "snapshot", "from-feed", feed)
	code, stdout, stderr := feedctl(t, "", "consume", feed, "--into", sink)
	if code == exit.OK || !strings.Contains(stderr, "--on-gap") {
		t.Errorf("consume from a position in the deleted feed: exit status %d: %s%s", code, stdout, stderr)
	}
	var result deletedFeedJSON
	if err := json.Unmarshal([]byte(mustRun(t, "", "delete", feed, "--yes", "--json")), &result); err != nil || result.Pages != 1 || result.Feed != "zones" {
		t.Errorf("delete: %+v, %v", result, err)
	}
}
