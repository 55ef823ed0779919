package api_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/api"
)

// start starts all jobs that are due.
func (s *site) start(t *testing.T, n jobs.Node) map[string]jobs.Run {
	t.Helper()
	runs, err := s.Admit(t.Context(), n, 100)
	check(t, err)
	byName := map[string]jobs.Run{}
	for _, r := range runs {
		byName[r.Job.Document.Name] = r
	}
	return byName
}

// fill brings jobs into all states; each has the name of its state. It returns the name of a job
// that runs once.
func (s *site) fill(t *testing.T) string {
	t.Helper()
	n, err := s.Join(t.Context(), jobs.Node{Name: "node-1", Slots: 100})
	check(t, err)
	var documents []jobs.Document
	for _, name := range []string{"orders", "idle", "crashing", "failed", "pending", "paused"} {
		documents = append(documents, jobs.Document{Namespace: "shop", Name: name, Kind: "fake", Source: "https://couch.example.org/" + name, Target: "s3:feeds#" + name, Follow: true, Paused: name == "paused"})
	}
	documents = append(documents, jobs.Document{Namespace: "other", Name: "completed", Kind: "fake", Source: "https://couch.example.org/completed"})
	_, err = s.Apply(t.Context(), documents, jobs.ApplyOptions{})
	check(t, err)
	once, err := s.RunOnce(t.Context(), jobs.Document{Namespace: "other", Kind: "fake", Source: "once"}, false)
	check(t, err)
	finish := func(runs map[string]jobs.Run, name string, o jobs.Outcome) {
		t.Helper()
		check(t, s.Finish(t.Context(), runs[name], o))
	}
	stats := &jobs.Stats{Entities: 7, Repeated: 2, Rejected: 1, Pending: 5, Lag: time.Second, Position: "7-abc", SourcePosition: "12-abc"}
	runs := s.start(t, n)
	unknown := *stats
	unknown.Pending, unknown.SourcePosition = -1, ""
	finish(runs, "orders", jobs.Outcome{End: jobs.Stopped, Reason: "others wait", Stats: stats})
	finish(runs, "pending", jobs.Outcome{End: jobs.Stopped, Stats: &unknown})
	finish(runs, "idle", jobs.Outcome{End: jobs.CaughtUp, Seen: 1, Stats: stats})
	finish(runs, "crashing", jobs.Outcome{End: jobs.Crashed, Reason: "connection refused", Stats: stats})
	finish(runs, "failed", jobs.Outcome{End: jobs.Rejected, Reason: "there is a gap"})
	finish(runs, "completed", jobs.Outcome{End: jobs.Done, Stats: stats})
	finish(runs, once.Document.Name, jobs.Outcome{End: jobs.Stopped})
	runs = s.start(t, n) // the jobs that were stopped
	finish(runs, "pending", jobs.Outcome{End: jobs.Stopped})
	return once.Document.Name
}

// The members of the answers of CouchDB 3.5, and the JSON types that they may have.
var (
	couchInfo = map[string]string{
		"revisions_checked": "number", "missing_revisions_found": "number", "docs_read": "number", "docs_written": "number",
		"doc_write_failures": "number", "bulk_get_attempts": "number", "bulk_get_docs": "number", "changes_pending": "number null",
		"checkpointed_source_seq": "number string", "source_seq": "number string", "through_seq": "number string",
	}
	couchJob = map[string]string{
		"id": "string", "pid": "string null", "source": "string", "target": "string", "database": "string null", "user": "string null",
		"doc_id": "string null", "info": "object null", "history": "array", "node": "string null", "start_time": "time",
	}
	couchDoc = map[string]string{
		"doc_id": "string", "database": "string", "id": "string null", "node": "string null", "source": "string", "target": "string",
		"state": "string", "info": "object null", "error_count": "number", "last_updated": "time", "start_time": "time",
		"source_proxy": "string null", "target_proxy": "string null",
	}
	couchTask = map[string]string{
		"type": "string", "node": "string null", "pid": "string", "process_status": "string", "replication_id": "string",
		"database": "string null", "doc_id": "string null", "user": "string null", "source": "string", "target": "string",
		"continuous": "boolean", "checkpoint_interval": "number", "started_on": "number", "updated_on": "number",
	}
	couchEvent = map[string]string{"timestamp": "time", "type": "string"}
)

