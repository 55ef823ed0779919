package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/pgtest"
)

func TestQuarantineLimit(t *testing.T) {
	for _, test := range []struct {
		limit      string // "": the default
		aside, all int64
		end, want  bool
	}{
		{"", 0, 0, true, false},
		{"", 836, 836, true, true},
		{"", 836, 836, false, false},
		{"", 1000, 1000, false, true},
		{"", 999, 1000, true, false},
		{"0", 0, 5, true, false},
		{"0", 1, 5, false, true},
		{"3", 3, 3, true, false},
		{"3", 4, 2000, false, true},
		{"2.5%", 25, 1000, false, false},
		{"2.5%", 26, 1000, false, true},
		{"2.5%", 26, 999, false, false},
		{"100%", 836, 836, true, false},
		{"0%", 1, 836, true, true},
	} {
		var l quarantineLimit
		if test.limit != "" {
			if err := l.Set(test.limit); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.exceeded(test.aside, test.all, test.end); got != test.want {
			t.Errorf("%q: %d of %d, end %t: %t", test.limit, test.aside, test.all, test.end, got)
		}
	}
	for _, wrong := range []string{"", "-1", "x", "101%", "-1%", "%", "NaN%", "1.5"} {
		if err := new(quarantineLimit).Set(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// A wrong type in --columns quarantines all entities, which is not success.
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
		var result consumeJSON
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
