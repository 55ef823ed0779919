package kintotest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/kintotest"
)

func TestNewCollection(t *testing.T) {
	t.Parallel()
	for _, backend := range kintotest.Backends {
		server := kintotest.Start(t, backend)
		one, two := server.NewCollection(t), server.NewCollection(t)
		kintotest.Send(t, http.MethodPut, one+"/records/a", `{"data":{"x":1}}`)
		if got := kintotest.Send(t, http.MethodGet, one+"/records/a", ""); !strings.Contains(got, `"x":1`) {
			t.Errorf("%s: the record is %s", backend, got)
		}
		if response, got := kintotest.Try(t, http.MethodGet, two+"/records/a", ""); response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: the record in the other collection is %s", backend, got)
		}
	}
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	server := kintotest.StartOwn(t, kintotest.PostgreSQL, "paginate_by=1")
	collection := server.NewCollection(t)
	kintotest.Send(t, http.MethodPut, collection+"/records/a", `{"data":{"x":1}}`)
	kintotest.Send(t, http.MethodPut, collection+"/records/b", `{"data":{"x":1}}`)
	server.Kill()
	if response, err := http.Get(server.URL()); err == nil {
		response.Body.Close()
		t.Fatalf("a killed server answers %s", response.Status)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	response, got := kintotest.Try(t, http.MethodGet, collection+"/records", "")
	if strings.Count(got, `"x":1`) != 1 || response.Header.Get("Next-Page") == "" {
		t.Errorf("after the restart the first page is %s, the next %q", got, response.Header.Get("Next-Page"))
	}
	kintotest.Send(t, http.MethodDelete, collection+"/records/a", "")
	tombstones := collection + "/records?_since=0&deleted=true"
	if got := kintotest.Send(t, http.MethodGet, tombstones, ""); !strings.Contains(got, `"a"`) {
		t.Errorf("deleted: %s", got)
	}
	server.Purge(t)
	if got := kintotest.Send(t, http.MethodGet, tombstones, ""); !strings.Contains(got, `[]`) {
		t.Errorf("after the purge: %s", got)
	}
	if err := server.Restart(); err == nil {
		t.Error("Restart of a running server succeeded")
	}
}
