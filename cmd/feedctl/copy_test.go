package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/replica"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestCopyMetrics: the metrics have the time at which the copy was last complete.
func TestCopyMetrics(t *testing.T) {
	from, to := memory.New(), memory.New()
	c := replica.New(from, to, replica.Config{})
	scrape := func() string {
		w := httptest.NewRecorder()
		app.New(app.Streams{}).Metrics(metrics.Copy(func() *replica.Copy { return c })).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	const complete = "\nfeedctl_copy_last_complete_timestamp_seconds 1"
	if got := scrape(); strings.Contains(got, complete) || !strings.Contains(got, "\nfeedctl_copy_entities_total 0\n") {
		t.Errorf("metrics before the copy is complete:\n%s", got)
	}
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := scrape(); !strings.Contains(got, complete) {
		t.Errorf("metrics after the copy is complete:\n%s", got)
	}
}

// TestCopy copies a feed and a snapshot from each kind of store to each kind of store.
func TestCopy(t *testing.T) {
	files := func() string { return "file:" + filepath.Join(t.TempDir(), "store") }
	database, bucket := pgtest.Start(t), s3test.Start(t)
	first, last := files(), files()
	mustRun(t, zones, "publish", first+"#zones", "--key", "/name", "--max-page-entities", "2")
	mustRun(t, "", "snapshot", "from-feed", first+"#zones")
	tail := func(store string) string {
		return mustRun(t, "", "tail", store+"#zones", "--from", "beginning", "--follow=false")
	}
	want := tail(first)
	way := []string{
		first, files(), database.URL("a"), database.URL("b"), bucket.URL("a"), bucket.URL("b"),
		files(), bucket.URL("c"), database.URL("c"), last,
	}
	for i := 1; i < len(way); i++ {
		var copied copyJSON
		if err := json.Unmarshal([]byte(mustRun(t, "", "copy", way[i-1], way[i], "--json")), &copied); err != nil {
			t.Fatal(err)
		}
		if copied.Entities != 3 || copied.Pages != 2 || copied.SnapshotPages != 1 {
			t.Errorf("copied %+v", copied)
		}
		mustRun(t, "", "verify", way[i]+"#zones")
		mustRun(t, "", "verify", "--index", way[i]+"#zones")
		if got := tail(way[i]); got != want {
			t.Errorf("%s has\n%s, want\n%s", way[i], got, want)
		}
	}
	// New entities are appended.
	mustRun(t, zones, "publish", first+"#zones", "--key", "/name")
	if got := mustRun(t, "", "copy", first+"#zones", last+"#zones"); !strings.Contains(got, "copied 3 entities") {
		t.Errorf("copy of new entities: %s", got)
	}
	if tail(first) != tail(last) {
		t.Error("the copy differs")
	}
	// The target gets entities that the source does not have.
	mustRun(t, zones, "publish", last+"#zones", "--key", "/name")
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{first, last}, exit.Error, "diverged"},
		{[]string{first + "#none", last}, exit.NotFound, "none"},
		{[]string{first + "#zones", last + "#others"}, exit.Usage, "keeps its name"},
		{[]string{first, first}, exit.Usage, "same store"},
		{[]string{files(), last}, exit.NotFound, "no store"},
	} {
		code, _, stderr := feedctl(t, "", append([]string{"copy"}, test.args...)...)
		if code != test.code || !strings.Contains(stderr, test.want) {
			t.Errorf("copy %v: exit status %d: %s", test.args, code, stderr)
		}
	}
}
