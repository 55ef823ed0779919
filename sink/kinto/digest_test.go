package kinto_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// TestCopyIsChecked: a sink that is opened again recognizes copies of records of Kinto, although servers
// write numbers in another notation and add a member schema, and it detects copies that others have
// changed. It accepts the states of earlier versions, which have no digests.
func TestCopyIsChecked(t *testing.T) {
	t.Parallel()
	const members = `"a":[1.10,1e3,-0,-0.0,12345678901234567890123,9223372036854775807,0.1e-7,1E22],"b":{"é":"\u00e9\/\u2028<","x":null},"deleted":true,`
	for name, root := range map[string]string{
		"fake":       kintotest.NewFake(t).URL(),
		"PostgreSQL": kintotest.Start(t, kintotest.PostgreSQL).URL(),
		"schema":     kintotest.StartOwn(t, kintotest.Memory, "experimental_collection_schema_validation=true").URL(),
	} {
		t.Run(name, func(t *testing.T) {
			bucket := root + "/buckets/checked"
			createBucket(t, bucket)
			url := bucket + "/collections/c"
			kintotest.Send(t, http.MethodPut, url, `{"data":{"schema":{"type":"object"}}}`)
			k := open(t, url, 1, nil)
			mustWrite(t, k, fromBridge(1, "first", "", 1699))
			mustWrite(t, k, fromBridge(2, "k", members, 1700), fromBridge(3, "l", "", 1701), unnamed(put(4, "m", `{"n":1.0}`)), put(5, "n", `{}`))
			check := func(want string) {
				t.Helper()
				if err := k.Close(); err != nil {
					t.Fatal(err)
				}
				k = open(t, url, 1, nil)
				if at, err := k.Position(t.Context()); err != nil || at.ContentID != want {
					t.Errorf("the sink is at %+v, %v, want %s", at, err, want)
				}
			}
			check("<5@example.com>")
			withoutDigests(t, url)
			check("<5@example.com>")
			kintotest.Send(t, http.MethodDelete, url+"/records/l", "")
			check("<1@example.com>")
			mustWrite(t, k, fromBridge(2, "k", members, 1700))
			check("<2@example.com>")
			kintotest.Send(t, http.MethodPatch, url+"/records/k", `{"data":{"b":{}}}`)
			check("<1@example.com>")
		})
	}
}

// withoutDigests changes the stored position to that of an earlier version.
func withoutDigests(t *testing.T, url string) {
	t.Helper()
	positions := url[:strings.LastIndex(url, "/")] + "/feedctl-positions/records"
	var list struct {
		Data []map[string]json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal([]byte(kintotest.Send(t, http.MethodGet, positions, "")), &list); err != nil || len(list.Data) != 1 {
		t.Fatalf("%s, %v", list.Data, err)
	}
	var last []map[string]any
	if err := json.Unmarshal(list.Data[0]["last"], &last); err != nil {
		t.Fatal(err)
	}
	digests := 0
	for _, w := range last {
		if w["digest"] != nil {
			digests++
		}
		delete(w, "digest")
	}
	if digests != 3 {
		t.Errorf("%d digests in %s", digests, list.Data[0]["last"])
	}
	list.Data[0]["last"] = must(json.Marshal(last))
	id := strings.Trim(string(list.Data[0]["id"]), `"`)
	kintotest.Send(t, http.MethodPut, positions+"/"+id, string(must(json.Marshal(map[string]any{"data": list.Data[0]}))))
}
