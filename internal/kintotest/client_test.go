package kintotest_test

import (
	"net/http"
	"testing"

	"github.com/feedctl/feedctl/internal/kintotest"
)

func TestClients(t *testing.T) {
	t.Parallel()
	collection := kintotest.Start(t, kintotest.Memory).NewCollection(t)
	kintotest.Send(t, http.MethodPut, collection+"/records/a", `{"data":{"x":1}}`)
	type record struct {
		ID string
		X  int
	}
	js := kintotest.StartJS(t, collection)
	var listed struct{ Data []record }
	js.Call("sync", nil, nil)
	js.Call("list", nil, &listed)
	if len(listed.Data) != 1 || listed.Data[0] != (record{"a", 1}) {
		t.Errorf("kinto.js has %+v", listed)
	}
	python := kintotest.StartPython(t, collection)
	var all []record
	python.Call("create_record", map[string]any{"id": "b", "data": record{X: 2}}, nil)
	python.Call("get_records", nil, &all)
	if len(all) != 2 || all[0] != (record{"b", 2}) {
		t.Errorf("kinto-http.py has %+v", all)
	}
}
