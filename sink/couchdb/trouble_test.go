package couchdb_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	client "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/couchdb"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// TestReplaced deletes and recreates the database before each request. The feed must be read again from its
// beginning.
func TestReplaced(t *testing.T) {
	t.Parallel()
	fake := couchtest.NewFake(t)
	all := batches(t)
	clean := fake.NewDB(t)
	if err := sinktest.Continue(t, open(t, clean, nil), all); err != nil {
		t.Fatal(err)
	}
	want, err := read(clean)
	if err != nil {
		t.Fatal(err)
	}
	every := 1
	if testing.Short() { // a few cases are enough for the race detector
		every = 4
	}
	for n := 1 + rand.IntN(every); ; n += every {
		to, done := fake.NewDB(t), 0
		through := func(r *http.Request) (*http.Response, error) {
			if done++; done == n {
				fake.Delete(to)
				fake.Create(to)
			}
			return http.DefaultTransport.RoundTrip(r)
		}
		k, err := impatient(t.Context(), to, 1, through)
		if err == nil {
			_ = sinktest.Continue(t, k, all)
			if err := k.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if done < n {
			return
		}
		if k, err = impatient(t.Context(), to, 1, nil); err != nil {
			t.Fatal(err)
		}
		if err := sinktest.Continue(t, k, all); err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := read(to)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("replaced before request %d: %v\n%s", n, err, diff)
		}
	}
}

// TestMovedBack restores the database from a backup while the sink is open. Later writes may be lost,
// so the sink must not continue.
func TestMovedBack(t *testing.T) {
	to := couchtest.NewDB(t)
	local := to + "/_local/feedctl-sink-feedctl"
	k := open(t, to, nil)
	mustWrite(t, k, put(1, "a", `{}`))
	var backup, now map[string]any
	get(t, local, &backup)
	mustWrite(t, k, put(2, "b", `{}`))
	get(t, local, &now)
	backup["_rev"] = now["_rev"]
	couchtest.Send(t, http.MethodPut, local, marshal(t, backup))
	if err := sinktest.Write(t.Context(), k, put(3, "c", `{}`)); !errors.Is(err, couchdb.ErrLost) {
		t.Errorf("commit: %v, want %v", err, couchdb.ErrLost)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = open(t, to, nil)
	if at, err := k.Position(t.Context()); err != nil || at.ContentID != "<1@example.com>" {
		t.Errorf("position %v, %v", at, err)
	}
}

// TestLongReasons uses a validation function that repeats the documents it refuses.
func TestLongReasons(t *testing.T) {
	to := couchtest.NewDB(t)
	k := open(t, to, func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/_bulk_docs") {
			return http.DefaultTransport.RoundTrip(r)
		}
		text := fmt.Sprintf(`[{"id":"a","error":"forbidden","reason":"bad: %[1]s"},{"id":"b","error":"forbidden","reason":"bad: %[1]s"}]`, strings.Repeat("ü", 1<<20))
		return &http.Response{StatusCode: 201, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
	})
	mustWrite(t, k, put(1, "a", `{}`), put(2, "b", `{}`))
	c := numbers(t, to)
	if c.Failures != 2 || len(c.Refused) != 2 {
		t.Fatalf("the checkpoint has %d failures, %d of them in detail", c.Failures, len(c.Refused))
	}
	for _, r := range c.Refused {
		if len(r.Reason) > 1<<10 || !strings.HasPrefix(r.Reason, "forbidden: bad: üüü") || strings.ContainsRune(r.Reason, '\uFFFD') {
			t.Errorf("a reason of %d bytes: %.50s", len(r.Reason), r.Reason)
		}
	}
}

// TestNoReason uses a proxy that refuses a document without a reason.
func TestNoReason(t *testing.T) {
	to := couchtest.NewDB(t)
	k := open(t, to, func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/a") {
			return http.DefaultTransport.RoundTrip(r)
		}
		return &http.Response{StatusCode: 413, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("<html>")), Request: r}, nil
	})
	mustWrite(t, k, put(1, "a", `{}`))
	if c := numbers(t, to); len(c.Refused) != 1 || c.Refused[0].Reason != "status 413 Request Entity Too Large" {
		t.Errorf("the checkpoint has %+v", c)
	}
}

