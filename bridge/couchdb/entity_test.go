package couchdb

import (
	"testing"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/couchdb"
)

func TestJSONEntity(t *testing.T) {
	for text, want := range map[string]string{
		`{"_id":"a","_rev":"1-x","n":1.10}`:                       `PUT {"_id":"a","_rev":"1-x","n":1.10}`,
		`{"_id":"a","_rev":"2-x","_deleted":true}`:                `DELETE `,
		`{"_id":"a","_rev":"2-x","_deleted":true,"by":"b"}`:       `DELETE {"_id":"a","_rev":"2-x","_deleted":true,"by":"b"}`,
		`{"_id":"a","_rev":"2-x","_deleted":true,"_revisions":0}`: `DELETE {"_id":"a","_rev":"2-x","_deleted":true,"_revisions":0}`,
	} {
		body := couchdb.NewBody([]byte(text))
		meta, err := body.Scan()
		if err != nil {
			t.Fatal(err)
		}
		r := &run{reader: &reader{bridge: &Bridge{}}}
		e, err := r.entity(bridge.Version{ID: meta.ID, Rev: meta.Rev}, &couchdb.Doc{Meta: meta, ContentType: mediaJSON, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(e.Operation) + " " + string(e.Body); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
