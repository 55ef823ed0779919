package couchdb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/memnet"
)

// TestDatabase creates, uses and deletes a database.
func TestDatabase(t *testing.T) {
	for name, other := range map[string]string{"fake": couchtest.NewFake(t).NewDB(t), "server": couchtest.NewDB(t)} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			db := openURL(t, other+"-life")
			couchtest.DeleteAtEnd(t, db.URL())
			if err := db.Exists(ctx); !errors.Is(err, couchdb.ErrNotFound) {
				t.Error(err)
			}
			if _, err := db.Info(ctx); !errors.Is(err, couchdb.ErrNotFound) {
				t.Error(err)
			}
			if _, err := db.EnsureFullCommit(ctx); !errors.Is(err, couchdb.ErrNotFound) {
				t.Error(err)
			}
			must(t, db.Create(ctx))
			if err := db.Create(ctx); !errors.Is(err, couchdb.ErrPreconditionFailed) {
				t.Error(err)
			}
			must(t, db.Exists(ctx))
			server, err := db.Server(ctx)
			if err != nil || server.Version == "" || server.Vendor.Name == "" {
				t.Errorf("%+v, %v", server, err)
			}
			start, err := db.EnsureFullCommit(ctx)
			if err != nil || start == "" {
				t.Errorf("%q, %v", start, err)
			}
			info, err := db.Info(ctx)
			if err != nil || info.Name != db.Name() {
				t.Errorf("%+v, %v", info, err)
			}
			// Like PouchDB, CouchDB before 3.3 does not report the instance.
			if name == "fake" && info.Instance() == "" || name != "fake" && couchtest.IsPouchDB(t) && info.Instance() != "" {
				t.Errorf("instance %q of %+v", info.Instance(), info)
			}

			results, err := db.BulkDocs(ctx, [][]byte{[]byte(`{"_id":"a","n":1}`), []byte(`{"_id":"b","_rev":"1-wrong"}`)}, true)
			must(t, err)
			if results[0].Err != nil || results[0].ID != "a" || !errors.Is(results[1].Err, couchdb.ErrConflict) || results[1].ID != "b" {
				t.Errorf("%+v", results)
			}
			missing, err := db.RevsDiff(ctx, map[string][]string{"a": {results[0].Rev, "2-x"}, "b": {"1-x"}, "c": {}})
			must(t, err)
			if diff := cmp.Diff([]string{"2-x"}, missing["a"].Missing); diff != "" || len(missing["b"].Missing) != 1 {
				t.Errorf("%+v", missing)
			}
			if missing, err := db.RevsDiff(ctx, map[string][]string{"a": {results[0].Rev}}); err != nil || len(missing) != 0 {
				t.Errorf("%+v, %v", missing, err)
			}
			if results, err := db.BulkDocs(ctx, nil, false); err != nil || len(results) != 0 {
				t.Errorf("%+v, %v", results, err)
			}
			rev, err := db.Put(ctx, put("ä/+", `{"_id":"ä/+","n":1}`, true))
			must(t, err)
			if _, err := db.Put(ctx, put("ä/+", `{"_id":"ä/+","n":2}`, true)); !errors.Is(err, couchdb.ErrConflict) {
				t.Error(err)
			}
			again, err := db.Put(ctx, put("ä/+", fmt.Sprintf(`{"_id":"ä/+","_rev":%q,"n":2}`, rev), true))
			if err != nil || !strings.HasPrefix(again, "2-") {
				t.Errorf("%s, %v", again, err)
			}
			must(t, func() error {
				_, err := db.Put(ctx, put("_design/x", `{"_id":"_design/x","_rev":"1-x","views":{}}`, false))
				return err
			}())
			if l := leaves(t, db.OpenRevs(ctx, "_design/x", nil, couchdb.GetOptions{})); len(l) != 1 || l[0].Rev != "1-x" {
				t.Errorf("%+v", l)
			}
		})
	}
}

func put(id, text string, newEdits bool) couchdb.Put {
	return couchdb.Put{ID: id, Length: int64(len(text)), NewEdits: newEdits, Open: func() (io.Reader, error) { return strings.NewReader(text), nil }}
}

// TestBulkErrors: the error of one document in a bulk response is the one that a PUT of that document would return.
func TestBulkErrors(t *testing.T) {
	kinds := map[string]error{
		"unauthorized": couchdb.ErrUnauthorized, "forbidden": couchdb.ErrForbidden, "conflict": couchdb.ErrConflict,
		"not_found": couchdb.ErrNotFound, "missing_stub": couchdb.ErrPreconditionFailed, "document_too_large": couchdb.ErrTooLarge,
	}
	for code, kind := range kinds {
		inWorld(t, func(w http.ResponseWriter, r *http.Request) {
			sent, _ := io.ReadAll(r.Body)
			if want := `{"docs":[{"_id":"a","n":1.10},` + "\n" + `{"_id":"b"}],"new_edits":false}`; string(sent) != want || r.ContentLength != int64(len(want)) {
				t.Errorf("sent %q", sent)
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `[{"ok":true,"id":"a","rev":"1-a"},{"id":"b","rev":"1-b","error":%q,"reason":{"not":"a string"}}]`, code)
		}, func(t *testing.T, n *memnet.Net) {
			results, err := open(t, n, couchdb.Config{}).BulkDocs(t.Context(), [][]byte{[]byte(`{"_id":"a","n":1.10}`), []byte(`{"_id":"b"}`)}, false)
			must(t, err)
			var e *couchdb.Error
			if len(results) != 2 || results[0] != (couchdb.BulkResult{ID: "a", Rev: "1-a"}) || results[1].ID != "b" || results[1].Rev != "1-b" ||
				!errors.Is(results[1].Err, kind) || !errors.As(results[1].Err, &e) || e.Code != code || e.Reason != `{"not":"a string"}` {
				t.Errorf("%+v", results)
			}
		})
	}
}