// TestTemporary: a document that the server temporarily fails to store is not refused.
func TestTemporary(t *testing.T) {
	for _, code := range []string{"internal_server_error", "timeout", "service_unavailable", "overloaded", "too_many_requests", "nodedown"} {
		to := couchtest.NewDB(t)
		ill := true
		k := open(t, to, func(r *http.Request) (*http.Response, error) {
			if !ill || !strings.HasSuffix(r.URL.Path, "/_bulk_docs") {
				return http.DefaultTransport.RoundTrip(r)
			}
			text := `[{"ok":true,"id":"a","rev":"1-a"},{"id":"b","error":"` + code + `","reason":"for a test"}]`
			return &http.Response{StatusCode: 201, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
		})
		if err := sinktest.Write(t.Context(), k, put(1, "a", `{}`), put(2, "b", `{}`)); err == nil || !strings.Contains(err.Error(), "for a test") {
			t.Errorf("%s: %v", code, err)
		}
		ill = false
		if at, err := k.Position(t.Context()); err != nil || at.ContentID != "<2@example.com>" {
			t.Errorf("%s: position %v, %v", code, at, err)
		}
		checkDocuments(t, to, map[string]string{"a": `{}`, "b": `{}`})
	}
}

// TestLateCredentials: credentials are briefly invalid, like a token that is renewed a moment too late.
// The documents written then are not refused.
func TestLateCredentials(t *testing.T) {
	fake := couchtest.NewFake(t)
	all := []*feed.Entity{entity(6, feed.Put, "f", "text/plain", strings.Repeat("x", 100_000))}
	for n, id := range []string{"a", "b", "c"} { // too large for one request
		all = append(all, fromCouch(n+1, "multipart/related; boundary=b", "--b\r\nContent-Type: application/json\r\n\r\n"+
			`{"_id":"`+id+`","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]},"text":"`+strings.Repeat("x", 70_000)+`"}`+"\r\n--b--", id, "1-aa", false))
	}
	for _, first := range []string{"a", "b", "c", "f"} {
		for many := range 6 {
			to, begun, left := fake.NewDB(t), false, many
			k := open(t, to, func(r *http.Request) (*http.Response, error) {
				begun = begun || r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/"+first)
				if begun && left > 0 {
					left--
					return &http.Response{StatusCode: 401, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"error":"unauthorized","reason":"token has expired"}`)), Request: r}, nil
				}
				return http.DefaultTransport.RoundTrip(r)
			})
			if err := sinktest.Write(t.Context(), k, all...); err != nil {
				if !errors.Is(err, client.ErrUnauthorized) {
					t.Fatal(err)
				}
				left = 0
				if _, err := k.Position(t.Context()); err != nil {
					t.Fatal(err)
				}
				mustWrite(t, k, all...)
			}
			if c, ids := numbers(t, to), leavesOf(t, to); c.Failures != 0 || len(ids) != len(all) {
				t.Errorf("%d requests failed, the first of them for %q: the database has %d documents, refused %+v", many, first, len(ids), c.Refused)
			}
		}
		// A validation function may respond with the same status.
		to := fake.NewDB(t)
		k := open(t, to, func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/"+first) {
				return &http.Response{StatusCode: 401, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"error":"unauthorized","reason":"log in"}`)), Request: r}, nil
			}
			return http.DefaultTransport.RoundTrip(r)
		})
		mustWrite(t, k, all...)
		if c, ids := numbers(t, to), leavesOf(t, to); c.Failures != 1 || len(ids) != len(all)-1 {
			t.Errorf("%q is refused: the database has %d documents, refused %+v", first, len(ids), c.Refused)
		}
	}
}

