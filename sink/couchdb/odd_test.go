package couchdb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink/couchdb"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// revised returns the entity of a document with a revision.
func revised(n int, id, members string) *feed.Entity {
	return fromCouch(n, "application/json", fmt.Sprintf(`{"_id":%q,"_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}%s}`, id, members), id, "1-aa", false)
}

// checkRefused checks which documents a database has, and which it has refused.
func checkRefused(t *testing.T, db string, want, refused []string) {
	t.Helper()
	var ids, out []string
	for id := range leavesOf(t, db) {
		ids = append(ids, id)
	}
	for _, r := range numbers(t, db).Refused {
		out = append(out, r.ID)
	}
	if diff := cmp.Diff(want, sorted(ids)); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(refused, sorted(out)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// TestOddErrors: a validation function throws values that are not CouchDB errors.
func TestOddErrors(t *testing.T) {
	fake := couchtest.NewFake(t)
	fake.Validate = func(id string, _ []byte) error {
		switch id {
		case "bad1", "bad2", "bad3":
			return couchtest.ThrownError{Code: "TypeError", Reason: "doc.tags is undefined"}
		case "_design/bad":
			return couchtest.ThrownError{Code: "invalid_design_doc", Reason: "`language` must be a string"}
		case "bad4":
			return couchtest.ThrownError{Code: "unknown_error", Reason: "no"}
		}
		return nil
	}
	to := fake.NewDB(t)
	k := open(t, to, nil)
	mustWrite(t, k, put(1, "a", `{}`), put(2, "bad1", `{}`), put(3, "c", `{}`))
	mustWrite(t, k, put(4, "bad2", `{}`)) // sent alone: the server responds with 500
	mustWrite(t, k, revised(5, "d", ""), revised(6, "bad3", ""), revised(7, "_design/bad", ""), revised(8, "bad4", ""), revised(9, "e", ""))
	checkRefused(t, to, []string{"a", "c", "d", "e"}, []string{"_design/bad", "bad1", "bad2", "bad3", "bad4"})
}

// TestServerFailsOnDocument: the server responds with 500 to each request that contains certain
// documents.
func TestServerFailsOnDocument(t *testing.T) {
	fake := couchtest.NewFake(t)
	to := fake.NewDB(t)
	k, err := impatient(t.Context(), to, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	fake.Requests()
	const bad = `,"_attachments":{"x":{"stub":true,"content_type":"text/plain","digest":"md5-a","length":1,"revpos":1}}`
	var all []*feed.Entity
	var good []string
	for n := range 20 {
		id, members := fmt.Sprintf("%02d", n), ""
		if n == 7 {
			members = bad
		} else {
			good = append(good, id)
		}
		all = append(all, revised(n+1, id, members))
	}
	mustWrite(t, k, all...)
	checkRefused(t, to, good, []string{"07"})
	if n := len(fake.Requests()); n > 40 {
		t.Errorf("%d requests were made", n)
	}
}

// TestServerFailsOnAll: if the server fails all writes, no document is refused.
func TestServerFailsOnAll(t *testing.T) {
	fake := couchtest.NewFake(t)
	to := fake.NewDB(t)
	k := open(t, to, nil)
	fake.Inject(0, func(r *http.Request) bool { return r.Method != http.MethodGet }, couchtest.Refuse(500, "enospc", "no space left on device"))
	for _, all := range [][]*feed.Entity{{put(1, "a", `{}`)}, {revised(1, "a", "")}, {revised(1, "a", ""), revised(2, "b", "")}} {
		if err := sinktest.Write(t.Context(), k, all...); err == nil || !strings.Contains(err.Error(), "enospc") {
			t.Errorf("commit: %v", err)
		}
		fake.Heal()
		if _, err := k.Position(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := k.(*couchdb.Sink).Rejected().Refused; n != 0 {
			t.Errorf("%d documents are refused", n)
		}
		fake.Inject(0, func(r *http.Request) bool { return r.Method != http.MethodGet }, couchtest.Refuse(500, "enospc", "no space left on device"))
	}
}

// TestInterruptedRetry: a caller that gives up does not wait for retries.
func TestInterruptedRetry(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, away := range map[string]bool{"500": false, "away": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ill := false
				k, err := couchdb.OpenPatient(t.Context(), "http://couch.test/db", transport(func(r *http.Request) (*http.Response, error) {
					answer := func(status int, body string) (*http.Response, error) {
						return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
					}
					switch {
					case ill && away:
						<-r.Context().Done() // like a network that drops requests
						return nil, r.Context().Err()
					case ill:
						return answer(500, `{"error":"internal_server_error","reason":"for a test"}`)
					case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "_local"):
						return answer(404, `{"error":"not_found","reason":"missing"}`)
					case r.Method == http.MethodGet:
						return answer(200, `{"update_seq":1}`)
					}
					return answer(201, `{"ok":true,"rev":"0-1"}`)
				}))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ill = true
				time.AfterFunc(63*time.Second, cancel) // during the second attempt
				if !away {
					time.AfterFunc(3*time.Second, cancel)
				}
				err = sinktest.Write(ctx, k, put(1, "a", `{}`))
				if err == nil || ctx.Err() == nil {
					t.Errorf("commit: %v, before it was interrupted", err)
				}
				ended := time.Now()
				if _, err := k.Position(ctx); err == nil {
					t.Error("the sink has a position")
				}
				ill = false
				if err := k.Close(); err != nil || time.Since(ended) > 2*time.Second {
					t.Errorf("%v later: %v", time.Since(ended), err)
				}
			})
		})
	}
}

