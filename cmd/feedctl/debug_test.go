package main

import (
	"strings"
	"testing"
)

// TestDebugLog: at level debug, each operation on the store is logged.
func TestDebugLog(t *testing.T) {
	store := "file:" + t.TempDir() + "/store"
	mustRun(t, zones, "publish", "zones", "--store", store)
	for level, want := range map[string]bool{"debug": true, "info": false} {
		_, _, stderr := feedctl(t, "", "inspect", "zones", "--store", store, "--log-level", level)
		if got := strings.Contains(stderr, `msg="store operation" operation=stat key=feeds/zones/pages/`); got != want {
			t.Errorf("--log-level %s: operations are logged: %t\n%s", level, got, stderr)
		}
	}
}
