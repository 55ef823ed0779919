package couchdb_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/couchdb"
)

// TestCompressed: responses are read even if a proxy compresses them although the client did not
// ask for compression.
func TestCompressed(t *testing.T) {
	compress := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	document := `{"results":[{"id":"a","docs":[{"ok":{"_id":"a","_rev":"1-a"}}]}]}`
	for name, test := range map[string]struct {
		encoding string
		status   int
		body     []byte
		want     func(error) bool
	}{
		"whole":             {"gzip", 200, compress(document), func(err error) bool { return err == nil }},
		"cut":               {"gzip", 200, compress(document)[:30], couchdb.Retryable},
		"not compressed":    {"gzip", 200, []byte(document), couchdb.Retryable},
		"error":             {"gzip", 403, compress(`{"error":"forbidden","reason":"not you"}`), func(err error) bool { return err != nil && strings.Contains(err.Error(), "not you") }},
		"page of a proxy":   {"br", 503, []byte("x"), couchdb.Retryable},
		"something unknown": {"br", 200, []byte("x"), func(err error) bool { return errors.Is(err, couchdb.ErrMalformed) }},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", test.encoding)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(test.status)
			w.Write(test.body)
		}))
		db, err := couchdb.Open(couchdb.Config{URL: server.URL + "/db"})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for doc, e := range db.BulkGet(t.Context(), []couchdb.IDRev{{ID: "a", Rev: "1-a"}}, couchdb.GetOptions{Once: true}) {
			if err = e; e == nil {
				got = fmt.Sprint(doc.ID, doc.Rev)
			}
		}
		if !test.want(err) || err == nil && got != "a1-a" {
			t.Errorf("%s: document %q, %v", name, got, err)
		}
		server.Close()
	}
}
