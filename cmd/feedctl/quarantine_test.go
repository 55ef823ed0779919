package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/task"
)

// TestConsumeIntoQuarantine: a wrong type in --columns puts all entities into quarantine, which is
// not success.
func TestConsumeIntoQuarantine(t *testing.T) {
	database := pgtest.Start(t).URL("quarantine")
	store := "file:" + t.TempDir() + "/store#zones"
	mustRun(t, zones, "publish", store, "--key", "/name")
	for n, test := range []struct {
		columns string
		flags   []string
		want    int
		text    string
	}{
		{"v=/name:int", nil, exit.Quarantine, "3 of 3 entities: the table feedctl_quarantine has them"},
		{"v=/name:int", []string{"--max-quarantine", "100%"}, exit.OK, ""},
		{"v=/name:int", []string{"--max-quarantine", "1"}, exit.Quarantine, "3 of 3 entities"},
		{"v=/name:text", nil, exit.OK, ""},
		{"v=/name:text", []string{"--max-quarantine", "0"}, exit.OK, ""},
	} {
		args := append([]string{"consume", store, "--into", fmt.Sprintf("%s&table=t%d", database, n), "--columns", test.columns, "--json"}, test.flags...)
		code, stdout, stderr := feedctl(t, "", args...)
		var result task.Consumed
		if err := json.Unmarshal([]byte(stdout), &result); err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		quarantined := int64(3)
		if test.columns == "v=/name:text" {
			quarantined = 0
		}
		if code != test.want || !strings.Contains(stderr, test.text) || result.Quarantined != quarantined || result.Entities != 3 {
			t.Errorf("%s %q: exit status %d: %s%s", test.columns, test.flags, code, stdout, stderr)
		}
	}
}
