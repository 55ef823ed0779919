package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchdiff"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
)

func TestConsumeIntoCouchDB(t *testing.T) {
	store := "file:" + filepath.Join(t.TempDir(), "store")
	to := couchtest.NewDB(t) + "-new" // the sink creates it
	couchtest.DeleteAtEnd(t, to)
	mustRun(t, zones, "publish", store+"#zones", "--key", "/name")
	for _, want := range []int64{3, 0} {
		var result task.Consumed
		out := mustRun(t, "", "consume", store+"#zones", "--into", "couchdb:"+to, "--json")
		if err := json.Unmarshal([]byte(out), &result); err != nil {
			t.Fatal(err)
		}
		if result.Entities != want || result.Into != "couchdb:"+to || result.Refused != 0 {
			t.Errorf("%+v, want %d entities", result, want)
		}
	}
	var doc struct {
		Offset float64 `json:"offset"`
	}
	if err := json.Unmarshal([]byte(couchtest.Send(t, http.MethodGet, to+"/"+url.PathEscape("Asia/Kolkata"), "")), &doc); err != nil || doc.Offset != 5.5 {
		t.Errorf("document %+v, %v", doc, err)
	}
	code, _, stderr := feedctl(t, "", "consume", store+"#zones", "--into", "couchdb:"+to+"?table=x")
	if code != exit.Usage {
		t.Errorf("exit status %d: %s", code, stderr)
	}
}

