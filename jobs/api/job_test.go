package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/api"
)

const (
	orders    = "/api/v1/namespaces/shop/jobs/orders"
	ordersDoc = `{"kind": "fake", "source": "a", "follow": true, "options": {"limit": 20}}`
)

// TestJob creates, changes, pauses, restarts and deletes a job.
func TestJob(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		s.want(t, 404, "GET", orders, "")
		s.want(t, 404, "GET", orders+"/events", "")
		s.want(t, 404, "DELETE", orders, "")
		s.want(t, 404, "POST", orders+"/restart", "")
		s.want(t, 404, "PUT", orders+"/desired", `"paused"`)
		created := s.ask(t, "PUT", orders, ordersDoc)
		if created.Code != 201 || !strings.HasPrefix(created.Header().Get("ETag"), `"1-`) {
			t.Fatalf("%d %v %s", created.Code, created.Header(), created.Body)
		}
		got := s.want(t, 200, "GET", orders, "")
		if at(got, "state") != "pending" || at(got, "generation") != 1.0 || at(got, "document", "options", "limit") != "20" || at(got, "document", "namespace") != "shop" {
			t.Errorf("got %v", got)
		}
		// The document that GET returns can be sent back, and changes nothing.
		same := s.ask(t, "PUT", orders, jsonOf(t, got["document"]))
		if same.Code != 200 || same.Header().Get("ETag") != created.Header().Get("ETag") {
			t.Errorf("again: %d %v %s", same.Code, same.Header(), same.Body)
		}
		for desired, state := range map[string]string{"paused": "paused", "running": "pending"} {
			for range 2 {
				if got := s.want(t, 200, "PUT", orders+"/desired", `"`+desired+`"`); desired == "paused" && at(got, "state") != state {
					t.Errorf("%s: %v", desired, got)
				}
			}
		}
		s.want(t, 200, "PUT", orders+"/desired", `"running"`)
		s.want(t, 400, "PUT", orders+"/desired", `"gone"`)
		s.want(t, 400, "PUT", orders+"/desired", `{}`)
		if got := s.want(t, 200, "POST", orders+"/restart", ""); at(got, "state") != "pending" {
			t.Errorf("restarted: %v", got)
		}
		var types []string
		events, _ := s.want(t, 200, "GET", orders+"/events", "")["events"].([]any)
		for _, e := range events {
			types = append(types, fmt.Sprint(at(e, "type")))
		}
		if types[0] != "restarted" || types[len(types)-1] != "added" || !slices.Contains(types, "paused") {
			t.Errorf("events %v", types)
		}
		if w := s.ask(t, "DELETE", orders, ""); w.Code != 204 || w.Body.Len() > 0 {
			t.Errorf("delete: %d %s", w.Code, w.Body)
		}
		s.want(t, 404, "GET", orders, "")
		if s.log.Len() > 0 {
			t.Errorf("logged %s", s.log)
		}
	})
}

