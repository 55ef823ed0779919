package couchtest_test

import (
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
		t.Error("a running server started again")
	}
}

// put stores a document.
func put(t *testing.T, url, doc string) {
	t.Helper()
	couchtest.Send(t, http.MethodPut, url, doc)
}

// get returns the body of an answer, whatever its status.
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
