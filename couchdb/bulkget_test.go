package couchdb_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/couchdb"
)

// TestBulkGetMultipart covers what is special about multipart responses: CouchDB does not name the
// document whose revision is missing, documents with the same content have the same revision, and
// the id of a document with attachments is in a header field, without escaping.
func TestBulkGetMultipart(t *testing.T) {
	doc := func(id string) string {
		return "Content-Type: application/json\r\n\r\n" + fmt.Sprintf(`{"_id":%q,"_rev":"1-x"}`, id)
	}
	attached := func(id string) string {
		return "X-Doc-Id: " + id + "\r\nX-Rev-Id: 1-x\r\nContent-Type: multipart/related; boundary=\"--in\"\r\n\r\n" +
			"----in\r\nContent-Type: application/json\r\n\r\n" +
			fmt.Sprintf(`{"_id":%q,"_rev":"1-x","_attachments":{"a":{"follows":true,"length":1}}}`, id) +
			"\r\n----in\r\nContent-Disposition: attachment; filename=\"a\"\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nA\r\n----in--"
	}
	const missing = "Content-Type: application/json; error=\"true\"\r\n\r\n" + `{"rev":"1-x","error":"not_found","reason":"missing"}`
	long := strings.Repeat("long", 1000)
	tests := []struct {
		name  string
		ids   []string
		parts []string
		want  string
	}{
		{"all", []string{"a", "b"}, []string{doc("a"), doc("b")}, "a, b"},
		{"the first is missing", []string{"a", "b"}, []string{missing, doc("b")}, "a 404, b"},
		{"the last is missing", []string{"a", "b"}, []string{doc("a"), missing}, "a, b 404"},
		{"between attachments", []string{"a", "b", "c"}, []string{attached("a"), missing, attached("c")}, "a, b 404, c"},
		{"all are missing", []string{"a", "b"}, []string{missing, missing}, "a 404, b 404"},
		{"ids", []string{"ü/ñ", long}, []string{attached("ü/ñ"), attached(long)}, "ü/ñ, " + long},
		{"id of two lines", []string{"a", "b\nX: y"}, []string{attached("a"), attached("b\nX: y")}, "a, b\nX: y"},
		{"id with an empty line", []string{"a", "b\r\n\r\nc"}, []string{attached("a"), attached("b\r\n\r\nc")}, "a, b\r\n\r\nc"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", `multipart/mixed; boundary="--out"`)
				if id, ok := strings.CutPrefix(r.URL.Path, "/db/"); ok && id != "_bulk_get" { // responses to open_revs do not have this field
					_, related, _ := strings.Cut(attached(id), "X-Rev-Id: 1-x\r\n")
					_, _ = io.WriteString(w, "----out\r\n"+related+"\r\n----out--")
					return
				}
				_, _ = io.WriteString(w, "\r\n----out\r\n"+strings.Join(test.parts, "\r\n----out\r\n")+"\r\n----out--\r\n")
			}))
			defer server.Close()
			var asked []couchdb.IDRev
			for _, id := range test.ids {
				asked = append(asked, couchdb.IDRev{ID: id, Rev: "1-x"})
			}
			var got []string
			for d, err := range openURL(t, server.URL+"/db").BulkGet(t.Context(), asked, couchdb.GetOptions{Attachments: couchdb.Multipart}) {
				if err != nil {
					t.Fatalf("%v, after %q", err, got)
				}
				l := readLeaf(t, d)
				got = append(got, strings.TrimSpace(l.ID+" "+l.Err))
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
