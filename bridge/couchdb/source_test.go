package couchdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
)

// TestWinnerReturns: when the winning branch is deleted, the loser wins again, and the feed must end
// with it.
func TestWinnerReturns(t *testing.T) {
	r := newRig(t)
	r.graft("a", false, `"v":"first"`, "2-b", "1-a")
	r.run()
	r.graft("a", false, `"v":"second"`, "2-c", "1-a")
	r.run()
	r.graft("a", true, `"v":0`, "3-d", "2-c", "1-a")
	report := r.run()
	want := []string{"a@2-b", "a@2-c", "a@2-b"}
	if diff := cmp.Diff(want, r.pairs()); diff != "" || report.Published != 1 {
		t.Errorf("published %d:\n%s", report.Published, diff)
	}
	if id := r.events()[2].ContentID; id != "<a@2-b;after=2-c>" {
		t.Errorf("Content-ID is %s", id)
	}
	r.check()
	r.fake.Rewind(r.url, "0")
	if report := r.run(); report.Published != 0 {
		t.Errorf("a rewind published %d entities", report.Published)
	}
}

// TestOldRow: an outdated node sends the row of a revision that is no longer the winner.
func TestOldRow(t *testing.T) {
	r := newRig(t)
	first := r.put("a", `{"v":1}`)
	r.run()
	r.put("a", fmt.Sprintf(`{"_rev":%q,"v":2}`, first))
	r.run()
	r.fake.AddRow(r.url, fmt.Sprintf(`{"seq":SEQ,"id":"a","changes":[{"rev":%q}],"doc":{"_id":"a","_rev":%q,"v":1}}`, first, first))
	before := r.pairs()
	if report := r.run(); report.Published != 0 || report.Repeated != 1 {
		t.Errorf("report is %+v", report)
	}
	if diff := cmp.Diff(before, r.pairs()); diff != "" {
		t.Error(diff)
	}
}

// TestConflicts: every leaf is in the feed, the winner last.
func TestConflicts(t *testing.T) {
	r := newRig(t)
	r.options = Options{Conflicts: true, Revs: true}
	r.graft("a", false, `"v":"left"`, "2-b", "1-a")
	r.graft("a", false, `"v":"right"`, "2-c", "1-a")
	r.graft("a", true, `"v":"gone"`, "3-d", "2-e", "1-a")
	r.run()
	pairs := r.pairs()
	if len(pairs) != 3 || pairs[2] != "a@2-c" {
		t.Errorf("feed has %q", pairs)
	}
	for _, e := range r.events() {
		if (e.Op == "DELETE") != (e.Rev == "3-d") || !strings.Contains(e.Body, `"_revisions":{"start":`) {
			t.Errorf("%+v", e)
		}
	}
	r.graft("a", false, `"v":"more"`, "2-f", "1-a")
	r.run()
	if got := r.pairs()[3:]; !slices.Equal(got, []string{"a@2-f"}) {
		t.Errorf("then came %q", got)
	}
	r.check()
}

// between calls the function do when documents are requested, after their rows were read.
func (r *rig) between(do func()) {
	r.fake.Inject(1, couchtest.On(http.MethodPost, "/_bulk_get"), func(w http.ResponseWriter, q *http.Request, healthy http.HandlerFunc) {
		do()
		healthy(w, q)
	})
}

// TestChangedInBetween: documents are changed and deleted between reading the row and requesting them.
func TestChangedInBetween(t *testing.T) {
	for name, options := range map[string]Options{"winners": {Revs: true}, "leaves": {Revs: true, Conflicts: true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.options = options
			rev := r.put("changed", `{"v":1}`)
			gone := r.put("purged", `{"v":1}`)
			r.put("same", `{}`)
			r.between(func() {
				r.fake.Purge(r.url, "purged")
				r.put("changed", fmt.Sprintf(`{"_rev":%q,"v":2}`, rev))
			})
			r.run()
			want := map[string]string{"purged": "source has a row for it, but neither this revision nor a later one"}
			if diff := cmp.Diff(want, r.quarantined()); diff != "" {
				t.Error(diff)
			}
			r.run()
			r.check()
			if pairs := r.pairs(); slices.Contains(pairs, "purged@"+gone) || len(pairs) != 3 {
				t.Errorf("feed has %q", pairs)
			}
		})
	}
}

