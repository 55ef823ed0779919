package main

import (
	"encoding/json"
	"testing"
)

// TestPublishTime: the result has the time, for monitoring.
func TestPublishTime(t *testing.T) {
	var result publishJSON
	stdout := mustRun(t, `{"id":1}`+"\n", "publish", "file:"+t.TempDir()+"#f", "--key", "/id", "--json")
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || result.Time.IsZero() {
		t.Errorf("%v, %s", err, stdout)
	}
}