// TestConditions: a job is changed only if it has the right version.
func TestConditions(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		doc := func(source string) string { return fmt.Sprintf(`{"kind": "fake", "source": %q}`, source) }
		etag := func() string { return s.ask(t, "GET", orders, "").Header().Get("ETag") }
		s.want(t, 412, "PUT", orders, doc("a"), `If-Match: *`)
		s.want(t, 412, "PUT", orders, doc("a"), `If-Match: "1"`)
		s.want(t, 412, "POST", orders+":validate", doc("a"), `If-Match: "1"`)
		s.want(t, 201, "PUT", orders, doc("a"), `If-None-Match: *`)
		first := etag()
		s.want(t, 412, "PUT", orders, doc("b"), `If-None-Match: *`)
		s.want(t, 412, "PUT", orders, doc("b"), `If-Match: "1"`)
		s.want(t, 412, "PUT", orders, doc("b"), `If-Match: W/`+first)
		s.want(t, 200, "PUT", orders, doc("b"), `If-Match: "7", `+first)
		got := s.want(t, 412, "PUT", orders, doc("c"), `If-Match: `+first)
		if !strings.Contains(fmt.Sprint(got["detail"]), "version 2-") {
			t.Errorf("got %v", got)
		}
		s.want(t, 412, "DELETE", orders, "", `If-Match: `+first)
		if got := s.want(t, 200, "GET", orders, ""); at(got, "generation") != 2.0 || at(got, "document", "source") != "b" {
			t.Errorf("got %v", got)
		}
		resumed := etag()
		s.want(t, 200, "PUT", orders+"/desired", `"paused"`)
		s.want(t, 412, "PUT", orders, doc("b"), `If-Match: `+resumed)
		s.want(t, 412, "DELETE", orders, "", `If-Match: `+resumed)
		paused := etag()
		s.want(t, 200, "PUT", orders+"/desired", `"running"`)
		s.want(t, 412, "PUT", orders, `{"kind": "fake", "source": "b", "paused": true}`, `If-Match: `+paused)
		if got := s.want(t, 200, "GET", orders, ""); at(got, "document", "paused") != nil {
			t.Errorf("an old document pauses the job: %v", got)
		}
		s.want(t, 204, "DELETE", orders, "", `If-Match: `+resumed)
		s.want(t, 201, "PUT", orders, doc("a"))
		s.want(t, 412, "PUT", orders, doc("b"), `If-Match: `+first)
	})
}

// TestInvalid: all problems of a job are in one answer, and nothing is stored.
func TestInvalid(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		const bad = `{"namespace": "other", "kind": "fake", "colour": 1, "follow": true, "schedule": "x", "credentials": {"source": "hunter2"}}`
		for _, r := range []struct{ method, path string }{{"PUT", orders}, {"POST", orders + ":validate"}} {
			got := s.want(t, 422, r.method, r.path, bad)
			var all []string
			problems, _ := got["problems"].([]any)
			for _, p := range problems {
				all = append(all, fmt.Sprintf("%v: %v", at(p, "field"), at(p, "message")))
			}
			want := []string{
				`<nil>: unknown field "colour"`,
				`namespace: "other" differs from "shop" in the path`,
				`credentials.source: want env:NAME or file:PATH, a reference instead of the credential`,
				`schedule: a job that follows always runs: remove schedule or follow`,
				`source: there is no source`,
			}
			if !slices.Equal(all, want) {
				t.Errorf("%s: got\n%s\nwant\n%s", r.path, strings.Join(all, "\n"), strings.Join(want, "\n"))
			}
			if strings.Contains(fmt.Sprint(got), "hunter2") {
				t.Error("the answer has the secret")
			}
		}
		s.want(t, 200, "POST", orders+":validate", ordersDoc)
		s.want(t, 404, "GET", orders, "")
		s.want(t, 201, "PUT", orders, ordersDoc)
		got := s.want(t, 200, "POST", "/api/v1/validate", `{"version": 1, "namespace": "shop", "jobs": [
			{"name": "orders", "kind": "fake", "source": "a", "follow": true, "options": {"limit": 20}}, {"name": "b", "kind": "fake", "source": "b"}]}`)
		if text := jsonOf(t, got); !strings.Contains(text, `"action":"unchanged"`) || !strings.Contains(text, `"action":"created"`) {
			t.Errorf("got %s", text)
		}
		s.want(t, 404, "GET", "/api/v1/namespaces/shop/jobs/b", "")
		got = s.want(t, 422, "POST", "/api/v1/validate", `{"version": 1, "jobs": [{"name": "x", "kind": "fake", "source": "a"}, {"name": "y", "kind": "none"}]}`)
		if text := jsonOf(t, got); !strings.Contains(text, "unknown kind") {
			t.Errorf("got %s", text)
		}
	})
}

