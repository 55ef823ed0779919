package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
)

func TestNewEpoch(t *testing.T) {
	dir := t.TempDir()
	store := "file:" + filepath.Join(dir, "store")
	mustRun(t, zones, "publish", store+"#zones", "--key", "/name")
	mustRun(t, zones, "publish", store+"#other", "--key", "/name")
	mustRun(t, zones, "publish", store+"#gone", "--key", "/name")
	mustRun(t, "", "delete", store+"#gone", "--yes")
	for _, test := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"new-epoch"}, exit.Usage, []string{"needs a FEED"}},
		{[]string{"new-epoch", "--all", store, store}, exit.Usage, []string{"one STORE"}},
		{[]string{"new-epoch", store + "#zonse"}, exit.NotFound, []string{`did you mean "zones"?`}},
		{[]string{"new-epoch", "--all", "file:" + filepath.Join(dir, "none")}, exit.NotFound, []string{"there is no store"}},
		{[]string{"new-epoch", store + "#zones", "--dry-run"}, exit.OK, []string{"feed zones: epoch 1 would begin after"}},
		{[]string{"new-epoch", store + "#zones", store + "#other"}, exit.OK, []string{"feed zones: epoch 1 begins after", "feed other: epoch 1 begins after"}},
		{[]string{"new-epoch", "--all", store}, exit.OK, []string{"feed zones: epoch 2", "feed other: epoch 2", "feed gone: it has no pages: a new identity begins"}},
	} {
		code, stdout, stderr := feedctl(t, "", test.args...)
		for _, want := range test.want {
			if code != test.code || !strings.Contains(stdout+stderr, want) {
				t.Errorf("%s: exit status %d: %s%s", strings.Join(test.args, " "), code, stdout, stderr)
			}
		}
	}
	var result newEpochJSON
	if err := json.Unmarshal([]byte(mustRun(t, "", "new-epoch", store+"#zones", "--json")), &result); err != nil || result.Number != 3 || result.Epoch == "" || result.Identity == "" {
		t.Errorf("%+v, %v", result, err)
	}
	mustRun(t, "", "verify", store+"#zones")
}
