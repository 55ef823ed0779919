package main

import (
	"strings"
	"testing"
)

// Whoever is told that something failed is told how much of the input is in the feed.
func TestPublishStopped(t *testing.T) {
	store := "file:" + t.TempDir() + "/store"
	for _, test := range []struct{ input, want string }{
		{"{", ": 0 entities of the input are in the feed: "},
		{"1\n{", ": 1 entity of the input is in the feed: "},
		{"1\n2\n{", ": 2 entities of the input are in the feed: "},
	} {
		code, _, stderr := feedctl(t, test.input, "publish", store+"#a")
		if code != exitError || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: exit status %d: %s", test.input, code, stderr)
		}
	}
}
