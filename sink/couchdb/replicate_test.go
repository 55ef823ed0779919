package couchdb_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/couchdb"
)

// TestRoundTrip writes the feed of a bridge into another database, on the server and on a fake that
// behaves like Apache CouchDB.
func TestRoundTrip(t *testing.T) {
	t.Run("server", func(t *testing.T) { roundTrip(t, couchtest.NewDB) })
	t.Run("fake", func(t *testing.T) { roundTrip(t, couchtest.NewFake(t).NewDB) })
}

func roundTrip(t *testing.T, newDB func(testing.TB) string) {
	from := newDB(t)
	fill(t, from)
	for _, multi := range []bool{false, true} {
		t.Run(fmt.Sprint("multipart ", multi), func(t *testing.T) {
			to := newDB(t)
			k := open(t, to, nil)
			all := revisions(t, 1, multi)
			for _, e := range all {
				mustWrite(t, k, e)
			}
			checkEqual(t, from, to)
			written := numbers(t, to).Written
			mustWrite(t, k, append(all, all...)...) // again, and twice
			checkEqual(t, from, to)
			if again := numbers(t, to).Written; again != written || written != int64(len(docs)) {
				t.Errorf("%d documents were written, then %d", written, again)
			}

			// In one batch, in streams, in another order.
			to = newDB(t)
			k = open(t, to, nil)
			var reversed []*feed.Entity
			for _, e := range revisions(t, 1, multi) {
				e.Stream, e.Size, e.Body = struct{ io.Reader }{bytes.NewReader(e.Body)}, -1, nil
				reversed = append([]*feed.Entity{e}, reversed...)
			}
			mustWrite(t, k, reversed...)
			checkEqual(t, from, to)
		})
	}
}

// TestLargeRevisions writes documents that are not held in memory.
func TestLargeRevisions(t *testing.T) {
	from, to := couchtest.NewDB(t), couchtest.NewDB(t)
	text := fmt.Sprintf(`{"_id":"large","big":%q,"_rev":"2-bb","more":{"_id":"no","x":[1,{"_rev":"\"no\\"}]},"_revisions":{"start":2,"ids":["bb","aa"]}}`,
		strings.Repeat("x", 2*sink.MaxInline))
	attachment := strings.Repeat("y", 3*sink.MaxInline)
	couchtest.Send(t, http.MethodPost, from+"/_bulk_docs", `{"new_edits":false,"docs":[`+text+`]}`)
	couchtest.Send(t, http.MethodPost, from+"/_bulk_docs", `{"new_edits":false,"docs":[{"_id":"multi","_rev":"1-aa","_attachments":{"a":{"content_type":"text/plain","revpos":1,"data":"`+base64Of(attachment)+`"}}}]}`)
	multi := "--b\r\nContent-Type: application/json\r\n\r\n" +
		fmt.Sprintf(`{"_id":"multi","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]},"_attachments":{"a":{"content_type":"text/plain","revpos":1,"follows":true,"length":%d}}}`, len(attachment)) +
		"\r\n--b\r\nContent-Disposition: attachment; filename=\"a\"\r\nContent-Type: text/plain\r\n\r\n" + attachment + "\r\n--b--"
	k := open(t, to, nil)
	b, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ id, rev, contentType, text string }{
		{"large", "2-bb", "application/json", text},
		{"multi", "1-aa", "multipart/related; boundary=b", multi},
	} {
		e := fromCouch(1, c.contentType, "", c.id, c.rev, false)
		e.Stream, e.Size, e.Body = struct{ io.Reader }{strings.NewReader(c.text)}, int64(len(c.text)), nil
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := b.Apply(t.Context(), e)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
			t.Errorf("%s took %d bytes of memory", c.id, used)
		}
	}
	if err := b.Commit(t.Context(), feed.Position{ContentID: "<1@example.com>"}); err != nil {
		t.Fatal(err)
	}
	checkEqual(t, from, to)
}

