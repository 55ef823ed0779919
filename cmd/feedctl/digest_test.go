package main

import (
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/stores"
)

func digestJSON(t *testing.T, args ...string) (d task.StateDigest) {
	t.Helper()
	if err := json.Unmarshal([]byte(mustRun(t, "", append([]string{"digest", "--json"}, args...)...)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDigest makes digests in each kind of store, with and without state that is kept, and finds
// them there and on a server.
func TestDigest(t *testing.T) {
	eachStore(t, func(t *testing.T, url string) {
		feed, dir := url+"#zones", t.TempDir()
		mustRun(t, zones, "publish", feed, "--key", "/name")
		code, _, stderr := feedctl(t, "", "digest", feed, "--show")
		if code != exit.NotFound || !strings.Contains(stderr, "feedctl digest FEED") {
			t.Errorf("without a digest: exit status %d: %s", code, stderr)
		}
		first := digestJSON(t, feed, "--state-dir", dir)
		mustRun(t, `{"name":"Mars/Olympus"}`, "publish", feed, "--key", "/name")
		second := digestJSON(t, feed, "--state-dir", dir)
		if second.Keys != first.Keys+1 || second.Hash == first.Hash || digestJSON(t, feed).Hash != second.Hash {
			t.Errorf("digests: %+v and %+v", first, second)
		}
		mustRun(t, "", "snapshot", "from-feed", feed, "--digest", "--state-dir", dir)
		shown := digestJSON(t, feed, "--show")
		if shown.Hash != second.Hash || !strings.Contains(shown.Snapshot, "/snapshots/zones/") {
			t.Errorf("shown: %+v", shown)
		}

		store, err := stores.Open(t.Context(), url, stores.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		handler, err := server.New(store, server.Config{})
		if err != nil {
			t.Fatal(err)
		}
		site := httptest.NewServer(handler)
		defer site.Close()
		over := digestJSON(t, site.URL+"/feeds/zones")
		if over.Hash != second.Hash || over.Position.URL != site.URL+"/feeds/zones" || over.Snapshot == "" {
			t.Errorf("over HTTP: %+v", over)
		}
		if code, _, _ := feedctl(t, "", "digest", site.URL+"/feeds/none"); code != exit.NotFound {
			t.Errorf("a feed that does not exist: exit status %d", code)
		}
	})
}

func TestDigestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"http://data.example/feeds/zones", "--state-dir", "x"}, {"file:x#zones", "--show", "--key", "/id"}, {"zo nes"}, {"file:x#zones", "--key", "id"},
	} {
		if code, _, stderr := feedctl(t, "", append([]string{"digest"}, args...)...); code != exit.Usage {
			t.Errorf("%q: exit status %d: %s", args, code, stderr)
		}
	}
	url := "file:" + filepath.Join(t.TempDir(), "none")
	if code, _, stderr := feedctl(t, "", "digest", url+"#zones"); code != exit.NotFound {
		t.Errorf("no store: exit status %d: %s", code, stderr)
	}
}
