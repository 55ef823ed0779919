package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
)

// TestResumeOtherInput: a resume file for another feed or input is an error, since the input has
// not been published.
func TestResumeOtherInput(t *testing.T) {
	dir := t.TempDir()
	store, state := "file:"+filepath.Join(dir, "store"), filepath.Join(dir, "state")
	publish := func(feed, input string, args ...string) (code int, stderr string) {
		args = append([]string{"publish", feed, "--store", store, "--resume", state}, args...)
		code, _, stderr = feedctl(t, input, args...)
		return code, stderr
	}
	if code, stderr := publish("a", "1\n2\n3\n"); code != exit.OK {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	for _, test := range []struct {
		name, feed, input string
		args              []string
		want              string
	}{
		{"feed", "b", "1\n2\n3\n", nil, "store#a, not file://"},
		{"server", "a", "1\n2\n3\n", []string{"--to", "http://127.0.0.1:1"}, "not http://127.0.0.1:1/feeds/a"},
		{"shorter input", "a", "1\n", nil, "3 entities of the input were published, but the input has only 1"},
		{"no input", "a", "", nil, "the input has only 0"},
		{"other input", "a", "4\n5\n6\n7\n", nil, "entity 3 of the input is not the one"},
	} {
		code, stderr := publish(test.feed, test.input, test.args...)
		if code != exit.Usage || !strings.Contains(stderr, test.want) || !strings.Contains(stderr, state) ||
			!strings.Contains(stderr, "Try: another file for --resume") || strings.Contains(stderr, "in the feed") {
			t.Errorf("%s: exit status %d: %s", test.name, code, stderr)
		}
	}
	if code, _, _ := feedctl(t, "", "inspect", "b", "--store", store); code != exit.NotFound {
		t.Errorf("a feed was created: exit status %d", code)
	}
	if code, stderr := publish("a", "1\n2\n3\n4\n"); code != exit.OK {
		t.Errorf("the same input, longer: exit status %d: %s", code, stderr)
	}
	if got := mustRun(t, "", "tail", "a", "--store", store, "--from", "beginning", "--follow=false", "--json"); strings.Count(got, "\n") != 4 {
		t.Errorf("the feed has %s", got)
	}
}

// TestResumeOfEarlierVersion: a resume file of an earlier version has only the number of published
// entities.
func TestResumeOfEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	store, state := "file:"+filepath.Join(dir, "store"), filepath.Join(dir, "state")
	if err := os.WriteFile(state, []byte(`{"published":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := mustRun(t, "1\n2\n3\n", "publish", store+"#a", "--resume", state); got != "published 1 entity to a, 0 duplicates\n" {
		t.Errorf("stdout is %q", got)
	}
	if code, _, stderr := feedctl(t, "1\n2\n3\n", "publish", store+"#b", "--resume", state); code != exit.Usage {
		t.Errorf("another feed: exit status %d: %s", code, stderr)
	}
}
