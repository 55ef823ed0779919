package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
)

// TestStoredNames: errors and reports name feeds in a store by their URL, not by an internal name.
func TestStoredNames(t *testing.T) {
	eachStore(t, func(t *testing.T, store string) {
		mustRun(t, zones, "publish", store+"#zones", "--key", "/name")
		mustRun(t, zones, "publish", store+"#bare")
		mustRun(t, "", "snapshot", "from-feed", store+"#zones")
		here := locate.Stored{Store: store, Name: "zones"}.Identity()
		for _, args := range [][]string{{"verify", store + "#zones"}, {"verify", "--index", store + "#zones"}} {
			var report struct{ URL string }
			if err := json.Unmarshal([]byte(mustRun(t, "", append(args, "--json")...)), &report); err != nil || report.URL != here {
				t.Errorf("%v: the report is about %q, %v, want %q", args, report.URL, err, here)
			}
		}
		for _, test := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"verify", "--index", store + "#none"}, exit.NotFound, "/snapshots/none"},
			{[]string{"snapshot", "from-feed", store + "#bare"}, exit.Error, locate.Stored{Store: store, Name: "bare"}.Identity() + ": "},
			{[]string{"snapshot", "from-feed", store + "#none"}, exit.NotFound, locate.Stored{Store: store, Name: "none"}.Identity() + ": "},
			{[]string{"snapshot", "delete", store + "#zones", "none"}, exit.NotFound,
				"delete snapshot none of " + here + ": object not found: no snapshot has this ID\nTry: \"feedctl snapshot list\""},
		} {
			code, _, stderr := feedctl(t, "", test.args...)
			if code != test.code || !strings.Contains(stderr, test.want) {
				t.Errorf("%v: exit status %d, want %d and %q\n%s", test.args, code, test.code, test.want, stderr)
			}
			for _, inside := range []string{"store.invalid", "feedctl-fold", "RequestID"} {
				if strings.Contains(stderr, inside) {
					t.Errorf("%v: %s", test.args, stderr)
				}
			}
		}
	})
}

// TestStoredViolations: the locations of violations, too, have the URL of the page instead of an
// internal name.
func TestStoredViolations(t *testing.T) {
	dir := t.TempDir()
	store := "file:" + dir
	mustRun(t, zones, "publish", store+"#zones", "--key", "/name", "--max-page-entities", "2")
	bodies, err := filepath.Glob(filepath.Join(dir, "objects/feeds/zones/pages/000000000001@[^m]*"))
	if err != nil || len(bodies) != 1 {
		t.Fatal(bodies, err)
	}
	body, err := os.ReadFile(bodies[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bodies[0], []byte(strings.ReplaceAll(string(body), "http-equiv=PUT", "http-equiv=PAT")), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := feedctl(t, "", "verify", store+"#zones")
	if code != exit.Invalid || strings.Contains(stdout, "store.invalid") || !strings.Contains(stdout, "file://"+dir+"/feeds/zones/pages/1") {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
}