// TestDeepHistory writes a document with as many ancestors as CouchDB keeps by default, and a conflict
// with the oldest ancestor.
func TestDeepHistory(t *testing.T) {
	from, to := couchtest.NewDB(t), couchtest.NewDB(t)
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprintf(`"%032x"`, 1000-i)
	}
	texts := []string{
		fmt.Sprintf(`{"_id":"deep","_rev":"1000-%032x","_revisions":{"start":1000,"ids":[%s]}}`, 1000, strings.Join(ids, ",")),
		fmt.Sprintf(`{"_id":"deep","_rev":"2-%032x","_revisions":{"start":2,"ids":["%032[1]x",%[2]s]}}`, 9999, ids[999]),
	}
	couchtest.Send(t, http.MethodPost, from+"/_bulk_docs", `{"new_edits":false,"docs":[`+strings.Join(texts, ",")+`]}`)
	k := open(t, to, nil)
	mustWrite(t, k, fromCouch(1, "application/json", texts[1], "deep", fmt.Sprintf("2-%032x", 9999), false))
	mustWrite(t, k, fromCouch(2, "application/json", texts[0], "deep", fmt.Sprintf("1000-%032x", 1000), false))
	checkEqual(t, from, to)
	if c := numbers(t, to); c.Written != 2 || c.Failures != 0 {
		t.Errorf("the checkpoint has %+v", c)
	}
}

// TestWithoutRevisions: documents from CouchDB without their revision history are stored as changes,
// under their own ids.
func TestWithoutRevisions(t *testing.T) {
	to := couchtest.NewDB(t)
	k := open(t, to, nil)
	multi := "--b\r\nContent-Type: application/json\r\n\r\n" +
		`{"_id":"m","_rev":"4-dd","v":1,"_attachments":{"a":{"content_type":"text/plain","follows":true,"length":5},"old":{"stub":true,"content_type":"text/plain","length":1}}}` +
		"\r\n--b\r\nContent-Disposition: attachment; filename=\"a\"\r\nContent-Type: text/plain\r\n\r\nhello\r\n--b--"
	mustWrite(t, k,
		fromCouch(1, "application/json", `{"_id":"a","_rev":"7-ff","v":1.5,"_conflicts":["7-ee"],"_attachments":{"in":{"content_type":"text/plain","data":"aGVsbG8="},"stub":{"stub":true,"content_type":"text/plain","length":1}}}`, "a", "7-ff", false),
		fromCouch(2, "multipart/related; boundary=b", multi, "m", "4-dd", false),
		fromCouch(3, "application/json", `{"_id":"_design/d","_rev":"1-aa","views":{}}`, "_design/d", "1-aa", false),
		fromCouch(4, "application/json", `{"_id":"g","_rev":"1-aa"}`, "g", "1-aa", false))
	mustWrite(t, k,
		fromCouch(5, "application/json", ``, "g", "2-bb", true),
		fromCouch(6, "application/json", `{"_id":"never","_rev":"2-bb","_deleted":true,"why":1}`, "never", "2-bb", true))
	for path, want := range map[string]string{
		"/a":         `["_attachments","_id","_rev","feedctl","v"]`,
		"/m":         `["_attachments","_id","_rev","feedctl","v"]`,
		"/_design/d": `["_id","_rev","feedctl","views"]`,
	} {
		var doc map[string]any
		get(t, to+path, &doc)
		if got := names(doc); got != want {
			t.Errorf("%s has members %s, want %s", path, got, want)
		}
		if attachments, ok := doc["_attachments"].(map[string]any); ok && len(attachments) != 1 {
			t.Errorf("%s has attachments %v", path, attachments)
		}
	}
	for _, path := range []string{"/a/in", "/m/a"} {
		if got := couchtest.Send(t, http.MethodGet, to+path, ""); got != "hello" {
			t.Errorf("%s is %q", path, got)
		}
	}
	if _, err := fetch(to + "/g"); err == nil {
		t.Error("a deleted document exists")
	}
}

