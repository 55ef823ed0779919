package couchtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchtest"
)

func TestNewDB(t *testing.T) {
	one, two := couchtest.NewDB(t), couchtest.NewDB(t)
	put(t, one+"/a", `{"x":1}`)
	if got := get(t, one+"/a"); !strings.Contains(got, `"x":1`) {
		t.Errorf("the document is %s", got)
	}
	if got := get(t, two+"/a"); !strings.Contains(got, `"not_found"`) {
		t.Errorf("the document in the other database is %s", got)
	}
}

func TestKillAndRestart(t *testing.T) {
	server := couchtest.StartOwn(t)
	db := server.NewDB(t)
	put(t, db+"/a", `{"x":1}`)
	for range 2 {
		server.Kill()
		if response, err := http.Get(db); err == nil {
			response.Body.Close()
			t.Fatalf("a killed server answers %s", response.Status)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		if got := get(t, db+"/a"); !strings.Contains(got, `"x":1`) {
			t.Errorf("after the restart the document is %s", got)
		}
	}
	if err := server.Restart(); err == nil {
		t.Error("Restart of a running server succeeded")
	}
}

// put stores a document.
func put(t *testing.T, url, doc string) {
	t.Helper()
	couchtest.Send(t, http.MethodPut, url, doc)
}

// get returns the body of a response, whatever its status.
func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestRestore: when a snapshot is restored, documents that were written after it are gone, and a sequence
// from that time is beyond the end of the changes.
func TestRestore(t *testing.T) {
	t.Parallel()
	fake, server := couchtest.NewFake(t), couchtest.StartOwn(t)
	for name, db := range map[string]struct {
		url      string
		snapshot func(url string) (restore func())
	}{
		"fake":   {fake.NewDB(t), fake.Snapshot},
		"server": {server.NewDB(t), func(string) func() { return server.Snapshot(t) }},
	} {
		put(t, db.url+"/a", `{"x":1}`)
		put(t, db.url+"/_local/log", `{"n":1}`)
		restore := db.snapshot(db.url)
		put(t, db.url+"/b", `{"x":1}`)
		put(t, db.url+"/c", `{"x":1}`)
		put(t, db.url+"/_local/log", `{"n":2,"_rev":"0-1"}`)
		since := lastSeq(t, db.url)
		for range 2 {
			restore()
			http.DefaultClient.CloseIdleConnections() // they are broken, since the server was started again
			put(t, db.url+"/d", `{"x":1}`)
			if got := get(t, db.url+"/b"); !strings.Contains(got, `"not_found"`) {
				t.Errorf("%s: the document is %s", name, got)
			}
			if got := get(t, db.url+"/_local/log"); !strings.Contains(got, `"n":1`) {
				t.Errorf("%s: the local document is %s", name, got)
			}
			if got := get(t, db.url+"/_changes?since="+since); strings.Contains(got, `"id"`) {
				t.Errorf("%s: the changes are %s", name, got)
			}
			if got := get(t, db.url+"/_changes"); strings.Count(got, `"id"`) != 2 {
				t.Errorf("%s: all changes are %s", name, got)
			}
		}
	}
}

func lastSeq(t *testing.T, db string) string {
	t.Helper()
	var answer struct {
		LastSeq json.RawMessage `json:"last_seq"`
	}
	if err := json.Unmarshal([]byte(get(t, db+"/_changes")), &answer); err != nil {
		t.Fatal(err)
	}
	return strings.Trim(string(answer.LastSeq), `"`)
}
