package couchdb

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/bridge"
)

func TestParseDocument(t *testing.T) {
	type result struct {
		ID, Rev                string
		Deleted, Bare, History bool
		Without                string
	}
	for text, want := range map[string]result{
		`{"_id":"a","_rev":"1-x"}`:                                        {ID: "a", Rev: "1-x", Bare: true},
		`{"_id":"a","_rev":"1-x","n":1.10,"b":[{"_id":"no"},"}"]}`:        {ID: "a", Rev: "1-x"},
		` { "_rev" : "1-x" , "_id" : "a" , "_deleted" : true } `:          {ID: "a", Rev: "1-x", Deleted: true, Bare: true},
		`{"_id":"a","_rev":"2-x","_deleted":true,"why":"\\"}`:             {ID: "a", Rev: "2-x", Deleted: true},
		`{"_id":"a","_rev":"2-x","_deleted":false,"_revisions":{}}`:       {ID: "a", Rev: "2-x", Bare: true, History: true},
		`{"_id":"\u0061\"\\","_rev":"1-x","\"_id":"b"}`:                   {ID: `a"\`, Rev: "1-x"},
		`{"_id":"é/\ud83d\ude00","_rev":"1-x"}`:                           {ID: "é/😀", Rev: "1-x", Bare: true},
		`{"_id":"\ufffd","_rev":"1-x"}`:                                   {ID: "\ufffd", Rev: "1-x", Bare: true},
		`{"_id":"a","_rev":"1-x","_attachments":{}}`:                      {ID: "a", Rev: "1-x", Without: `{"_id":"a","_rev":"1-x"}`},
		`{"_id":"a","_rev":"1-x","_attachments":{"x":{"a":[1]}},"z":1e2}`: {ID: "a", Rev: "1-x", Without: `{"_id":"a","_rev":"1-x","z":1e2}`},
		`{"_attachments" : {"x":{}} , "_id":"a","_rev":"1-x"}`:            {ID: "a", Rev: "1-x", Without: `{"_id":"a","_rev":"1-x"}`},
	} {
		d, err := parseDocument([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if want.Without == "" {
			want.Without = strings.TrimSpace(text)
		}
		got := result{d.id, d.rev, d.deleted, d.bare, d.history, string(d.withoutAttachments())}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestBadDocuments(t *testing.T) {
	for text, want := range map[string]error{
		"":                                   errNotJSON,
		"null":                               errNotJSON,
		`[{"_id":"a","_rev":"1-x"}]`:         errNotJSON,
		"{\"_id\":\"a\xff\",\"_rev\":\"1\"}": bridge.ErrNotUTF8,
		`{"_rev":"1-x"}`:                     errNoID,
		`{"_id":"","_rev":"1-x"}`:            errNoID,
		`{"_id":7,"_rev":"1-x"}`:             errNoID,
		`{"_id":"a"}`:                        errNoRev,
		`{"_id":"a\ud800","_rev":"1-x"}`:     errSurrogate,
	} {
		if _, err := parseDocument([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

// FuzzParseDocument: accepted documents are read as encoding/json reads them, with and without
// attachments.
func FuzzParseDocument(f *testing.F) {
	f.Add([]byte(`{"_id":"a","_rev":"1-x","_attachments":{"a":{}},"z":[1,{"b":"\\\""}]}`))
	f.Add([]byte(` {"_attachments":0,"_id":"\n","_rev":"1-x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		d, err := parseDocument(text)
		if err != nil {
			return
		}
		var want, got map[string]any
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("%q is accepted as JSON: %v", text, err)
		}
		if err := json.Unmarshal(d.withoutAttachments(), &got); err != nil {
			t.Fatalf("%q without attachments is %q: %v", text, d.withoutAttachments(), err)
		}
		if !repeats(text) {
			if id, rev := want["_id"], want["_rev"]; id != d.id || rev != d.rev {
				t.Fatalf("%q: id %q, rev %q", text, d.id, d.rev)
			}
			delete(want, "_attachments")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q without attachments (-want +got):\n%s", text, diff)
			}
		}
	})
}

// repeats reports whether a text may have a member twice, or a member whose name is escaped. CouchDB
// writes neither.
func repeats(text []byte) bool {
	s := strings.ToLower(string(text))
	return strings.Contains(s, `\u`) || strings.Contains(s, `\\`) ||
		strings.Count(s, "_id") > 1 || strings.Count(s, "_rev") > 1 || strings.Count(s, "_attachments") > 1
}
