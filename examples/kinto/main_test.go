package main

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/kintotest"
)

func Test(t *testing.T) {
	server, dir := kintotest.Start(t, kintotest.Memory), t.TempDir()
	source, target := server.NewCollection(t), server.NewCollection(t)
	kintotest.Send(t, http.MethodPut, source+"/records/Abidjan", `{"data":{"countries":["CI"]}}`)
	kintotest.Send(t, http.MethodPut, source+"/records/Bern", `{"data":{"feedctl":"a member"}}`)
	kintotest.Send(t, http.MethodPut, source+"/records/Tokyo", `{"data":{"countries":["JP"],"offset":9}}`)
	copyAll(t, source, target, dir, "published 3, applied 3\n")
	kintotest.Send(t, http.MethodDelete, source+"/records/Abidjan", "")
	kintotest.Send(t, http.MethodPut, source+"/records/Tokyo", `{"data":{"countries":["JP"],"offset":9.5}}`)
	copyAll(t, source, target, dir, "published 2, applied 2\n")
	copyAll(t, source, target, dir, "published 0, applied 0\n")
}

// copyAll runs the program, and checks its output and that the collections have the same records.
func copyAll(t *testing.T, source, target, dir, want string) {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), &out, source, target, dir); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if original, copied := records(t, source), records(t, target); len(original) == 0 || !reflect.DeepEqual(copied, original) {
		t.Errorf("the copy has %v, want %v", copied, original)
	}
}

// records returns the records of a collection by id, without their stamps.
func records(t *testing.T, collection string) map[string]map[string]any {
	t.Helper()
	var list struct{ Data []map[string]any }
	if err := json.Unmarshal([]byte(kintotest.Send(t, http.MethodGet, collection+"/records", "")), &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]any{}
	for _, r := range list.Data {
		delete(r, "last_modified")
		found[r["id"].(string)] = r
	}
	return found
}