// TestNotFromCouchDB: an entity that only resembles a document from CouchDB is not treated as one.
func TestNotFromCouchDB(t *testing.T) {
	to := couchtest.NewDB(t)
	k := open(t, to, nil)
	for i, c := range []struct{ etag, contentType, body string }{
		{`"1-aa"`, "application/json", `{"a":1}`},
		{`"1-aa"`, "application/json", `{"_id":"x","_rev":"2-aa","_revisions":{}}`},
		{`"1-aa"`, "application/json", `{"_id":"_local/x","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`},
		{`"1-aa"`, "application/json", `{"_id":"x","_rev":"1-aa",`},
		{`"1-aa"`, "multipart/related; boundary=b", "--b\r\n\r\nno"},
		{`"1-aa"`, "multipart/related", "--b\r\n\r\nno"},
		{`W/"1-aa"`, "application/json", `{"_id":"x","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`},
		{`"abc"`, "application/json", `{"_id":"x","_rev":"abc","_revisions":{"start":1,"ids":["aa"]}}`},
	} {
		e := entity(i, feed.Put, fmt.Sprint("key", i), c.contentType, c.body)
		e.Header = []feed.Field{{Name: "etag", Value: c.etag}}
		mustWrite(t, k, e)
	}
	records, err := read(to)
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 8 {
		t.Errorf("there are %d documents: %v", len(records), records)
	}
	if _, err := fetch(to + "/x"); err == nil {
		t.Error("an entity was taken for a document of CouchDB")
	}
}

// TestRefused writes to a database that refuses documents.
func TestRefused(t *testing.T) {
	to := couchtest.NewDB(t)
	k := open(t, to, couchRefuses)
	all := []*feed.Entity{
		fromCouch(1, "application/json", `{"_id":"good","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`, "good", "1-aa", false),
		fromCouch(2, "application/json", `{"_id":"forbidden1","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`, "forbidden1", "1-aa", false),
		fromCouch(3, "application/json", `{"_id":"stub1","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`, "stub1", "1-aa", false),
		fromCouch(4, "application/json", `{"_id":"good2","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`, "good2", "1-aa", false),
		fromCouch(5, "multipart/related; boundary=b", "--b\r\nContent-Type: application/json\r\n\r\n"+`{"_id":"forbidden2","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`+"\r\n--b--", "forbidden2", "1-aa", false),
		put(6, "good3", `{}`), put(7, "forbidden3", `{}`), put(8, "stub2", `{}`), put(9, "good4", `{}`),
		entity(10, feed.Put, "forbidden4", "text/plain", strings.Repeat("x", 100_000)),
		put(11, "good5", `{}`),
	}
	mustWrite(t, k, all...)
	var ids []string
	for id := range leavesOf(t, to) {
		ids = append(ids, id)
	}
	if diff := cmp.Diff([]string{"good", "good2", "good3", "good4", "good5"}, sorted(ids)); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	c := numbers(t, to)
	examples := k.(*couchdb.Sink).Rejected().Refusals
	if len(examples) != 3 {
		t.Errorf("refusals %+v", examples)
	}
	for n, r := range examples {
		if first := c.Refused[n]; r.ID != first.ID || r.Reason != first.Reason {
			t.Errorf("refusal %+v, and the checkpoint has %+v", r, first)
		}
	}
	if c.Written != 5 || c.Failures != 6 || len(c.Refused) != 6 || k.(*couchdb.Sink).Rejected().Refused != 6 {
		t.Errorf("the checkpoint has %+v, and %d are refused", c, k.(*couchdb.Sink).Rejected().Refused)
	}
	for _, r := range c.Refused {
		if !strings.Contains(r.Reason, "for a test") || r.ID == "" {
			t.Errorf("refusal %+v", r)
		}
	}
	at, err := k.Position(t.Context())
	if err != nil || at.ContentID != all[10].ContentID {
		t.Errorf("position %v, %v", at, err)
	}
}