// TestSmallAttachments: documents with small attachments are written together, whatever their
// form in the feed.
func TestSmallAttachments(t *testing.T) {
	fake := couchtest.NewFake(t)
	want, got := fake.NewDB(t), fake.NewDB(t)
	fill(t, want)
	k := open(t, got, nil)
	fake.Requests()
	mustWrite(t, k, revisions(t, 1, true)...)
	for _, r := range fake.Requests() {
		if strings.HasPrefix(r, "PUT ") && !strings.Contains(r, "_local") {
			t.Errorf("a document was not written in bulk: %s", r)
		}
	}
	checkEqual(t, want, got)
	// The same without revisions.
	unrevised := func(n int, id string) *feed.Entity {
		return fromCouch(n, `multipart/related; boundary="b"`, "--b\r\nContent-Type: application/json\r\n\r\n"+
			`{"_id":"`+id+`","_rev":"1-aa","v":1,"_attachments":{"x y":{"content_type":"image/png","revpos":1,"follows":true,"length":5}}}`+
			"\r\n--b\r\nContent-Disposition: attachment; filename=\"x y\"\r\n\r\nhello\r\n--b--", id, "1-aa", false)
	}
	mustWrite(t, k, unrevised(20, "m"), unrevised(21, "n"))
	for _, r := range fake.Requests() {
		if strings.HasPrefix(r, "PUT ") && !strings.Contains(r, "_local") {
			t.Errorf("a document was not written in bulk: %s", r)
		}
	}
	if text := couchtest.Send(t, http.MethodGet, got+"/n/x%20y", ""); text != "hello" {
		t.Errorf("the attachment is %q", text)
	}
}

// TestOddRevisions: revisions that were not generated by a server may have any text after their number.
func TestOddRevisions(t *testing.T) {
	to := couchtest.NewFake(t).NewDB(t)
	k := open(t, to, nil)
	want := map[string]any{}
	var all []*feed.Entity
	for n, hash := range []string{"a b", `a"b`, "ä", "a+b"} {
		id := string(rune('a' + n))
		text := fmt.Sprintf(`{"_id":%q,"_rev":%q,"_revisions":{"start":1,"ids":[%q]}}`, id, "1-"+hash, hash)
		e := fromCouch(n+1, "application/json", text, id, "1-"+hash, false)
		all = append(all, e)
		want[id] = []any{map[string]any{"rev": "1-" + hash}}
	}
	mustWrite(t, k, all...)
	if diff := cmp.Diff(want, leavesOf(t, to)); diff != "" {
		t.Errorf("leaves (-want +got):\n%s", diff)
	}
}

// TestLargeInline: a document without revisions may exceed 1 MiB with its attachments.
func TestLargeInline(t *testing.T) {
	to := couchtest.NewFake(t).NewDB(t)
	k := open(t, to, nil)
	data := strings.Repeat("AAAA", 300_000)
	mustWrite(t, k, fromCouch(1, "application/json", `{"_id":"a","_rev":"1-aa","v":1,"_attachments":{"x":{"content_type":"image/png","revpos":1,"data":"`+data+`"}}}`, "a", "1-aa", false))
	var doc map[string]any
	get(t, to+"/a", &doc)
	if got := names(doc["_attachments"].(map[string]any)); got != `["x"]` || doc["v"] != 1.0 {
		t.Errorf("the document has the attachments %s, and v %v", got, doc["v"])
	}
}

// TestRestoredTarget restores the database to a state before the sink was opened.
func TestRestoredTarget(t *testing.T) {
	fake := couchtest.NewFake(t)
	to := fake.NewDB(t)
	k := open(t, to, nil)
	mustWrite(t, k, put(1, "a", `{}`))
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	restore := fake.Snapshot(to)
	k = open(t, to, nil)
	mustWrite(t, k, put(2, "b", `{}`))
	restore()
	if err := sinktest.Write(t.Context(), k, put(3, "c", `{}`)); !errors.Is(err, couchdb.ErrLost) {
		t.Errorf("commit: %v, want %v", err, couchdb.ErrLost)
	}
}