// sameMembers compares the members of an object, and their types, with CouchDB's.
func sameMembers(t *testing.T, what string, v any, tables ...map[string]string) {
	t.Helper()
	want := map[string]string{}
	for _, table := range tables {
		maps.Copy(want, table)
	}
	object, _ := v.(map[string]any)
	for name := range object {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: CouchDB has no %q", what, name)
		}
	}
	for name, types := range want {
		value, ok := object[name]
		if !ok {
			t.Errorf("%s: there is no %q", what, name)
			continue
		}
		if got := typeOf(value); !strings.Contains(types, got) && (types != "time" || got != "string" || !couchTime(value)) {
			t.Errorf("%s: %s is %v, want %s", what, name, value, types)
		}
	}
}

func couchTime(v any) bool {
	_, err := time.Parse("2006-01-02T15:04:05Z", fmt.Sprint(v))
	return err == nil
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	}
	return "object"
}

// TestCouchMembers: answers have all members that CouchDB's answers have, and no others.
func TestCouchMembers(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		s.fill(t)
		all := s.want(t, 200, "GET", "/_scheduler/jobs", "")
		rows, _ := all["jobs"].([]any)
		if len(rows) != 6 || all["total_rows"] != 6.0 || all["offset"] != 0.0 || len(all) != 3 {
			t.Fatalf("jobs: %v", all)
		}
		for _, j := range rows {
			id := fmt.Sprint(at(j, "id"))
			sameMembers(t, id, j, couchJob)
			if info := at(j, "info"); info != nil {
				sameMembers(t, id+" info", info, couchInfo)
			}
			events, _ := at(j, "history").([]any)
			for _, e := range events {
				table := maps.Clone(couchEvent)
				if at(e, "type") == "crashed" {
					table["reason"] = "string"
				}
				sameMembers(t, id+" history", e, table)
			}
			if last := events[len(events)-1]; at(last, "type") != "added" {
				t.Errorf("%s: history %v", id, events)
			}
			if one := s.want(t, 200, "GET", "/_scheduler/jobs/"+id, ""); jsonOf(t, one) != jsonOf(t, j) {
				t.Errorf("alone: %v\nin the list: %v", one, j)
			}
		}
		all = s.want(t, 200, "GET", "/_scheduler/docs", "")
		rows, _ = all["docs"].([]any)
		if len(rows) != 7 || all["total_rows"] != 7.0 || all["offset"] != 0.0 || len(all) != 3 {
			t.Fatalf("docs: %v", all)
		}
		for _, d := range rows {
			name := fmt.Sprint(at(d, "doc_id"))
			sameMembers(t, name, d, couchDoc)
			want := map[string]string{"orders": "running", "idle": "running", "paused": "pending"}[name]
			if want == "" {
				want = name
			}
			if at(d, "state") != want {
				t.Errorf("%s is %v", name, at(d, "state"))
			}
			switch info := at(d, "info"); {
			case want == "crashing" || want == "failed":
				sameMembers(t, name+" info", info, map[string]string{"error": "string"})
			case info != nil:
				sameMembers(t, name+" info", info, couchInfo)
			}
			if one := s.want(t, 200, "GET", fmt.Sprintf("/_scheduler/docs/%v/%s", at(d, "database"), name), ""); jsonOf(t, one) != jsonOf(t, d) {
				t.Errorf("alone: %v\nin the list: %v", one, d)
			}
		}
		for _, task := range s.tasks(t) {
			sameMembers(t, fmt.Sprint(at(task, "doc_id")), task, couchTask, couchInfo)
		}
	})
}

// tasks returns /_active_tasks.
func (s *site) tasks(t *testing.T) []any {
	t.Helper()
	w := s.ask(t, "GET", "/_active_tasks", "")
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return decode[[]any](t, w)
}