// TestOutcomeUnknown: only idempotent writes are repeated.
func TestOutcomeUnknown(t *testing.T) {
	writes := map[string]struct {
		write    func(context.Context, *couchdb.DB) error
		requests int
	}{
		"documents with revisions":    {func(ctx context.Context, db *couchdb.DB) error { _, err := db.BulkDocs(ctx, nil, false); return err }, 2},
		"documents without revisions": {func(ctx context.Context, db *couchdb.DB) error { _, err := db.BulkDocs(ctx, nil, true); return err }, 1},
		"a document with a revision": {func(ctx context.Context, db *couchdb.DB) error {
			_, err := db.Put(ctx, put("a", "{}", false))
			return err
		}, 2},
		"a document without a revision": {func(ctx context.Context, db *couchdb.DB) error {
			_, err := db.Put(ctx, put("a", "{}", true))
			return err
		}, 1},
		"a local document": {func(ctx context.Context, db *couchdb.DB) error { _, err := db.PutLocal(ctx, "a", 1); return err }, 1},
		"a database":       {func(ctx context.Context, db *couchdb.DB) error { return db.Create(ctx) }, 1},
		"a question":       {func(ctx context.Context, db *couchdb.DB) error { _, err := db.RevsDiff(ctx, nil); return err }, 2},
		"a commit":         {func(ctx context.Context, db *couchdb.DB) error { _, err := db.EnsureFullCommit(ctx); return err }, 2},
	}
	for name, test := range writes {
		first := true
		inWorld(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if first {
				first = false
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, map[bool]string{true: "[]", false: "{}"}[strings.HasSuffix(r.URL.Path, "_bulk_docs")])
		}, func(t *testing.T, n *memnet.Net) {
			err := test.write(t.Context(), open(t, n, couchdb.Config{}))
			if got := len(n.Requests()); got != test.requests || (err != nil) != (got == 1) {
				t.Errorf("%s: %d requests, %v", name, got, err)
			}
		})
	}
}

// TestReplicationLog writes replication logs, and finds their last common session.
func TestReplicationLog(t *testing.T) {
	eachServer(t, func(t *testing.T, db *couchdb.DB, pouch bool) {
		ctx := t.Context()
		id := couchdb.ReplicationID("source", "target")
		l, err := db.ReplicationLog(ctx, id)
		if err != nil || len(l.History) != 0 || l.Rev != "" {
			t.Fatalf("%+v, %v", l, err)
		}
		for i := range couchdb.MaxHistory + 3 {
			for _, seq := range []string{`1`, `"2-x"`, `[3,"y"]`} { // checkpoints of one session
				l.Record(couchdb.Session{SessionID: fmt.Sprint(i), RecordedSeq: json.RawMessage(seq), StartTime: couchdb.FormatTime(time.Unix(0, 0))})
			}
			must(t, db.PutReplicationLog(ctx, l))
		}
		stale, err := db.ReplicationLog(ctx, id)
		must(t, err)
		if diff := cmp.Diff(l, stale); diff != "" {
			t.Errorf("read back: %s", diff)
		}
		if l.Rev == "" || len(l.History) != couchdb.MaxHistory || l.History[0].SessionID != fmt.Sprint(couchdb.MaxHistory+2) ||
			l.History[0].StartTime != "Thu, 01 Jan 1970 00:00:00 GMT" || string(l.SourceLastSeq) != `[3,"y"]` {
			t.Errorf("%+v", l.History[0])
		}
		sessions := make(map[string]bool)
		for _, s := range l.History {
			sessions[s.SessionID] = true
		}
		if len(sessions) != couchdb.MaxHistory {
			t.Errorf("history of %d sessions", len(sessions))
		}
		must(t, db.PutReplicationLog(ctx, l))
		if err := db.PutReplicationLog(ctx, stale); pouch && !errors.Is(err, couchdb.ErrConflict) || !pouch && err != nil {
			t.Error(err)
		}
	})
}

func TestReplicationID(t *testing.T) {
	seen := make(map[string]bool)
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"ab", "c"}, {"a", "bc"}, {"c", "ab"}, {`a","bc`}} {
		id := couchdb.ReplicationID(parts...)
		if seen[id] || len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" || id != couchdb.ReplicationID(parts...) {
			t.Errorf("%q: %s", parts, id)
		}
		seen[id] = true
	}
}
