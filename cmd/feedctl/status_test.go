package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/pgtest"
)

// TestStatus shows the positions of the consumers of all kinds of sinks, and creates no sinks.
func TestStatus(t *testing.T) {
	dir := t.TempDir()
	feed := "file:" + filepath.ToSlash(dir) + "/store#zones"
	mustRun(t, zones, "publish", feed, "--key", "/name")
	database := pgtest.Start(t).URL("status")
	begun := time.Now().Add(-time.Millisecond)
	for spec, names := range map[string][]string{
		"jsonl:" + dir + "/a.jsonl":     {""},
		"dir:" + dir + "/d":             {""},
		"sqlite:" + dir + "/b.db":       {"b", "entities"},
		database:                        {"c", "d"},
		"couchdb:" + couchtest.NewDB(t): {"feedctl"},
	} {
		for _, name := range names {
			into := spec
			if len(names) > 1 {
				into += map[bool]string{true: "&", false: "?"}[strings.Contains(spec, "?")] + "table=" + name
			}
			mustRun(t, "", "consume", feed, "--into", into)
		}
		var got []string
		for line := range strings.Lines(mustRun(t, "", "status", spec, "--json")) {
			var s statusJSON
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatal(err)
			}
			if s.LagSeconds == nil || *s.LagSeconds != 0 || s.Position.ContentID == "" || s.Position.Committed.Before(begun) || s.Position.Committed.After(time.Now()) {
				t.Errorf("status %s: %s", spec, line)
			}
			got = append(got, s.Name)
		}
		if strings.Join(got, " ") != strings.Join(names, " ") {
			t.Errorf("status %s has the names %q, want %q", spec, got, names)
		}
	}
	for _, spec := range []string{"jsonl:" + dir + "/none", "dir:" + dir + "/none", "sqlite:" + dir + "/none", "couchdb:" + couchtest.NewDB(t) + "none"} {
		code, out, stderr := feedctl(t, "", "status", "jsonl:"+dir+"/a.jsonl", spec)
		if code != exit.NotFound || !strings.Contains(stderr, "none") || strings.Count(out, "\n") != 2 {
			t.Errorf("status %s: exit status %d, %s%s", spec, code, out, stderr)
		}
	}
	if found, _ := filepath.Glob(dir + "/none*"); len(found) > 0 {
		t.Errorf("status created %v", found)
	}
	if code, _, stderr := feedctl(t, "", "status", "-"); code != exit.Usage || !strings.Contains(stderr, "has no position") {
		t.Errorf("status of standard output: exit status %d, %s", code, stderr)
	}
}

// TestStatusAsksWithoutCredentials: the URL of a feed comes from the sink, so its server
// gets no credentials. Missing values, such as those that an earlier version did not write,
// are omitted.
func TestStatusAsksWithoutCredentials(t *testing.T) {
	asked := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("Authorization") != "" {
			t.Errorf("request has credentials: %q", r.Header)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer web.Close()
	t.Setenv("FEEDCTL_CREDENTIALS", "bearer secret")
	path := filepath.Join(t.TempDir(), "a.jsonl")
	record := `{"version":1,"length":0,"position":{"lastModified":"2026-05-01T10:00:00Z","contentId":"<1@x>","feed":"` + web.URL + `/feeds/a"}}`
	if err := os.WriteFile(path+".position", []byte(record), 0o666); err != nil {
		t.Fatal(err)
	}
	out := mustRun(t, "", "status", "jsonl:"+path)
	if fields := strings.Fields(strings.Split(out, "\n")[1]); asked == 0 || strings.Join(fields[2:5], " ") != "2026-05-01T10:00:00Z - -" {
		t.Errorf("server was asked %d times; %s", asked, out)
	}
}
