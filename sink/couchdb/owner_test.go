package couchdb_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/consumer"
	client "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/couchdb"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// otherHost makes sinks that are opened from now on use other locks, as if they were on another host.
func otherHost(t *testing.T) { t.Setenv("TMPDIR", t.TempDir()) }

// asCouchDB writes _local documents without comparing their revisions, like Apache CouchDB.
func asCouchDB(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/_local/") {
		return http.DefaultTransport.RoundTrip(r)
	}
	var doc, stored map[string]any
	if err := json.NewDecoder(r.Body).Decode(&doc); err != nil {
		return nil, err
	}
	delete(doc, "_rev")
	if text, err := fetch(r.URL.String()); err == nil {
		if err := json.Unmarshal(text, &stored); err != nil {
			return nil, err
		}
		doc["_rev"] = stored["_rev"]
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return http.DefaultTransport.RoundTrip(r)
}

// TestTakenOver: a consumer detects that a second one, on another host, has taken over.
func TestTakenOver(t *testing.T) {
	for name, through := range map[string]transport{"as it is": nil, "CouchDB": asCouchDB} {
		t.Run(name, func(t *testing.T) {
			to := couchtest.NewDB(t)
			first := open(t, to, through)
			mustWrite(t, first, put(1, "a", `{"n":1}`), put(2, "b", `{"n":2}`))
			otherHost(t)
			second := open(t, to, through)
			mustWrite(t, second, put(3, "a", `{"n":3}`), put(4, "b", `{"n":4}`))
			for range 2 {
				if err := sinktest.Write(t.Context(), first, put(3, "a", `{"n":"late"}`), put(4, "b", `{"n":"late"}`)); err == nil {
					t.Fatal("a consumer wrote although another had taken over")
				}
				if _, err := first.Position(t.Context()); !errors.Is(err, couchdb.ErrTaken) {
					t.Errorf("position: %v, want %v", err, couchdb.ErrTaken)
				}
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			mustWrite(t, second, put(5, "c", `{}`), put(6, "d", `{}`))
			checkDocuments(t, to, map[string]string{"a": `{"n":3}`, "b": `{"n":4}`, "c": `{}`, "d": `{}`})
		})
	}
}

// TestTakenOverWithin: the second consumer opens the sink during each request of a commit of the
// first. With CouchDB the first may take the sink back by mistake. Whichever consumer owns the sink in
// the end applies the feed correctly.
func TestTakenOverWithin(t *testing.T) {
	for name, through := range map[string]transport{"as it is": http.DefaultTransport.RoundTrip, "CouchDB": asCouchDB} {
		for _, empty := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, empty=%t", name, empty), func(t *testing.T) {
				n := 1
				for takenOverAt(t, through, n, empty) {
					n++
				}
				if n < 8 {
					t.Errorf("there were %d requests", n)
				}
			})
		}
	}
}

// takenOverAt reports whether there was an nth request. In a database that was empty in the beginning,
// the documents are created, and one conflicts.
func takenOverAt(t *testing.T, through transport, n int, empty bool) bool {
	// lastCheck is the request with which a commit checks for the last time, before it writes, that it
	// still owns the sink. It follows a first check, the request for revisions, and the log.
	lastCheck := 4
	if empty {
		lastCheck = 3
	}
	to := newDB(t, empty)
	count := -1 // not yet
	var second consumer.Sink
	first := open(t, to, func(r *http.Request) (*http.Response, error) {
		if count >= 0 {
			count++
		}
		if count == n {
			otherHost(t)
			second = open(t, to, through)
			mustWrite(t, second, put(2, "a", `{"n":2}`), put(3, "b", `{"n":3}`), put(4, "a", `{"n":4}`), put(5, "c", `{"n":5}`))
		}
		return through(r)
	})
	mustWrite(t, first, put(1, "a", `{"n":1}`))
	count = 0
	err := sinktest.Write(t.Context(), first, put(2, "a", `{"n":2}`), put(3, "b", `{"n":3}`))
	count = -1
	if second == nil {
		return false
	}
	if err == nil && n <= lastCheck {
		t.Errorf("request %d: the first consumer did not detect the takeover", n)
	}
	if err == nil {
		mustWrite(t, first, put(4, "a", `{"n":4}`), put(5, "c", `{"n":5}`))
		if err := sinktest.Write(t.Context(), second, put(6, "d", `{}`)); !errors.Is(err, couchdb.ErrTaken) {
			t.Errorf("request %d: both consumers own the sink: %v", n, err)
		}
	}
	checkDocuments(t, to, map[string]string{"a": `{"n":4}`, "b": `{"n":3}`, "c": `{"n":5}`})
	return true
}