func TestBodies(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite::memory:", api.Config{}, fakeKind{})
	s.want(t, 413, "PUT", orders, `{"name": "`+strings.Repeat("x", 64<<10)+`"}`)
	s.want(t, 415, "PUT", orders, ordersDoc, "Content-Type: application/x-www-form-urlencoded")
	s.want(t, 201, "PUT", orders, ordersDoc, "Content-Type: application/json; charset=utf-8")
	s.want(t, 422, "PUT", orders, "")
	s.want(t, 405, "POST", orders, "")
	s.want(t, 501, "BREW", orders, "")
	s.want(t, 404, "GET", "/api/v2/jobs", "")
	if w := s.ask(t, "HEAD", orders, ""); w.Code != 200 || !strings.HasPrefix(w.Header().Get("ETag"), `"1-`) {
		t.Errorf("HEAD: %d %v", w.Code, w.Header())
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200} {
		s.want(t, want, "GET", path, "")
	}
}

// TestDatabaseAway sends requests while the database does not work.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite::memory:", api.Config{}, fakeKind{})
	check(t, s.Close())
	got := s.want(t, 503, "GET", "/readyz", "")
	if got["type"] != "urn:feedctl:problem:database-away" || !strings.Contains(fmt.Sprint(got["checks"]), "name:database since:") {
		t.Errorf("got %v", got)
	}
	got = s.want(t, 500, "GET", orders, "")
	if strings.Contains(fmt.Sprint(got), "sql") || !strings.Contains(s.log.String(), "database is closed") {
		t.Errorf("got %v, logged %s", got, s.log)
	}
	s.want(t, 200, "GET", "/healthz", "")
}

// TestLeaseLost: /readyz reports a node that cannot extend its lease.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scheduler, err := jobs.Open(t.Context(), "sqlite::memory:", jobs.Kinds{"fake": fakeKind{}}, jobs.Defaults())
		check(t, err)
		s := &site{Scheduler: scheduler}
		s.handler, err = api.New(scheduler, api.Config{})
		check(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- scheduler.Work(ctx, jobs.WorkerConfig{Name: "node-7"}) }()
		time.Sleep(2 * time.Second)
		s.want(t, 200, "GET", "/readyz", "")
		check(t, scheduler.Close()) // the database is unavailable
		time.Sleep(jobs.Defaults().Lease)
		got := s.want(t, 503, "GET", "/readyz", "")
		if got["type"] != "urn:feedctl:problem:lease-lost" || !strings.Contains(fmt.Sprint(got["checks"]), "name:lease of node node-7 since:") {
			t.Errorf("got %v", got)
		}
		stop()
		<-done
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		if got := jsonOf(t, s.want(t, 200, "GET", "/api/v1/jobs", "")); got != `{"jobs":[],"totals":{}}` {
			t.Errorf("empty: %s", got)
		}
		var all []jobs.Document
		for n := range 5 {
			all = append(all, jobs.Document{Namespace: "shop", Name: fmt.Sprint("j", n), Kind: "fake", Source: fmt.Sprint(n), Labels: map[string]string{"odd": fmt.Sprint(n % 2)}})
		}
		all = append(all, jobs.Document{Namespace: "other", Name: "x", Kind: "fake", Source: "x", Paused: true})
		_, err := s.Apply(t.Context(), all, jobs.ApplyOptions{})
		check(t, err)
		list := func(query string) (names []string, next string) {
			got := s.want(t, 200, "GET", "/api/v1/jobs?"+query, "")
			found, _ := got["jobs"].([]any)
			for _, j := range found {
				names = append(names, fmt.Sprint(at(j, "document", "namespace"), "/", at(j, "document", "name")))
			}
			next, _ = got["next"].(string)
			return names, next
		}
		for query, want := range map[string]string{
			"":                           "[other/x shop/j0 shop/j1 shop/j2 shop/j3 shop/j4]",
			"namespace=shop&label=odd=1": "[shop/j1 shop/j3]",
			"state=paused,idle":          "[other/x]",
			"state=paused&state=idle":    "[other/x]",
			"name=j4":                    "[shop/j4]",
			"kind=none":                  "[]",
		} {
			if got, _ := list(query); fmt.Sprint(got) != want {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
		var paged []string
		for cursor := ""; ; {
			names, next := list("limit=2&cursor=" + cursor)
			paged = append(paged, names...)
			if cursor = next; cursor == "" {
				break
			}
		}
		if len(paged) != 6 || !slices.IsSorted(paged) {
			t.Errorf("pages: %v", paged)
		}
		s.want(t, 200, "GET", "/api/v1/jobs?"+labels(20), "")
		for _, query := range []string{labels(21), "label=odd=1&label=odd=0", "name=%ff", "kind=a%00", "label=a=%00", "%00=1", "cursor=a/%ff", "state=sleeping", "limit=-1", "limit=x", "label=x", "cursor=x", "statr=idle", "kind=a&kind=b", "%zz"} {
			s.want(t, http.StatusBadRequest, "GET", "/api/v1/jobs?"+query, "")
		}
		if got := at(s.want(t, 200, "GET", "/api/v1/jobs?limit=1", ""), "totals"); fmt.Sprint(got) != "map[paused:1 pending:5]" {
			t.Errorf("totals %v", got)
		}
	})
}