// TestValidation uses a design document that refuses documents, and a malformed one.
func TestValidation(t *testing.T) {
	to := couchtest.NewDB(t)
	couchtest.Send(t, http.MethodPut, to+"/_design/v", `{"validate_doc_update":"function (doc) { if (doc.bad) throw({forbidden: 'for a test'}); }"}`)
	k := open(t, to, nil)
	body := `{"bad":true}`
	mustWrite(t, k, put(1, "a", `{}`), put(2, "b", body), put(3, "c", `{}`))
	mustWrite(t, k, put(4, "d", body))
	mustWrite(t, k,
		fromCouch(5, "application/json", `{"_id":"e","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`, "e", "1-aa", false),
		fromCouch(6, "application/json", `{"_id":"f","_rev":"1-aa","bad":1,"_revisions":{"start":1,"ids":["aa"]}}`, "f", "1-aa", false),
		fromCouch(7, "application/json", `{"_id":"g","_rev":"1-aa","_bad":1,"_revisions":{"start":1,"ids":["aa"]}}`, "g", "1-aa", false),
		fromCouch(8, "application/json", `{"_id":"h","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]},"_attachments":{"x":{"stub":true,"content_type":"text/plain","digest":"md5-DMF1ucDxtqgxw5niaXcmYQ==","length":1,"revpos":1}}}`, "h", "1-aa", false),
		fromCouch(9, "application/json", `{"_id":"i","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`, "i", "1-aa", false))
	var ids []string
	for id := range leavesOf(t, to) {
		ids = append(ids, id)
	}
	if diff := cmp.Diff([]string{"_design/v", "a", "c", "e", "i"}, sorted(ids)); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	var refused []string
	for _, r := range numbers(t, to).Refused {
		refused = append(refused, r.ID)
	}
	if diff := cmp.Diff([]string{"b", "d", "f", "g", "h"}, sorted(refused)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// couchRefuses responds like Apache CouchDB: in _bulk_docs, each forbidden document has an error, and a
// document that lacks an attachment makes the request fail.
func couchRefuses(r *http.Request) (*http.Response, error) {
	if r.Body == nil || strings.Contains(r.URL.Path, "_local/") {
		return http.DefaultTransport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer := func(status int, text string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
	}
	if r.Method == http.MethodPut && bytes.Contains(body, []byte(`"_id":"forbidden`)) {
		return answer(403, `{"error":"forbidden","reason":"for a test"}`)
	}
	if r.Method == http.MethodPut && bytes.Contains(body, []byte(`"_id":"stub`)) || strings.HasSuffix(r.URL.Path, "_bulk_docs") && bytes.Contains(body, []byte(`"_id":"stub`)) {
		return answer(412, `{"error":"missing_stub","reason":"for a test"}`)
	}
	if !strings.HasSuffix(r.URL.Path, "_bulk_docs") || !bytes.Contains(body, []byte(`"_id":"forbidden`)) {
		return http.DefaultTransport.RoundTrip(r)
	}
	var q struct {
		NewEdits bool              `json:"new_edits"`
		Docs     []json.RawMessage `json:"docs"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, err
	}
	var pass []json.RawMessage
	results := []string{}
	for _, d := range q.Docs {
		var doc struct {
			ID  string `json:"_id"`
			Rev string `json:"_rev"`
		}
		if err := json.Unmarshal(d, &doc); err != nil {
			return nil, err
		}
		if strings.HasPrefix(doc.ID, "forbidden") {
			results = append(results, fmt.Sprintf(`{"id":%q,"rev":%q,"error":"forbidden","reason":"for a test"}`, doc.ID, doc.Rev))
			continue
		}
		pass = append(pass, d)
		if q.NewEdits {
			results = append(results, fmt.Sprintf(`{"ok":true,"id":%q,"rev":"1-x"}`, doc.ID))
		}
	}
	q.Docs = pass
	if body, err = json.Marshal(q); err != nil {
		return nil, err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body.Close()
	return answer(201, "["+strings.Join(results, ",")+"]")
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestConstantMemory sends an attachment that is much larger than the memory that may be used. No real
// server stores the attachment.
func TestConstantMemory(t *testing.T) {
	const size = 64 << 20
	to := couchtest.NewDB(t)
	received := int64(0)
	k := open(t, to, func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/large") {
			return http.DefaultTransport.RoundTrip(r)
		}
		var err error
		received, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 32<<10))
		return &http.Response{StatusCode: 201, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"rev":"1-aa"}`)), Request: r}, err
	})
	e := entity(1, feed.Put, "large", "application/octet-stream", "")
	e.Body, e.Stream, e.Size = nil, io.LimitReader(zeros{}, size), -1
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	mustWrite(t, k, e)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 || received < size {
		t.Errorf("%d bytes took %d bytes of memory; the server got %d", size, used, received)
	}
}