// TestCouchValues: the members have the same meaning as CouchDB's.
func TestCouchValues(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		once := s.fill(t)
		idle := s.want(t, 200, "GET", "/_scheduler/jobs/shop/idle", "")
		info := jsonOf(t, at(idle, "info"))
		if info != `{"bulk_get_attempts":8,"bulk_get_docs":8,"changes_pending":0,"checkpointed_source_seq":"7-abc","doc_write_failures":1,"docs_read":8,"docs_written":7,"missing_revisions_found":8,"revisions_checked":10,"source_seq":"12-abc","through_seq":"7-abc"}` {
			t.Errorf("info %s", info)
		}
		if idle["node"] != "node-1" || idle["database"] != "shop/_replicator" || idle["doc_id"] != "idle" || idle["pid"] == nil || idle["source"] != "https://couch.example.org/idle" {
			t.Errorf("idle: %v", idle)
		}
		pending := s.want(t, 200, "GET", "/_scheduler/jobs/shop/pending", "")
		if pending["pid"] != nil || at(pending, "info", "changes_pending") != nil || at(pending, "info", "source_seq") != "7-abc" {
			t.Errorf("pending: %v", pending)
		}
		crashing := s.want(t, 200, "GET", "/_scheduler/docs/shop%2F_replicator/crashing", "")
		if jsonOf(t, crashing["info"]) != `{"error":"connection refused"}` || crashing["error_count"] != 1.0 || crashing["id"] != "shop/crashing" {
			t.Errorf("crashing: %v", crashing)
		}
		if done := s.want(t, 200, "GET", "/_scheduler/docs/other/_replicator/completed", ""); done["id"] != nil || at(done, "info", "docs_written") != 7.0 {
			t.Errorf("completed: %v", done)
		}
		// The tasks are the running jobs, and the idle ones, which CouchDB would keep running.
		var names []string
		for _, task := range s.tasks(t) {
			names = append(names, fmt.Sprint(at(task, "doc_id"), " ", at(task, "process_status"), " ", at(task, "node")))
		}
		if want := []string{"<nil> running node-1", "idle waiting node-1", "orders running node-1"}; !slices.Equal(names, want) {
			t.Errorf("tasks %q, want %q", names, want)
		}
		// A job without a document is listed only among the jobs.
		rows, _ := s.want(t, 200, "GET", "/_scheduler/jobs?limit=1", "")["jobs"].([]any)
		if at(rows[0], "id") != "other/"+once || at(rows[0], "database") != nil || at(rows[0], "doc_id") != nil {
			t.Errorf("once: %v", rows[0])
		}
		s.want(t, 404, "GET", "/_scheduler/docs/other/_replicator/"+once, "")
		for path, status := range map[string]int{
			"/_scheduler/jobs/shop/none": 404, "/_scheduler/docs/shop/_replicator/none": 404, "/_scheduler/docs/_replicator": 200,
			"/_scheduler/docs?states=asleep": 400, "/_scheduler/docs?limit=x": 400, "/_scheduler/jobs?descending=true": 400, "/_scheduler/jobs?limit=-1": 400,
			"/_scheduler": 404, "/_scheduler/docs/shop": 404,
		} {
			s.want(t, status, "GET", path, "")
		}
		s.want(t, 405, "DELETE", "/_scheduler/jobs/shop/idle", "")
	})
}

// TestCouchPages reads pages with limit and skip.
func TestCouchPages(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		s.fill(t)
		page := func(path string) (names []string, total any) {
			got := s.want(t, 200, "GET", path, "")
			rows, _ := got["docs"].([]any)
			for _, d := range rows {
				names = append(names, fmt.Sprint(at(d, "doc_id")))
			}
			return names, got["total_rows"]
		}
		for path, want := range map[string]string{
			"/_scheduler/docs?limit=3":                              "[completed crashing failed] 7",
			"/_scheduler/docs?limit=3&skip=5":                       "[paused pending] 7",
			"/_scheduler/docs?limit=100000&skip=6":                  "[pending] 7",
			"/_scheduler/docs?skip=7":                               "[] 7",
			"/_scheduler/docs?limit=0":                              "[] 7",
			"/_scheduler/docs?states=running":                       "[idle orders] 2",
			"/_scheduler/docs?states=Crashing,failed":               "[crashing failed] 2",
			"/_scheduler/docs?states=error,initializing":            "[] 0",
			"/_scheduler/docs/shop/_replicator?states=pending":      "[paused pending] 2",
			"/_scheduler/docs/other%2F_replicator":                  "[completed] 1",
			"/_scheduler/docs/shop/_replicator?states=completed":    "[] 0",
			"/_scheduler/docs/_replicator?states=completed&limit=1": "[completed] 1",
		} {
			if names, total := page(path); fmt.Sprint(names, " ", total) != want {
				t.Errorf("%s: %v %v, want %s", path, names, total, want)
			}
		}
	})
}

