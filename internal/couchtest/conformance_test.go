package couchtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/couchtest"
)

// A step is a request, and the response that both servers must send.
type step struct {
	method, path, body string
	status             int
	// want is the body of the response. Differences that normalize removes are allowed, and "" accepts any
	// body.
	want string
}

// TestConformance sends the same requests to the fake and to the server. It leaves out requests to which
// PouchDB's engine responds differently from CouchDB.
func TestConformance(t *testing.T) {
	const a, b, c = "2-00000000000000000000000000000aaa", "2-00000000000000000000000000000bbb", "3-00000000000000000000000000000ccc"
	replicated := func(id, rev, ids, rest string) string {
		return `{"_id":"` + id + `","_rev":"` + rev + `","_revisions":{"start":` + rev[:1] + `,"ids":[` + ids + `]}` + rest + `}`
	}
	const hashA, hashB, hashC, root = `"00000000000000000000000000000aaa"`, `"00000000000000000000000000000bbb"`,
		`"00000000000000000000000000000ccc"`, `"00000000000000000000000000000001"`
	steps := map[string][]step{
		"database": {
			{"GET", "/nothing", "", 404, ""},
			{"PUT", "", "", 412, `{"error":"file_exists"}`},
			{"DELETE", "", "", 200, `{"ok":true}`},
			{"GET", "", "", 404, `{"error":"not_found"}`},
			{"GET", "/_changes", "", 404, `{"error":"not_found"}`},
			{"PUT", "", "", 201, `{"ok":true}`},
			{"GET", "/_changes", "", 200, `{"results":[]}`},
		},
		"updates": {
			{"PUT", "/d", `{"n":1}`, 201, `{"ok":true,"id":"d","rev":"R1"}`},
			{"PUT", "/d", `{"n":2}`, 409, `{"error":"conflict"}`},
			{"PUT", "/d", `{"n":2,"_rev":"R1"}`, 201, `{"ok":true,"id":"d","rev":"R2"}`},
			{"PUT", "/d", `{"n":3,"_rev":"R1"}`, 409, `{"error":"conflict"}`},
			{"GET", "/d", "", 200, `{"_id":"d","_rev":"R2","n":2}`},
			{"GET", "/d?rev=R1", "", 200, `{"_id":"d","_rev":"R1","n":1}`},
			{"GET", "/_changes", "", 200, `{"results":[{"id":"d","changes":[{"rev":"R2"}]}]}`},
			{"GET", "/_changes?include_docs=true", "", 200,
				`{"results":[{"id":"d","changes":[{"rev":"R2"}],"doc":{"_id":"d","_rev":"R2","n":2}}]}`},
			{"DELETE", "/d?rev=R2", "", 200, `{"ok":true,"id":"d","rev":"R3"}`},
			{"GET", "/d", "", 404, `{"error":"not_found"}`},
			{"GET", "/_changes", "", 200, `{"results":[{"id":"d","changes":[{"rev":"R3"}],"deleted":true}]}`},
			{"PUT", "/d", `{"again":true}`, 201, `{"ok":true,"id":"d","rev":"R4"}`},
			{"GET", "/d", "", 200, `{"_id":"d","_rev":"R4","again":true}`},
		},
		"ids": {
			{"PUT", "/a%2Fb%20c%C3%A9", `{}`, 201, `{"ok":true,"id":"a/b cé","rev":"R1"}`},
			{"GET", "/a%2Fb%20c%C3%A9", "", 200, `{"_id":"a/b cé","_rev":"R1"}`},
			{"PUT", "/_design%2Fapp", `{"views":{}}`, 201, `{"ok":true,"id":"_design/app","rev":"R2"}`},
			{"GET", "/_design/app", "", 200, `{"_id":"_design/app","_rev":"R2","views":{}}`},
			{"POST", "/_changes?filter=_doc_ids", `{"doc_ids":["a/b cé"]}`, 200,
				`{"results":[{"id":"a/b cé","changes":[{"rev":"R1"}]}]}`},
		},
		"conflicts": {
			{"POST", "/_bulk_docs", `{"new_edits":false,"docs":[` +
				replicated("c", a, hashA+","+root, `,"side":"a"`) + "," +
				replicated("c", b, hashB+","+root, `,"side":"b"`) + "," +
				replicated("c", c, hashC+`,"00000000000000000000000000000ddd",`+root, `,"_deleted":true`) + `]}`, 201, `[]`},
			{"GET", "/c?conflicts=true", "", 200, `{"_id":"c","_rev":"` + b + `","side":"b","_conflicts":["` + a + `"]}`},
			{"GET", "/c?open_revs=all&revs=true", "", 200, `[` +
				`{"ok":` + replicated("c", a, hashA+","+root, `,"side":"a"`) + `},` +
				`{"ok":` + replicated("c", b, hashB+","+root, `,"side":"b"`) + `},` +
				`{"ok":` + replicated("c", c, hashC+`,"00000000000000000000000000000ddd",`+root, `,"_deleted":true`) + `}]`},
			{"GET", `/c?open_revs=["` + a + `","9-0000000000000000000000000000ffff"]`, "", 200,
				`[{"ok":{"_id":"c","_rev":"` + a + `","side":"a"}},{"missing":"9-0000000000000000000000000000ffff"}]`},
			{"POST", "/_revs_diff", `{"c":["` + a + `","4-0000000000000000000000000000ffff"],"new":["1-00000000000000000000000000000abc"]}`, 200, ""},
			{"POST", "/_bulk_get", `{"docs":[{"id":"c","rev":"` + a + `"}]}`, 200,
				`{"results":[{"id":"c","docs":[{"ok":{"_id":"c","_rev":"` + a + `","side":"a"}}]}]}`},
			{"POST", "/_bulk_docs", `{"new_edits":false,"docs":[` + replicated("c", a, hashA+","+root, `,"side":"a"`) + `]}`, 201, `[]`},
			{"DELETE", "/c?rev=" + b, "", 200, `{"ok":true,"id":"c","rev":"R1"}`},
			{"GET", "/c", "", 200, `{"_id":"c","_rev":"` + a + `","side":"a"}`},
		},
		"attachments": {
			{"PUT", "/t", `{"_attachments":{"x.bin":{"content_type":"application/octet-stream","data":"AAECAw=="}}}`, 201, `{"ok":true,"id":"t","rev":"R1"}`},
			{"GET", "/t", "", 200, `{"_id":"t","_rev":"R1","_attachments":{"x.bin":` +
				`{"content_type":"application/octet-stream","revpos":1,"digest":"md5-N7Wa/VknJfkwXkhKXX9RaA==","length":4,"stub":true}}}`},
			{"GET", "/t?attachments=true", "", 200, `{"_id":"t","_rev":"R1","_attachments":{"x.bin":` +
				`{"content_type":"application/octet-stream","revpos":1,"digest":"md5-N7Wa/VknJfkwXkhKXX9RaA==","data":"AAECAw=="}}}`},
			{"PUT", "/t", `{"_rev":"R1","n":1,"_attachments":{"x.bin":{"stub":true,"content_type":"application/octet-stream","revpos":1,"digest":"md5-N7Wa/VknJfkwXkhKXX9RaA==","length":4}}}`,
				201, `{"ok":true,"id":"t","rev":"R2"}`},
			{"GET", "/t?attachments=true", "", 200, `{"_id":"t","_rev":"R2","n":1,"_attachments":{"x.bin":` +
				`{"content_type":"application/octet-stream","revpos":1,"digest":"md5-N7Wa/VknJfkwXkhKXX9RaA==","data":"AAECAw=="}}}`},
			{"PUT", "/u", `{"_attachments":{"y":{"stub":true}}}`, 412, `{"error":"missing_stub"}`},
		},
		"local": {
			{"GET", "/_local/x", "", 404, `{"error":"not_found"}`},
			{"PUT", "/_local/x", `{"n":1}`, 201, `{"ok":true,"id":"_local/x","rev":"0-1"}`},
			{"GET", "/_local/x", "", 200, `{"_id":"_local/x","_rev":"0-1","n":1}`},
			{"PUT", "/_local/x", `{"n":2,"_rev":"0-1"}`, 201, `{"ok":true,"id":"_local/x","rev":"0-2"}`},
			{"GET", "/_changes", "", 200, `{"results":[]}`},
			{"POST", "/_ensure_full_commit", "", 201, `{"ok":true}`},
		},
		"many": {
			{"POST", "/_bulk_docs", `{"docs":[{"_id":"1","n":1},{"_id":"2","n":2},{"_id":"2"}]}`, 201,
				`[{"ok":true,"id":"1","rev":"R1"},{"ok":true,"id":"2","rev":"R2"},{"id":"2","error":"conflict"}]`},
			{"GET", "/_all_docs", "", 200,
				`{"total_rows":2,"offset":0,"rows":[{"id":"1","key":"1","value":{"rev":"R1"}},{"id":"2","key":"2","value":{"rev":"R2"}}]}`},
			{"GET", `/_all_docs?startkey="2"&include_docs=true`, "", 200,
				`{"total_rows":2,"offset":1,"rows":[{"id":"2","key":"2","value":{"rev":"R2"},"doc":{"_id":"2","_rev":"R2","n":2}}]}`},
		},
	}
	for name, open := range map[string]func(testing.TB) string{
		"server": couchtest.NewDB,
		"fake":   func(t testing.TB) string { return couchtest.NewFake(t).NewDB(t) },
	} {
		for group, steps := range steps {
			t.Run(name+"/"+group, func(t *testing.T) {
				t.Parallel()
				run(t, open(t), steps)
			})
		}
	}
}