// TestDocumentFails: the source temporarily fails to return one document, as when its node restarts.
func TestDocumentFails(t *testing.T) {
	for _, times := range []int{1, 3} {
		r := newRig(t)
		r.options = Options{Revs: true}
		r.put("a", `{"v":1}`)
		r.put("b", `{"v":1}`)
		r.fake.Inject(times, couchtest.On(http.MethodPost, "/_bulk_get"), couchtest.Edit(func(body []byte) []byte {
			return regexp.MustCompile(`\{"ok":\{"_id":"(b)","_rev":"(.*?)".*?\}\}\}`).
				ReplaceAll(body, []byte(`{"error":{"id":"$1","rev":"$2","error":"timeout","reason":"The request could not be processed in a reasonable amount of time."}}`))
		}))
		if report := r.run(); report.Published != 2 || report.Quarantined != 0 {
			t.Errorf("report is %+v", report)
		}
		r.check()
	}
}

// TestTooMuchAtOnce: the source fails if many documents are requested at once, because CouchDB keeps
// the response in memory.
func TestTooMuchAtOnce(t *testing.T) {
	r := newRig(t)
	r.options = Options{Revs: true}
	r.fill(0, 40)
	most := 0
	r.fake.Inject(0, couchtest.On(http.MethodPost, "/_bulk_get"), func(w http.ResponseWriter, q *http.Request, healthy http.HandlerFunc) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		if n := bytes.Count(body, []byte(`"id"`)); n > 3 {
			couchtest.Cut(1)(w, q, healthy)
		} else {
			most = max(most, n)
			healthy(w, q)
		}
	})
	r.run()
	r.check()
	if most != 2 {
		t.Errorf("requested up to %d documents at a time", most)
	}
}

// A roundTripper is a function that makes requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestSourceUnavailable: a bridge that follows waits for an unreachable source; others return an error.
func TestSourceUnavailable(t *testing.T) {
	for _, follow := range []bool{true, false} {
		r := newRig(t)
		r.options = Options{Revs: true}
		r.fill(0, 3)
		left := 50
		r.configure = func(c *Config) {
			c.Follow = follow
			var err error
			c.Source, err = couchdb.Open(couchdb.Config{URL: r.url, Attempts: 1, HTTP: &http.Client{Transport: roundTripper(func(q *http.Request) (*http.Response, error) {
				if q.Method == http.MethodPost && left > 0 {
					left--
					return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
				}
				return http.DefaultTransport.RoundTrip(q)
			})}})
			if err != nil {
				t.Fatal(err)
			}
		}
		if !follow {
			if _, err := r.tryRun(r.store); !couchdb.Retryable(err) || left != 42 {
				t.Errorf("%v, %d are left", err, left)
			}
			continue
		}
		stop := r.started()
		r.await(3)
		if report, _ := stop(); report.Published != 3 || left > 0 {
			t.Errorf("%+v, %d are left", report, left)
		}
	}
}