// TestCouchDBToCouchDB copies a database through a feed to a target with a password, which
// must never be shown.
func TestCouchDBToCouchDB(t *testing.T) {
	from, to := couchtest.NewDB(t), couchtest.NewDB(t)
	couchtest.Send(t, http.MethodPost, from+"/_bulk_docs", `{"new_edits":false,"docs":[
		{"_id":"plain","_rev":"1-aa","n":1},
		{"_id":"conflict","_rev":"2-bb","_revisions":{"start":2,"ids":["bb","aa"]},"v":"b"},
		{"_id":"conflict","_rev":"2-cc","_revisions":{"start":2,"ids":["cc","aa"]},"v":"c"},
		{"_id":"gone","_rev":"2-bb","_revisions":{"start":2,"ids":["bb","aa"]},"_deleted":true},
		{"_id":"_design/d","_rev":"1-aa","views":{}},
		{"_id":"attached","_rev":"1-aa","_attachments":{"a":{"content_type":"text/plain","revpos":1,"data":"aGVsbG8="}}}]}`)
	store := "file:" + filepath.Join(t.TempDir(), "store")
	mustRun(t, "", "bridge", "couchdb", from, store+"#copy", "--revs", "--conflicts", "--design-docs", "--attachments", "multipart")

	at := behindPassword(t, to)
	credentials := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(credentials, []byte("basic user:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := feedctl(t, "", "consume", store+"#copy", "--into", "couchdb:"+at)
	if code != exit.Error || !strings.Contains(stderr, "401") {
		t.Errorf("without a password: exit status %d: %s", code, stderr)
	}
	mustRun(t, "", "consume", store+"#copy", "--into", "couchdb:"+at, "--into-credentials-file", credentials)
	differences, err := couchdiff.Compare(t.Context(), from, to)
	if err != nil || len(differences) > 0 {
		t.Errorf("%v\n%s", err, strings.Join(differences, "\n"))
	}

	couchtest.Send(t, http.MethodPut, from+"/new", `{}`)
	mustRun(t, "", "bridge", "couchdb", from, store+"#copy", "--revs", "--conflicts", "--design-docs", "--attachments", "multipart")
	t.Setenv("FEEDCTL_INTO_CREDENTIALS", "basic user:wrong")
	withPassword := strings.Replace(at, "http://", "http://user:secret@", 1)
	for _, args := range [][]string{{"--into", "couchdb:" + at}, {"--into", "couchdb:" + withPassword + "?no=1"}} {
		code, stdout, stderr := feedctl(t, "", append([]string{"consume", store + "#copy", "--verbose"}, args...)...)
		if code == exit.OK || strings.Contains(stdout+stderr, "secret") || strings.Contains(stdout+stderr, "wrong") {
			t.Errorf("exit status %d: %s%s", code, stdout, stderr)
		}
	}
	t.Setenv("FEEDCTL_INTO_CREDENTIALS", "")
	code, stdout, stderr := feedctl(t, "", "consume", store+"#copy", "--verbose", "--into", "couchdb:"+withPassword)
	if code != exit.Usage || !strings.Contains(stderr, "--into-credentials-file") || strings.Contains(stdout+stderr, "secret") {
		t.Errorf("exit status %d: %s%s", code, stdout, stderr)
	}
	t.Setenv("FEEDCTL_INTO_CREDENTIALS", "basic user:secret")
	mustRun(t, "", "consume", store+"#copy", "--into", "couchdb:"+at)
	if differences, err := couchdiff.Compare(t.Context(), from, to); err != nil || len(differences) > 0 {
		t.Errorf("%v\n%s", err, strings.Join(differences, "\n"))
	}
}

// TestConsumeUnreachable: no server listens at the address of the database.
func TestConsumeUnreachable(t *testing.T) {
	store := "file:" + filepath.Join(t.TempDir(), "store")
	mustRun(t, zones, "publish", store+"#zones", "--key", "/name")
	server := httptest.NewServer(nil)
	server.Close()
	code, _, stderr := feedctl(t, "", "consume", store+"#zones", "--into", "couchdb:"+server.URL+"/db")
	host := strings.TrimPrefix(server.URL, "http://")
	if code != exit.Error || !strings.Contains(stderr, "Try: starting the server, or another URL: nothing answers at "+host) {
		t.Errorf("exit status %d: %s", code, stderr)
	}
}

// TestConsumeRefused: the database rejects one of the documents.
func TestConsumeRefused(t *testing.T) {
	to := couchtest.NewDB(t)
	store := "file:" + filepath.Join(t.TempDir(), "store")
	mustRun(t, `{"id":"good"}`+"\n", "publish", store+"#a", "--key", "/id")
	at := proxy(t, to, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/good") {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"error":"forbidden","reason":"no"}`)
		return true
	})
	code, out, stderr := feedctl(t, "", "consume", store+"#a", "--into", "couchdb:"+at)
	if want := ", which refused 1 document\n"; code != exit.Quarantine || !strings.HasSuffix(out, want) {
		t.Errorf("exit status %d: stdout is %q, want suffix %q", code, out, want)
	}
	if want := " refused 1 document, now missing there:\n  good: forbidden: no\n"; !strings.Contains(stderr, want) {
		t.Errorf("stderr is %q, want %q", stderr, want)
	}
}

// TestConsumeStubs: the feed has only stubs of attachments, so a database rejects the
// documents that have some.
func TestConsumeStubs(t *testing.T) {
	from := couchtest.NewDB(t)
	couchtest.Send(t, http.MethodPut, from+"/plain", `{}`)
	for n := range 5 {
		couchtest.Send(t, http.MethodPut, fmt.Sprintf("%s/doc%d", from, n),
			`{"_attachments":{"a":{"content_type":"text/plain","data":"aGVsbG8="}}}`)
	}
	store := "file:" + filepath.Join(t.TempDir(), "store")
	mustRun(t, "", "bridge", "couchdb", from, store+"#copy", "--revs")
	code, _, stderr := feedctl(t, "", "consume", store+"#copy", "--into", "couchdb:"+couchtest.NewDB(t), "--log-level", "error")
	if code != exit.OK {
		t.Errorf("exit status %d: %s", code, stderr)
	}
	for _, want := range []string{" refused 5 documents, ", "\n  doc0: missing_stub", "\n  and 2 more: see the log\n", "--attachments inline"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr does not contain %q:\n%s", want, stderr)
		}
	}
	var result task.Consumed
	out := mustRun(t, "", "consume", store+"#copy", "--into", "couchdb:"+couchtest.NewDB(t), "--json")
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatal(err)
	}
	if result.Refused != 5 || len(result.Refusals) != 3 || !strings.HasPrefix(result.Refusals[0].Reason, "missing_stub") {
		t.Errorf("%+v", result)
	}
}

// behindPassword returns another URL of a database, which requires a user and a password.
func behindPassword(t *testing.T, db string) string {
	return proxy(t, db, func(w http.ResponseWriter, r *http.Request) bool {
		user, password, ok := r.BasicAuth()
		if ok && user == "user" && password == "secret" {
			r.Header.Del("Authorization") // the database server does not know the user
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"unauthorized","reason":"Name or password is incorrect."}`)
		return true
	})
}

// proxy returns another URL of a database, for which answers may respond instead of the database.
func proxy(t *testing.T, db string, answers func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	name := u.Path
	u.Path = ""
	forward := httputil.NewSingleHostReverseProxy(u)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answers(w, r) {
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + name
}
