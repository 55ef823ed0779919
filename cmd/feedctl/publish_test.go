package main

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
)

// TestPublishStopped: errors say how much of the input is in the feed.
func TestPublishStopped(t *testing.T) {
	store := "file:" + t.TempDir() + "/store"
	for _, test := range []struct{ input, want string }{
		{"{", ": after 0 entities: "},
		{"1\n{", ": after 1 entity: "},
		{"1\n2\n{", ": after 2 entities: "},
	} {
		code, _, stderr := feedctl(t, test.input, "publish", store+"#a")
		if code != exit.Error || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: exit status %d: %s", test.input, code, stderr)
		}
	}
}
