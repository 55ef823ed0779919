package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/exit"
)

// TestReconcileRevisions compares a copy of a database with all its leaf revisions.
func TestReconcileRevisions(t *testing.T) {
	source, target := couchtest.NewDB(t), couchtest.NewDB(t)
	feed := "file:" + filepath.Join(t.TempDir(), "store") + "#docs"
	store, _, _ := strings.Cut(feed, "#")
	for n := range 20 {
		couchtest.Send(t, http.MethodPut, fmt.Sprintf("%s/doc%02d", source, n), fmt.Sprintf(`{"n":%d}`, n))
	}
	couchtest.Send(t, http.MethodPost, source+"/_bulk_docs", `{"new_edits":false,"docs":[{"_id":"doc03","_rev":"1-0"},{"_id":"doc04","_rev":"9-f","_deleted":true}]}`)
	bridge := func() {
		t.Helper()
		mustRun(t, "", "bridge", "couchdb", source, "docs", "--store", store, "--revs", "--conflicts", "--index", filepath.Join(t.TempDir(), "index"))
		mustRun(t, "", "consume", feed, "--into", "couchdb:"+target)
	}
	reconcile := func(want int, flags ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := feedctl(t, "", append([]string{"reconcile", feed, "--into", "couchdb:" + target}, flags...)...)
		if code != want {
			t.Fatalf("exit status %d, want %d: %s%s", code, want, stdout, stderr)
		}
		return stdout, stderr
	}
	bridge()
	if out, _ := reconcile(exit.OK); !strings.HasSuffix(out, ": 22 rows compared: equal\n") || !strings.HasPrefix(out, "note: leaf revisions") {
		t.Errorf("printed %s", out)
	}
	mustRun(t, "", "digest", "docs", "--store", store) // makes no difference
	reconcile(exit.OK)
	if _, stderr := reconcile(exit.Error, "--repair"); !strings.Contains(stderr, "into a new database") {
		t.Errorf("printed %s", stderr)
	}
	couchtest.Send(t, http.MethodPost, source+"/_bulk_docs", `{"new_edits":false,"docs":[{"_id":"doc05","_rev":"2-a","n":1,"_revisions":{"start":2,"ids":["a","b"]}}]}`)
	bridge()
	reconcile(exit.OK)
	couchtest.Send(t, http.MethodPut, target+"/new", `{}`)
	couchtest.Send(t, http.MethodPost, target+"/_bulk_docs", `{"new_edits":false,"docs":[{"_id":"doc03","_rev":"2-1","_revisions":{"start":2,"ids":["1","0"]}}]}`)
	out, _ := reconcile(exit.Differs)
	for _, line := range []string{"+ doc03 1-0\n", "- doc03 2-1\n", "- new 1-", "1 missing, 2 extra"} {
		if !strings.Contains(out, line) {
			t.Errorf("printed %s, without %q", out, line)
		}
	}
}