// labels returns a query for jobs with the given number of labels.
func labels(n int) string {
	all := make([]string, n)
	for n := range all {
		all[n] = fmt.Sprintf("label=l%d=x", n)
	}
	return strings.Join(all, "&")
}

// TestNotText: a path that is not valid text names nothing, and does not cause a server error.
func TestNotText(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		for _, path := range []string{
			"/api/v1/namespaces/a%00/jobs/x", "/api/v1/namespaces/a/jobs/%ff", "/api/v1/namespaces/a/jobs/%00/logs", "/_scheduler/jobs/a/%00",
			"/_scheduler/docs/%ff/_replicator", "/_scheduler/docs/a%2F_replicator/%ff", "/api/v1/namespaces/a%2F/jobs/%00",
		} {
			s.want(t, 404, "GET", path, "")
		}
		s.want(t, 404, "DELETE", "/api/v1/namespaces/a/jobs/%ff", "")
		s.want(t, 404, "PUT", "/api/v1/namespaces/a/jobs/%ff/desired", `"paused"`)
		if s.log.Len() > 0 {
			t.Errorf("logged %s", s.log)
		}
	})
}

// TestAfter: a job may run after one that already exists.
func TestAfter(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		doc := func(source, after string) string {
			return fmt.Sprintf(`{"kind": "fake", "source": %q, "after": [%s]}`, source, after)
		}
		const path = "/api/v1/namespaces/shop/jobs/"
		got := s.want(t, 422, "PUT", path+"c", `{"kind": "none", "after": ["b"]}`)
		if text := jsonOf(t, got["problems"]); !strings.Contains(text, `"\"b\" is not a job"`) || !strings.Contains(text, "unknown kind") {
			t.Errorf("got %s", text)
		}
		s.want(t, 201, "PUT", path+"a", doc("a", ``))
		s.want(t, 201, "PUT", path+"b", doc("b", `"a"`))
		s.want(t, 201, "PUT", path+"c", doc("c", `"b"`))
		got = s.want(t, 422, "PUT", path+"a", doc("a", `"c"`))
		if text := jsonOf(t, got["problems"]); !strings.Contains(text, "waits for itself: shop/a → shop/c → shop/b → shop/a") {
			t.Errorf("got %s", text)
		}
		s.want(t, 422, "POST", path+"a:validate", doc("a", `"c"`))
		n, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 3})
		check(t, err)
		for _, name := range []string{"a", "b", "c"} { // c has a higher rank than b, which is only in the database
			runs, err := s.Admit(t.Context(), n, 1)
			check(t, err)
			if len(runs) != 1 || runs[0].Job.Document.Name != name {
				t.Errorf("started %v, want %s", runs, name)
			}
		}
	})
}