// newDB returns a new database. If it is not empty, the sink looks up revisions before it writes.
func newDB(t *testing.T, empty bool) string {
	t.Helper()
	return prepared(t, couchtest.NewDB(t), empty)
}

// prepared adds another document to a new database, unless it is to be empty, and returns the URL.
func prepared(t *testing.T, url string, empty bool) string {
	t.Helper()
	if !empty {
		couchtest.Send(t, http.MethodPut, url+"/_design/other", "{}")
	}
	return url
}

func checkDocuments(t *testing.T, db string, want map[string]string) {
	t.Helper()
	records, err := read(db)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, r := range records {
		got[r.Key] = string(r.Body)
	}
	delete(got, "_design/other") // of newDB
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
}

// TestOthersWrite: if another client writes between the request for revisions and the request that
// writes, the feed wins.
func TestOthersWrite(t *testing.T) {
	to := couchtest.NewDB(t)
	times := 1
	k := open(t, to, func(r *http.Request) (*http.Response, error) {
		if times > 0 && (strings.HasSuffix(r.URL.Path, "/_bulk_docs") || r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/large")) {
			times--
			for _, id := range []string{"a", "large"} {
				doc := map[string]any{}
				if text, err := fetch(to + "/" + id); err == nil {
					if err := json.Unmarshal(text, &doc); err != nil {
						return nil, err
					}
				}
				doc["by"] = "another"
				delete(doc, "feedctl")
				text, err := json.Marshal(doc)
				if err != nil {
					return nil, err
				}
				couchtest.Send(t, http.MethodPut, to+"/"+id, string(text))
			}
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	large := strings.Repeat("x", 100_000)
	want := map[string]string{"a": `{"n":1}`, "b": `{"n":2}`, "large": large}
	mustWrite(t, k, put(1, "a", `{"n":1}`), put(2, "b", `{"n":2}`))
	times = 1
	mustWrite(t, k, entity(3, feed.Put, "large", "text/plain", large))
	times = 1
	mustWrite(t, k, put(4, "a", `{"n":1}`), put(5, "b", `{"n":2}`))
	times = 1
	mustWrite(t, k, entity(6, feed.Delete, "a", "text/plain", ""), put(7, "b", `{"n":7}`))
	want["b"] = `{"n":7}`
	delete(want, "a")
	_ = large
	records, err := read(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Key == "large" { // changed by another client after it was written
			delete(want, "large")
			continue
		}
		if want[r.Key] != string(r.Body) {
			t.Errorf("%s is %s", r.Key, r.Body)
		}
		delete(want, r.Key)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}

	// The other client never stops.
	times = 1 << 30
	mustWrite(t, k, put(8, "a", `{"n":8}`), put(9, "b", `{"n":9}`))
	if c := numbers(t, to); c.Failures != 1 || len(c.Refused) != 1 || c.Refused[0].ID != "a" || !strings.Contains(c.Refused[0].Reason, "conflict") {
		t.Errorf("the checkpoint has %+v", c)
	}
}

// TestPatchOfOthers patches documents that another client has written.
func TestPatchOfOthers(t *testing.T) {
	to := couchtest.NewDB(t)
	couchtest.Send(t, http.MethodPut, to+"/a", `{"n":1,"list":[]}`)
	couchtest.Send(t, http.MethodPut, to+"/b", `{"n":1,"feedctl":{}}`)
	couchtest.Send(t, http.MethodPut, to+"/c", `{"n":1,"feedctl":"x"}`)
	k := open(t, to, nil)
	for i, key := range []string{"a", "b", "c"} {
		mustWrite(t, k, entity(i+1, feed.Patch, key, "application/merge-patch+json", `{"n":2}`))
	}
	checkDocuments(t, to, map[string]string{"a": `{"n":2,"list":[]}`, "b": `{"n":2}`, "c": `{"n":2}`})
}

// TestLost deletes and recreates the database while the sink is open.
func TestLost(t *testing.T) {
	to := couchtest.NewDB(t)
	k := open(t, to, nil)
	mustWrite(t, k, put(1, "a", `{}`))
	couchtest.Send(t, http.MethodDelete, to, "")
	couchtest.Send(t, http.MethodPut, to, "")
	if err := sinktest.Write(t.Context(), k, put(2, "b", `{}`)); !errors.Is(err, couchdb.ErrLost) {
		t.Errorf("commit: %v, want %v", err, couchdb.ErrLost)
	}
	if _, err := k.Position(t.Context()); !errors.Is(err, couchdb.ErrLost) {
		t.Errorf("position: %v, want %v", err, couchdb.ErrLost)
	}
	k.Close()
	k = open(t, to, nil)
	if at, err := k.Position(t.Context()); err != nil || !at.IsZero() {
		t.Errorf("position of the new database is %v (%v)", at, err)
	}
}

// TestNames: two consumers of different feeds write to one database.
func TestNames(t *testing.T) {
	to := couchtest.NewDB(t)
	openNamed := func(params string) (consumer.Sink, error) {
		return sink.Registry{"couchdb": couchdb.Opener(client.Config{})}.Open(t.Context(), "couchdb:"+to+params)
	}
	a, err := openNamed("?name=a")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := openNamed("?name=b")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := openNamed("?name=a"); !errors.Is(err, sink.ErrLocked) {
		t.Errorf("the same name again: %v", err)
	}
	mustWrite(t, a, put(1, "a", `{}`))
	mustWrite(t, b, put(2, "b", `{}`))
	for want, k := range map[string]consumer.Sink{"<1@example.com>": a, "<2@example.com>": b} {
		if at, err := k.Position(t.Context()); err != nil || at.ContentID != want {
			t.Errorf("position %v (%v), want %s", at, err, want)
		}
	}
	var records []sinktest.Record
	if records, err = read(to); err != nil || len(records) != 2 {
		t.Errorf("documents %v (%v)", records, err)
	}
	for _, params := range []string{"?name=-", "?name=a/b", "?nam=a", "?name=a&name=b", "?name=" + strings.Repeat("a", 65), "?name=a-log-0"} {
		if _, err := openNamed(params); !errors.Is(err, sink.ErrSpec) {
			t.Errorf("%s: %v", params, err)
		}
	}
}

// TestNoSecrets: no error about a URL with a password shows the password.
func TestNoSecrets(t *testing.T) {
	fake := couchtest.NewFake(t)
	fake.Require(couchtest.Credentials{User: "user", Password: "another"})
	host := strings.TrimPrefix(fake.URL(), "http://")
	for _, spec := range []string{
		"couchdb:http://user:secret@" + host, "couchdb:http://user:secret@127.0.0.1:1/db", "couchdb:ftp://user:secret@host/db",
		"couchdb:http://user:secret@" + host + "/db?x=1", "couchdb:http://user:secret@" + host + "/db?name=-", "couchdb:http://user:secret@" + host + "/%zz",
		"couchdb:http://user:secret@" + host + "/db", "couch:http://user:secret@" + host + "/db", "couchdb:http://user:secret@" + host + "/db?%zz",
	} {
		_, err := sink.Registry{"couchdb": couchdb.Opener(client.Config{Attempts: 1})}.Open(t.Context(), spec)
		if err == nil {
			t.Errorf("%s was opened", spec)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("an error shows the password: %v", err)
		}
	}
}

// TestLock: several consumers open the sink, never two at a time, and no file is left.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	to := couchtest.NewDB(t) // first, since its server has a directory, too
	t.Setenv("TMPDIR", dir)
	var holders, turns atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for turns.Load() < 20 {
				k, err := sink.Registry{"couchdb": couchdb.Opener(client.Config{})}.Open(t.Context(), "couchdb:"+to)
				if errors.Is(err, sink.ErrLocked) {
					runtime.Gosched()
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d consumers have the sink open", n)
				}
				turns.Add(1)
				holders.Add(-1)
				if err := k.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestEarlierMembers changes a document with metadata that an earlier version wrote.
func TestEarlierMembers(t *testing.T) {
	to := couchtest.NewDB(t)
	couchtest.Send(t, http.MethodPut, to+"/a", `{"n":1,"feedctl":{"content_id":"<0@example.com>",`+
		`"last_modified":"2026-05-01T10:00:00Z","content_type":"application/vnd.x+json","headers":{"X-A":["1"]}}}`)
	k := open(t, to, nil)
	mustWrite(t, k, entity(1, feed.Patch, "a", "application/merge-patch+json", `{"n":2}`))
	records, err := read(to)
	if err != nil || len(records) != 1 || records[0].ContentType != "application/vnd.x+json" || records[0].ContentID != "<1@example.com>" {
		t.Errorf("the document has %+v (%v)", records, err)
	}
}