// TestUnreadableRevisions writes valid revisions together with ones that a server rejects even in a
// query.
func TestUnreadableRevisions(t *testing.T) {
	to := couchtest.NewDB(t)
	k := open(t, to, func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/_revs_diff") {
			return http.DefaultTransport.RoundTrip(r)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(body, []byte(`"bad"`)) {
			return &http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"error":"bad_request","reason":"for a test"}`)), Request: r}, nil
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		return http.DefaultTransport.RoundTrip(r)
	})
	var all []*feed.Entity
	want := map[string]any{}
	for i, id := range []string{"a", "b", "bad", "c", "d"} {
		text := fmt.Sprintf(`{"_id":%q,"_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`, id)
		all = append(all, fromCouch(i+1, "application/json", text, id, "1-aa", false))
		if id != "bad" {
			want[id] = []any{map[string]any{"rev": "1-aa"}}
		}
	}
	// CouchDB reads a hash of 32 characters as a number, which fails here.
	odd := "1-" + strings.Repeat("z", 32)
	all = append(all, fromCouch(9, "application/json", fmt.Sprintf(`{"_id":"odd","_rev":%q,"_revisions":{"start":1,"ids":[%q]}}`, odd, odd[2:]), "odd", odd, false))
	mustWrite(t, k, all...)
	got := leavesOf(t, to)
	if got["odd"] == nil || cmp.Equal(got["odd"], []any{map[string]any{"rev": odd}}) {
		t.Errorf("leaves of odd are %v", got["odd"])
	}
	delete(got, "odd")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leaves (-want +got):\n%s", diff)
	}
	if c := numbers(t, to); c.Failures != 1 || c.Refused[0].ID != "bad" || c.Refused[0].Rev != "1-aa" {
		t.Errorf("the checkpoint has %+v", c)
	}
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCreate makes the first requests that create the database fail: either the requests are lost, or
// only their responses.
func TestCreate(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, landed := range map[string]bool{"lost": false, "landed": true} {
		t.Run(name, func(t *testing.T) {
			fake, left := couchtest.NewFake(t), 2
			k, err := impatient(t.Context(), fake.URL()+"/new", 3, func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPut || r.URL.Path != "/new" || left == 0 {
					return http.DefaultTransport.RoundTrip(r)
				}
				left--
				if landed {
					answer, err := http.DefaultTransport.RoundTrip(r)
					if err != nil {
						return nil, err
					}
					answer.Body.Close()
				}
				return nil, io.ErrUnexpectedEOF
			})
			if err != nil {
				t.Fatal(err)
			}
			mustWrite(t, k, put(1, "a", `{}`))
			if err := k.Close(); err != nil || left > 0 {
				t.Errorf("%d requests were not made: %v", left, err)
			}
		})
	}
}

// TestUnavailable: errors distinguish a server that is unavailable for now from one that refuses
// requests.
func TestUnavailable(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for status, want := range map[int]bool{0: true, 503: true, 429: true, 401: false, 403: false} {
		for first, method := range []string{http.MethodHead, http.MethodGet} {
			_, err := impatient(t.Context(), "http://couch.test/db", 1, func(r *http.Request) (*http.Response, error) {
				answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
				if first == 1 && r.Method == http.MethodHead { // the database exists when it happens
					return answer, nil
				}
				if status == 0 {
					return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
				}
				answer.StatusCode = status
				return answer, nil
			})
			if err == nil || errors.Is(err, sink.ErrUnavailable) != want {
				t.Errorf("%s is answered with %d: %v", method, status, err)
			}
		}
	}
}

// TestInterruptedOpen: a caller that gives up while the sink is being opened does not wait, because
// there is nothing to commit.
func TestInterruptedOpen(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		_, err := impatient(ctx, "http://couch.test/db", 3, func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "_local") {
				cancel()
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"update_seq":1}`)), Request: r}, nil
		})
		if !errors.Is(err, context.Canceled) || time.Since(begun) > 0 {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// TestHalfDone: the server stores half of a batch, and then the request fails.
func TestHalfDone(t *testing.T) {
	for _, all := range [][]*feed.Entity{
		{put(1, "a", `{"n":1}`), put(2, "b", `{"n":2}`), put(3, "c", `{"n":3}`), entity(4, feed.Delete, "old", "text/plain", "")},
		revisions(t, 1, false),
	} {
		want, got := couchtest.NewDB(t), couchtest.NewDB(t)
		broken := false
		through := func(r *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(r.URL.Path, "/_bulk_docs") || broken {
				return http.DefaultTransport.RoundTrip(r)
			}
			var q struct {
				Docs     []json.RawMessage `json:"docs"`
				NewEdits bool              `json:"new_edits"`
			}
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				return nil, err
			}
			broken = true
			q.Docs = q.Docs[len(q.Docs)/2:]
			couchtest.Send(t, http.MethodPost, r.URL.String(), marshal(t, q))
			return &http.Response{StatusCode: 500, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"error":"internal_server_error","reason":"for a test"}`)), Request: r}, nil
		}
		for _, db := range []string{want, got} {
			couchtest.Send(t, http.MethodPut, db+"/old", `{}`)
		}
		mustWrite(t, open(t, want, nil), all...)
		k, err := impatient(t.Context(), got, 2, through)
		if err != nil {
			t.Fatal(err)
		}
		mustWrite(t, k, all...)
		if err := k.Close(); err != nil || !broken {
			t.Fatal(broken, err)
		}
		if diff := cmp.Diff(leavesOf(t, want), leavesOf(t, got)); diff != "" {
			t.Errorf("leaves (-want +got):\n%s", diff)
		}
	}
}