// TestCompactedInBetween: the revision of the row no longer exists, only a later one.
func TestCompactedInBetween(t *testing.T) {
	r := newRig(t)
	r.options = Options{Revs: true}
	r.put("a", `{"v":1}`)
	r.fake.Inject(1, couchtest.On(http.MethodPost, "/_bulk_get"), func(w http.ResponseWriter, q *http.Request, _ http.HandlerFunc) {
		var asked struct{ Docs []struct{ ID, Rev string } }
		if err := json.NewDecoder(q.Body).Decode(&asked); err != nil || len(asked.Docs) != 1 {
			t.Errorf("requested %+v, %v", asked, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"results":[{"id":"a","docs":[{"error":{"id":"a","rev":%q,"error":"not_found","reason":"missing"}}]}]}`, asked.Docs[0].Rev)
	})
	second := r.rev("a")
	r.put("a", fmt.Sprintf(`{"_rev":%q,"v":2}`, second))
	second = r.rev("a")
	report := r.run()
	if diff := cmp.Diff([]string{"a@" + second}, r.pairs()); diff != "" {
		t.Errorf("report %+v\n%s", report, diff)
	}
	r.check()
}

func TestRecreated(t *testing.T) {
	r := newRig(t)
	r.fill(0, 3)
	r.run()
	r.fake.Delete(r.url)
	if _, err := r.tryRun(r.store); !errors.Is(err, couchdb.ErrNotFound) {
		t.Errorf("deleted database: error is %v", err)
	}
	r.fake.Create(r.url)
	r.fill(5, 6)
	if _, err := r.tryRun(r.store); !errors.Is(err, changes.ErrRecreated) {
		t.Errorf("replaced database: error is %v", err)
	}
	if n := len(r.pairs()); n != 3 {
		t.Errorf("feed has %d entities", n)
	}
}

func TestForeignFeed(t *testing.T) {
	r := newRig(t)
	r.fake.OldStartTime = true // databases and servers cannot be distinguished
	r.fake.Inject(0, func(q *http.Request) bool { return q.URL.Path == "/" },
		couchtest.Edit(func([]byte) []byte { return []byte(`{"couchdb":"Welcome"}`) }))
	r.fill(0, 3)
	r.run()
	r.url = r.fake.NewDB(t)
	if _, err := r.tryRun(r.store); !errors.Is(err, bridge.ErrForeign) {
		t.Errorf("another database: %v", err)
	}
}

// TestSourceMoved: a database may move to another URL if it can be recognised there.
func TestSourceMoved(t *testing.T) {
	for name, test := range map[string]struct {
		other, hidden bool
		want          error
	}{
		"the same":                        {},
		"another":                         {other: true, want: bridge.ErrForeign},
		"another, indistinguishable":      {other: true, hidden: true, want: bridge.ErrForeign},
		"the same, recognised by its log": {hidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.fill(0, 3)
			r.run()
			if test.other {
				r.url = r.fake.NewDB(t)
			}
			if test.hidden {
				path := r.url[len(r.fake.URL()):]
				r.fake.Inject(0, func(q *http.Request) bool { return q.URL.Path == path }, couchtest.Edit(func(b []byte) []byte {
					return bytes.Replace(b, []byte(`"cluster"`), []byte(`"none"`), 1)
				}))
			}
			r.fill(3, 5)
			r.url = strings.Replace(r.url, "127.0.0.1", "localhost", 1)
			report, err := r.tryRun(r.store)
			if !errors.Is(err, test.want) || report.Published != map[bool]int64{true: 2}[test.want == nil] {
				t.Errorf("%v, %+v", err, report)
			}
			if test.want == nil {
				r.check()
			}
		})
	}
}

// TestOtherSelection: documents that a filter left out are published with another filter.
func TestOtherSelection(t *testing.T) {
	r := newRig(t)
	r.fill(0, 4)
	r.graft("a", false, `"v":"left"`, "2-b", "1-a")
	r.graft("a", false, `"v":"right"`, "2-c", "1-a")
	r.put("_design/app", `{}`)
	r.configure = func(c *Config) { c.Filter.DocIDs = []string{"doc/1 ü", "doc/2 ü"} }
	if report := r.run(); report.Published != 2 {
		t.Errorf("report is %+v", report)
	}
	r.configure = func(*Config) {}
	if report := r.run(); report.Published != 3 || report.Rewinds == 0 {
		t.Errorf("report is %+v", report)
	}
	r.check("_design/app")
	r.options = Options{Conflicts: true, DesignDocs: true}
	if report := r.run(); report.Published != 2 {
		t.Errorf("report is %+v", report)
	}
	r.fake.Requests()
	r.run()
	if requests := r.fake.Requests(); len(requests) > 3 {
		t.Errorf("then %q", requests)
	}
}

// TestNarrowerSelection: with a filter that selects only what the feed has, the source is read from its
// beginning once.
func TestNarrowerSelection(t *testing.T) {
	r := newRig(t)
	r.fill(0, 5)
	r.run()
	r.configure = func(c *Config) { c.Filter.Selector = []byte(`{"z":0}`) }
	if report := r.run(); report.Published != 0 || report.Rows == 0 {
		t.Errorf("with a filter: %+v", report)
	}
	r.fake.Requests()
	if report := r.run(); report.Rows != 0 {
		t.Errorf("with the same filter: %+v", report)
	}
	if requests := r.fake.Requests(); len(requests) > 3 {
		t.Errorf("a run without new rows makes the requests %q", requests)
	}
	r.configure = func(c *Config) {}
	r.fill(5, 6)
	if report := r.run(); report.Rows != 1 || report.Published != 1 {
		t.Errorf("without it: %+v", report)
	}
	r.check()
}

// TestReplicationLog: the replication log in the source is as the protocol defines it.
func TestReplicationLog(t *testing.T) {
	r := newRig(t)
	r.fill(0, 3)
	var reports []Report
	reports = append(reports, r.run())
	r.fill(3, 5)
	reports = append(reports, r.run())
	r.run() // nothing is new
	var log couchdb.Log
	path := ""
	for _, request := range r.fake.Requests() {
		if _, id, ok := strings.Cut(request, "/_local/"); ok && strings.HasPrefix(request, http.MethodPut) {
			path = "/_local/" + id
		}
	}
	if err := json.Unmarshal([]byte(r.do(http.MethodGet, path, "")), &log); err != nil {
		t.Fatal(err)
	}
	if len(log.History) != 2 || log.SessionID != log.History[0].SessionID || log.History[0].SessionID == log.History[1].SessionID {
		t.Fatalf("log is %+v", log)
	}
	for i, written := range []int64{2, 3} {
		s := log.History[i]
		want := reports[1-i].Log.History[0]
		want.EndTime, s.EndTime, s.Records = "", "", 0
		if diff := cmp.Diff(want, s); diff != "" || s.DocsWritten != written || s.MissingFound != written || s.DocsRead != written {
			t.Errorf("session %d is %+v\n%s", i, s, diff)
		}
	}
	if string(log.History[1].StartLastSeq) != "0" || string(log.History[0].StartLastSeq) != string(log.History[1].RecordedSeq) {
		t.Errorf("sequences are %s, %s, %s", log.History[1].StartLastSeq, log.History[1].RecordedSeq, log.History[0].StartLastSeq)
	}
}

// TestReadOnlySource: a bridge works without permission to write to the source.
func TestReadOnlySource(t *testing.T) {
	r := newRig(t)
	r.fake.Inject(0, couchtest.On(http.MethodPut, "/_local/"), couchtest.Refuse(http.StatusForbidden, "forbidden", "read only"))
	r.put("a", `{}`) // through another request
	if report := r.run(); report.Published != 1 {
		t.Errorf("report is %+v", report)
	}
	r.check()
}

// TestCredentialsStaySecret: neither errors nor the feed contain credentials.
func TestCredentialsStaySecret(t *testing.T) {
	r := newRig(t)
	r.put("a", `{}`)
	clean := r.url
	r.fake.Require(couchtest.Credentials{User: "ann", Password: "hunter2"})
	r.url = strings.Replace(clean, "://", "://ann:wrong-secret@", 1)
	if _, err := r.tryRun(r.store); !errors.Is(err, couchdb.ErrUnauthorized) || strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("error is %v", err)
	}
	r.url = strings.Replace(clean, "://", "://ann:hunter2@", 1)
	r.run()
	newest, err := chain.NewReader(r.store, testFeed).Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if at := string(newest.Checkpoint); strings.Contains(at, "hunter2") || !strings.Contains(at, clean) {
		t.Errorf("checkpoint is %s", at)
	}
}

// TestDeletedInAnswer: when a database is deleted while its changes are being sent, the response ends
// as if there were no more. That must not be taken for the end of the changes.
func TestDeletedInAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		created bool
		want    error
	}{"deleted": {false, couchdb.ErrNotFound}, "created again": {true, changes.ErrRecreated}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.fill(0, 3)
			looked := make(chan struct{})
			r.fake.Inject(1, couchtest.On("", "/_changes"), func(w http.ResponseWriter, q *http.Request, healthy http.HandlerFunc) {
				answer := httptest.NewRecorder()
				healthy(answer, q)
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				<-looked
				_, _ = w.Write(answer.Body.Bytes())
				r.fake.Delete(r.url)
				if test.created {
					r.fake.Create(r.url)
				}
			})
			r.fake.Inject(1, func(q *http.Request) bool { return q.Method == http.MethodGet && r.url == r.fake.URL()+q.URL.Path }, func(w http.ResponseWriter, q *http.Request, healthy http.HandlerFunc) {
				healthy(w, q)
				close(looked)
			})
			report, err := r.tryRun(r.store)
			if !errors.Is(err, test.want) {
				t.Errorf("%+v, %v", report, err)
			}
			if report.Published != 3 {
				t.Errorf("%d entities were published", report.Published)
			}
			records := 0 // one before the first row is published
			for _, request := range r.fake.Requests() {
				if strings.HasPrefix(request, http.MethodPut) && strings.Contains(request, "/_local/") {
					records++
				}
			}
			if test.created && records > 1 {
				t.Errorf("%d log records were written to the new database, want at most 1", records)
			}
		})
	}
}
