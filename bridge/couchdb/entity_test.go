package couchdb

import (
	"testing"
)

func TestJSONEntity(t *testing.T) {
	for text, want := range map[string]string{
		`{"_id":"a","_rev":"1-x","n":1.10}`:                       `PUT {"_id":"a","_rev":"1-x","n":1.10}`,
		`{"_id":"a","_rev":"2-x","_deleted":true}`:                `DELETE `,
		`{"_id":"a","_rev":"2-x","_deleted":true,"by":"b"}`:       `DELETE {"_id":"a","_rev":"2-x","_deleted":true,"by":"b"}`,
		`{"_id":"a","_rev":"2-x","_deleted":true,"_revisions":0}`: `DELETE {"_id":"a","_rev":"2-x","_deleted":true,"_revisions":0}`,
	} {
		d, err := parseDocument([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		e := jsonEntity(d, true)
		if got := string(e.Operation) + " " + string(e.Body); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