// run sends the requests of steps to a database. In the steps, R1, R2 and so on stand for the revisions that
// the database made, in order.
func run(t *testing.T, database string, steps []step) {
	var revs []string
	for _, s := range steps {
		named := make([]string, 0, 2*len(revs))
		for i, rev := range slices.Backward(revs) {
			named = append(named, "R"+string(rune('1'+i)), rev)
		}
		fill := strings.NewReplacer(named...).Replace
		status, answer := ask(t, s.method, database+fill(s.path), fill(s.body))
		for _, rev := range newRevs(answer) {
			if !slices.Contains(revs, rev) {
				revs = append(revs, rev)
			}
		}
		for i, rev := range revs {
			answer = strings.ReplaceAll(answer, rev, "R"+string(rune('1'+i)))
		}
		if status != s.status {
			t.Errorf("%s %s: status %d, want %d: %s", s.method, s.path, status, s.status, answer)
		}
		if s.want == "" {
			continue
		}
		if diff := cmp.Diff(normalize(t, s.want), normalize(t, answer)); diff != "" {
			t.Errorf("%s %s: %s\n%s", s.method, s.path, answer, diff)
		}
	}
}

// newRevs returns the revisions that the response to a write names.
func newRevs(answer string) (revs []string) {
	type result struct {
		OK  bool
		Rev string
	}
	var one result
	var many []result
	if json.Unmarshal([]byte(answer), &one) == nil {
		many = []result{one}
	} else if json.Unmarshal([]byte(answer), &many) != nil {
		return nil
	}
	for _, r := range many {
		if r.OK && strings.Contains(r.Rev, "-") && !strings.HasPrefix(r.Rev, "0-") {
			revs = append(revs, r.Rev)
		}
	}
	return revs
}

// normalize parses a response and removes whatever may differ: sequences, the texts of reasons, the order in
// which revisions are sent, and members that only one of the servers sends.
func normalize(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("answer %q: %v", text, err)
	}
	strip(v)
	return v
}

func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range []string{"seq", "last_seq", "pending", "instance_start_time", "offset", "reason", "name", "message", "status"} {
			delete(v, name)
		}
		if _, failed := v["error"]; failed {
			delete(v, "rev")
		}
		for _, x := range v {
			strip(x)
		}
	case []any:
		if len(v) == 0 {
			return
		}
		for _, x := range v {
			strip(x)
		}
		if _, ok := v[0].(map[string]any); ok {
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
}

// ask sends a request with a JSON body, and returns the status and the body of the response.
func ask(t testing.TB, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, strings.NewReplacer(`"`, "%22", "[", "%5B", "]", "%5D").Replace(url), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(bytes.TrimSpace(text))
}