// TestCouchManyPages: a long view is read with several statements.
func TestCouchManyPages(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite::memory:", api.Config{}, fakeKind{})
	var documents []jobs.Document
	for n := range jobs.MaxLimit + 7 {
		documents = append(documents, jobs.Document{Namespace: "shop", Name: fmt.Sprintf("j%04d", n), Kind: "fake", Source: fmt.Sprint(n)})
	}
	_, err := s.Apply(t.Context(), documents, jobs.ApplyOptions{})
	check(t, err)
	got := s.want(t, 200, "GET", "/_scheduler/docs?limit=5000&skip=2", "")
	rows, _ := got["docs"].([]any)
	if len(rows) != len(documents)-2 || at(rows[0], "doc_id") != "j0002" || at(rows[len(rows)-1], "doc_id") != "j1006" {
		t.Errorf("%d rows", len(rows))
	}
}

// A leaver is a client that disconnects when the answer begins.
type leaver struct {
	*httptest.ResponseRecorder
	leave func()
}

func (l leaver) Write(p []byte) (int, error) {
	l.leave()
	return l.ResponseRecorder.Write(p)
}

// TestCouchStreams: a view is sent as it is read, and no more of it is read than is sent.
func TestCouchStreams(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite::memory:", api.Config{}, fakeKind{})
	var documents []jobs.Document
	for n := range 300 {
		documents = append(documents, jobs.Document{Namespace: "shop", Name: fmt.Sprintf("j%04d", n), Kind: "fake", Source: fmt.Sprint(n)})
	}
	_, err := s.Apply(t.Context(), documents, jobs.ApplyOptions{})
	check(t, err)
	node, err := s.Join(t.Context(), jobs.Node{Name: "node-1", Slots: len(documents)})
	check(t, err)
	for range 3 {
		s.start(t, node)
	}
	if all := s.tasks(t); len(all) != len(documents) {
		t.Fatalf("%d tasks", len(all))
	}
	for _, path := range []string{"/_scheduler/docs?limit=1000000000", "/_scheduler/jobs?limit=1000000000", "/_active_tasks"} {
		ctx, leave := context.WithCancel(t.Context())
		w := leaver{httptest.NewRecorder(), leave}
		func() {
			defer func() {
				if got := recover(); got != http.ErrAbortHandler {
					t.Errorf("%s: %v, want %v", path, got, http.ErrAbortHandler)
				}
			}()
			s.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", path, nil))
		}()
		if text := w.Body.String(); !strings.Contains(text, "j0000") || strings.Contains(text, "j0299") {
			t.Errorf("%s: %d bytes", path, len(text))
		}
	}
}

// TestCouchScript runs a script that was written for CouchDB.
func TestCouchScript(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		s.fill(t)
		web := httptest.NewServer(s.handler)
		t.Cleanup(web.Close)
		out, err := exec.CommandContext(t.Context(), "sh", "testdata/crashing.sh", web.URL).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{
			"crashing shop/_replicator crashing errors=1 connection refused",
			"failed shop/_replicator failed errors=1 there is a gap",
			"behind shop/orders 5",
			"last shop/crashing crashed,started,added connection refused",
			"one orders running",
			"task idle 7/8 true",
			"task orders 7/8 true",
		} {
			if !strings.Contains(string(out), want+"\n") {
				t.Errorf("there is no %q in\n%s", want, out)
			}
		}
	})
}
