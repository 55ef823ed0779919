package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
)

// TestListDamaged lists a store in which a feed and a snapshot are damaged.
func TestListDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	store := "file:" + dir
	for _, name := range []string{"a", "b", "c"} {
		mustRun(t, zones, "publish", store+"#"+name, "--key", "/name", "--max-page-entities", "2")
		mustRun(t, "", "snapshot", "from-feed", store+"#"+name)
	}
	for _, pattern := range []string{"feeds/b/pages/*2@meta", "snapshots/a/index/*@meta"} {
		paths, err := filepath.Glob(filepath.Join(dir, "objects", pattern))
		if err != nil || len(paths) != 1 {
			t.Fatal(pattern, paths, err)
		}
		if err := os.WriteFile(paths[0], []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := feedctl(t, "", "list", store, "--json")
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if code != exit.Invalid || len(lines) != 6 || !strings.Contains(stderr, "2 feeds and snapshots") {
		t.Fatalf("exit status %d: %s%s", code, stdout, stderr)
	}
	for n, line := range lines {
		if got, want := strings.Contains(line, `"error":"`), n == 1 || n == 3; got != want {
			t.Errorf("line %d: %s", n, line)
		}
	}
}

// TestListServer lists the contents of a server.
func TestListServer(t *testing.T) {
	store := "file:" + filepath.Join(t.TempDir(), "store")
	for _, name := range []string{"a", "b", "c"} {
		mustRun(t, zones, "publish", store+"#"+name, "--key", "/name")
	}
	mustRun(t, "", "snapshot", "from-feed", store+"#a")
	mustRun(t, "", "snapshot", "from-feed", store+"#c")
	base := serveStore(t, store)
	for _, test := range []struct {
		args string
		want []string // prefix of each line
	}{
		{"", []string{"feed a", "feed b", "feed c", "snapshot a", "snapshot c"}},
		{"--after b", []string{"feed c", "snapshot c"}},
		{"--limit 4", []string{"feed a", "feed b", "feed c", "snapshot a"}},
	} {
		var got []string
		for line := range strings.Lines(mustRun(t, "", append([]string{"list", base}, strings.Fields(test.args)...)...)) {
			fields := strings.Fields(line)
			got = append(got, fields[0]+" "+fields[1])
			if kind := fields[0]; kind != "KIND" && fields[2] != base+"/"+kind+"s/"+fields[1] {
				t.Errorf("%s: %s", test.args, line)
			}
		}
		if want := strings.Join(append([]string{"KIND NAME"}, test.want...), "\n"); strings.Join(got, "\n") != want {
			t.Errorf("list %s: %q, want %q", test.args, got, want)
		}
	}
	want := fmt.Sprintf(`{"kind":"feed","name":"a","url":"%s/feeds/a"}`+"\n", base)
	if got := mustRun(t, "", "list", base, "--limit", "1", "--json"); got != want {
		t.Errorf("as JSON: %s", got)
	}
}

// TestListPages lists a directory of several pages, which may neither lead elsewhere nor be
// endless.
func TestListPages(t *testing.T) {
	answers := map[string]string{
		"":        `{"feeds":[{"name":"a","url":"/feeds/a"}],"next":"/?after=feeds%2Fa"}`,
		"feeds/a": `{"feeds":[{"name":"b","url":"/feeds/b"}],"snapshots":[{"name":"a","url":"/snapshots/a"}],"next":"/?after=snapshots%2Fa"}`,
	}
	for last, want := range map[string]struct {
		code int
		text string
	}{
		`{"snapshots":[{"name":"b","url":"/snapshots/b"}]}`:        {exit.OK, ""},
		`{"next":"http://elsewhere.example/?after=snapshots%2Fb"}`: {exit.Error, "elsewhere.example"},
		`{"next":"/?after=feeds%2Fa"}`:                             {exit.Error, "its directory never ends"},
		`{"feeds":[{"name":"..","url":"/"}]}`:                      {exit.Error, "the server lists a feed"},
		`<!DOCTYPE html>`:                                          {exit.Error, "is not a directory of feeds"},
		``:                                                         {exit.NotFound, "404"},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer, ok := answers[r.URL.Query().Get("after")]
			if !ok {
				answer = last
			}
			if answer == "" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write([]byte(answer))
		}))
		code, stdout, stderr := feedctl(t, "", "list", web.URL)
		web.Close()
		if code != want.code || !strings.Contains(stderr, want.text) || code == exit.OK && strings.Count(stdout, "\n") != 5 {
			t.Errorf("%s: exit status %d: %s%s", last, code, stdout, stderr)
		}
	}
}
