package api_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/api"
	"github.com/feedctl/feedctl/server"
)

// Header fields of requests with credentials for everything, and with credentials for the namespace shop
// only.
const (
	asAll  = "Authorization: Bearer all"
	asShop = "Authorization: Bearer shop"
)

func limited(token string, namespaces ...string) api.Credential {
	return api.Credential{Credential: server.Credential{Bearer: token}, Namespaces: namespaces}
}

func limitedConfig() api.Config {
	both := []api.Credential{limited("all"), limited("shop", "shop"), limited("two", "shop", "bills")}
	return api.Config{ReadAuth: both, WriteAuth: both}
}

// openShared returns a site with jobs in the namespaces shop and hidden. Everything in the latter has
// "hidden" in its name.
func openShared(t *testing.T, url string) *site {
	t.Helper()
	s := open(t, url, limitedConfig(), fakeKind{})
	n, err := s.Join(t.Context(), jobs.Node{Name: "node-1", Slots: 100})
	check(t, err)
	_, err = s.Apply(t.Context(), []jobs.Document{
		{Namespace: "shop", Name: "orders", Kind: "fake", Source: "https://couch.example.org/orders", Follow: true},
		{Namespace: "shop", Name: "once", Kind: "fake", Source: "https://couch.example.org/once", Target: "s3:feeds#once"},
		{Namespace: "hidden", Name: "hidden", Kind: "fake", Source: "https://hidden.example.org/hidden", Target: "s3:feeds#hidden", Follow: true},
	}, jobs.ApplyOptions{})
	check(t, err)
	check(t, s.Finish(t.Context(), s.start(t, n)["once"], jobs.Outcome{End: jobs.Done}))
	return s
}

// decisions holds the rights of a limited credential, by the words that docs/jobs.md uses for them.
var decisions = map[string]string{
	"need no credentials":  "none",
	"are answered":         "any",
	"show and count only":  "lists",
	"403 if the path has":  "path",
	"403 if a document":    "body",
	"403, since they show": "all",
}

// documented returns the rights of the routes in the table in docs/jobs.md.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/jobs.md")
	check(t, err)
	rights := map[string]string{}
	for row := range strings.Lines(string(text)) {
		for words, right := range decisions {
			routes, _, ok := strings.Cut(row, " | "+words)
			if !ok {
				continue
			}
			for _, match := range regexp.MustCompile("`([A-Z]+) ([/…][^`]*)`").FindAllStringSubmatch(routes, -1) {
				rights[match[1]+" "+strings.Replace(match[2], "…", "/api/v1/namespaces/{namespace}/jobs/{name}", 1)] = right
			}
		}
	}
	return rights
}

// bodies holds the bodies of requests that change something; %s stands for the namespace.
var bodies = map[string]string{
	"POST /api/v1/validate":                                    `{"version": 1, "namespace": "%s", "jobs": [{"name": "new", "kind": "fake", "source": "new"}]}`,
	"POST /api/v1/runs":                                        `{"namespace": "%s", "kind": "fake", "source": "new"}`,
	"PATCH /api/v1/tenants/{namespace}":                        `{"shares": 7}`,
	"PATCH /api/v1/settings":                                   `{"max-churn": "7"}`,
	"PUT /api/v1/namespaces/{namespace}/jobs/{name}":           `{"namespace": "%s", "kind": "fake", "source": "changed"}`,
	"POST /api/v1/namespaces/{namespace}/jobs/{name}:validate": `{"namespace": "%s", "kind": "fake", "source": "changed"}`,
	"PUT /api/v1/namespaces/{namespace}/jobs/{name}/desired":   `"paused"`,
}

// TestRights sends the request of each route for the credential's own namespace and for another one. The
// table in docs/jobs.md says what the answers must be.
func TestRights(t *testing.T) {
	t.Parallel()
	s := openShared(t, "sqlite::memory:")
	hidden := func() string {
		return s.ask(t, "GET", "/api/v1/namespaces/hidden/jobs/hidden/events", "", asAll).Body.String()
	}
	before, rights := hidden(), documented(t)
	for _, route := range s.routes(t) {
		right, ok := rights[route]
		if !ok {
			t.Errorf("%s is not in the table of rights in docs/jobs.md: decide what limited credentials may do", route)
			continue
		}
		delete(rights, route)
		method, pattern, _ := strings.Cut(route, " ")
		// ask sends the request for a namespace, and returns the status.
		ask := func(namespace, as string) int {
			t.Helper()
			path := strings.NewReplacer("{namespace}", namespace, "{name}", map[string]string{"shop": "orders", "hidden": "hidden"}[namespace]).Replace(pattern)
			body := bodies[route]
			if strings.Contains(body, "%s") {
				body = fmt.Sprintf(body, namespace)
			}
			w := s.ask(t, method, path, body, as)
			if w.Code < 300 && as == asShop && strings.Contains(w.Body.String(), "hidden") {
				t.Errorf("%s reveals the hidden namespace: %s", route, w.Body)
			}
			return w.Code
		}
		own, others := ask("shop", asShop), ask("hidden", asShop)
		wantOwn, wantOthers := right != "all", right == "any" || right == "lists" || right == "none"
		if (own != 403) != wantOwn || (others != 403) != wantOthers || own == 401 || others == 401 {
			t.Errorf("%s: %d for its own namespace, %d for another one; the right is %q", route, own, others, right)
		}
		if got := ask("shop", "Authorization: none"); (got == 401) != (right != "none") {
			t.Errorf("%s: %d without credentials", route, got)
		}
		path := strings.ReplaceAll(pattern, "{namespace}", "shop")
		if right == "lists" || right == "all" {
			if got := s.ask(t, method, path, bodies[route], asAll); got.Code != 200 || right == "lists" && !strings.Contains(got.Body.String(), "hidden") {
				t.Errorf("%s without limits: %d %s", route, got.Code, got.Body)
			}
		}
	}
	if after := hidden(); after != before {
		t.Errorf("the events of the hidden job were\n%s\nand are\n%s", before, after)
	}
	for route := range rights {
		t.Errorf("docs/jobs.md lists %s, which does not exist", route)
	}
}

// routes returns all routes. Deleting a job comes last.
func (s *site) routes(t *testing.T) (routes []string) {
	t.Helper()
	paths, _ := s.want(t, 200, "GET", "/openapi.json", "", asAll)["paths"].(map[string]any)
	for path, operations := range paths {
		for method := range operations.(map[string]any) {
			routes = append(routes, strings.ToUpper(method)+" "+path)
		}
	}
	slices.SortFunc(routes, func(a, b string) int {
		return cmp.Or(strings.Count(a, "DELETE")-strings.Count(b, "DELETE"), strings.Compare(a, b))
	})
	return routes
}

// TestRightsOfVerbs: a limited credential can change the jobs of its own namespace, but not those of another.
func TestRightsOfVerbs(t *testing.T) {
	t.Parallel()
	const others, doc = "/api/v1/namespaces/hidden/jobs/", `{"kind": "fake", "source": "x"}`
	s := openShared(t, "sqlite::memory:")
	for _, r := range []struct{ method, path, body string }{
		{"PUT", others + "hidden", doc},
		{"PUT", others + "new", doc},
		{"PUT", others + "hidden/desired", `"paused"`},
		{"POST", others + "hidden/restart", ""},
		{"POST", others + "hidden/cancel", ""},
		{"DELETE", others + "hidden", ""},
		{"DELETE", others + "none", ""},
		{"GET", others + "none", ""},
		{"GET", others + "hidden/logs?follow=true", ""},
		{"GET", "/api/v1/namespaces/%68idden/jobs/hidden", ""},
		{"GET", "/_scheduler/jobs/hidden%2Fhidden", ""},
		{"GET", "/_scheduler/docs/hidden%2F_replicator", ""},
		{"GET", "/api/v1/jobs?namespace=hidden", ""},
		{"GET", "/api/v1/export?namespace=hidden", ""},
		{"POST", "/api/v1/runs", doc}, // in namespace default
		{"POST", "/api/v1/validate", `{"version": 1, "namespace": "shop", "jobs": [{"name": "a", "kind": "fake", "source": "a"}, {"name": "b", "namespace": "hidden", "kind": "none"}]}`},
	} {
		if got := s.want(t, 403, r.method, r.path, r.body, asShop); got["type"] != "urn:feedctl:problem:forbidden" {
			t.Errorf("%s %s: %v", r.method, r.path, got)
		}
	}
	if got := s.want(t, 200, "GET", "/api/v1/jobs", "", asAll); len(got["jobs"].([]any)) != 3 {
		t.Errorf("after refused requests: %v", got)
	}
	// The path names the job of a document.
	s.want(t, 422, "PUT", orders, `{"namespace": "hidden", "kind": "fake", "source": "x"}`, asShop)
	for _, r := range []struct {
		status             int
		method, path, body string
	}{
		{201, "PUT", "/api/v1/namespaces/shop/jobs/new", doc},
		{200, "POST", "/api/v1/namespaces/shop/jobs/new/cancel", ""},
		{200, "POST", "/api/v1/namespaces/shop/jobs/new/restart", ""},
		{200, "PUT", orders + "/desired", `"paused"`},
		{204, "DELETE", orders, ""},
		{202, "POST", "/api/v1/runs", `{"namespace": "shop", "kind": "fake", "source": "y"}`},
	} {
		s.want(t, r.status, r.method, r.path, r.body, asShop)
	}
}

// TestRightsDiffer: a credential may read two namespaces and write to one of them.
func TestRightsDiffer(t *testing.T) {
	t.Parallel()
	c := api.Config{ReadAuth: []api.Credential{limited("x", "shop", "bills")}, WriteAuth: []api.Credential{limited("x", "bills")}}
	s := open(t, "sqlite::memory:", c, fakeKind{})
	s.want(t, 404, "GET", orders, "", "Authorization: Bearer x")
	s.want(t, 403, "PUT", orders, ordersDoc, "Authorization: Bearer x")
	s.want(t, 201, "PUT", "/api/v1/namespaces/bills/jobs/a", ordersDoc, "Authorization: Bearer x")
	for _, again := range [][]api.Credential{{limited("y"), limited("y", "shop")}, {limited("y", "shop"), limited("y")}, {limited("y", "shop"), limited("y", "bills")}} {
		if _, err := api.New(s.Scheduler, api.Config{ReadAuth: again}); err == nil || !strings.Contains(err.Error(), "credential Bearer ... for reading is given twice") {
			t.Errorf("%v: %v", again, err)
		}
	}
}

// TestListsOfNamespaces: a credential for two of many namespaces lists and counts only the jobs in
// these.
func TestListsOfNamespaces(t *testing.T) {
	t.Parallel()
	eachDatabase(t, limitedConfig(), fakeKind{}, func(t *testing.T, s *site) {
		var documents []jobs.Document
		for _, namespace := range []string{"a", "bills", "mid", "shop", "z"} {
			for n := range 3 {
				documents = append(documents, jobs.Document{Namespace: namespace, Name: fmt.Sprint("job-", n), Kind: "fake", Source: fmt.Sprint(namespace, n), Follow: true})
			}
		}
		_, err := s.Apply(t.Context(), documents, jobs.ApplyOptions{})
		check(t, err)
		const asTwo = "Authorization: Bearer two"
		var ids []string
		for cursor := ""; ; {
			got := s.want(t, 200, "GET", "/api/v1/jobs?limit=2&cursor="+cursor, "", asTwo)
			for _, j := range got["jobs"].([]any) {
				ids = append(ids, fmt.Sprint(at(j, "document", "namespace"), "/", at(j, "document", "name")))
			}
			if got := jsonOf(t, got["totals"]); got != `{"pending":6}` {
				t.Errorf("totals %s", got)
			}
			next, more := got["next"].(string)
			if !more {
				break
			}
			cursor = next
		}
		if got := strings.Join(ids, " "); got != "bills/job-0 bills/job-1 bills/job-2 shop/job-0 shop/job-1 shop/job-2" {
			t.Errorf("jobs %s", got)
		}
		for path, want := range map[string]int{
			"/api/v1/jobs?cursor=mid/job-1": 3, "/api/v1/jobs?cursor=z/job-1": 0, "/api/v1/jobs?namespace=shop": 3, "/api/v1/jobs?name=job-1": 2,
			"/_scheduler/jobs?skip=5": 1, "/_scheduler/docs": 6, "/_scheduler/docs/shop/_replicator": 3, "/api/v1/export": 6, "/api/v1/tenants": 2,
		} {
			got := s.want(t, 200, "GET", path, "", asTwo)
			rows, _ := got["jobs"].([]any)
			for _, member := range []string{"docs", "tenants"} {
				if other, ok := got[member].([]any); ok {
					rows = other
				}
			}
			if len(rows) != want {
				t.Errorf("%s has %d, want %d: %v", path, len(rows), want, got)
			}
			if total, ok := got["total_rows"]; ok && total != 6.0 && !strings.Contains(path, "shop") {
				t.Errorf("%s counts %v", path, total)
			}
		}
	})
}

// TestOthersAreNotNamed: when jobs are in the way of each other, only clients that may see the other job
// are told its name.
func TestOthersAreNotNamed(t *testing.T) {
	t.Parallel()
	eachDatabase(t, limitedConfig(), fakeKind{}, func(t *testing.T, s *site) {
		const (
			doc    = `{"kind": "fake", "source": "%s", "target": "t"}`
			others = "/api/v1/namespaces/hidden/jobs/hidden"
			job    = "/api/v1/namespaces/shop/jobs/"
		)
		same := func(status int, want, method, path, body string) {
			t.Helper()
			for as, shown := range map[string]bool{asAll: true, asShop: false} {
				w := s.ask(t, method, path, body, as)
				if text := w.Body.String(); w.Code != status || strings.Contains(text, "hidden") != shown || strings.Contains(text, want) == shown {
					t.Errorf("%s %s as %s: %d %s", method, path, as, w.Code, text)
				}
			}
		}
		// Two jobs may have one target if one of them has ended.
		s.want(t, 201, "PUT", job+"old", fmt.Sprintf(doc, "old"), asShop)
		s.want(t, 200, "POST", job+"old/cancel", "", asShop)
		s.want(t, 201, "PUT", others, fmt.Sprintf(doc, "a"), asAll)
		same(http.StatusConflict, "it is in another namespace", "POST", job+"old/restart", "")
		same(http.StatusUnprocessableEntity, "a job of another namespace writes to the same target", "PUT", job+"new", fmt.Sprintf(doc, "b"))
		same(http.StatusUnprocessableEntity, "a job of another namespace does the same", "POST", job+"new:validate", fmt.Sprintf(doc, "a"))
		same(http.StatusUnprocessableEntity, "a job of another namespace writes to the same target", "POST", "/api/v1/validate",
			`{"version": 1, "jobs": [{"namespace": "shop", "name": "x", "kind": "fake", "source": "c", "target": "t"}]}`)
		same(http.StatusUnprocessableEntity, "a job of another namespace writes to the same target", "POST", "/api/v1/runs", `{"namespace": "shop", "kind": "fake", "source": "d", "target": "t"}`)
		// Other jobs wait for a job that runs once.
		s.want(t, 204, "DELETE", others, "", asAll)
		s.want(t, 202, "POST", "/api/v1/runs", `{"namespace": "hidden", "kind": "fake", "source": "e", "target": "t"}`, asAll)
		s.want(t, 201, "PUT", job+"waits", fmt.Sprintf(doc, "f"), asShop)
		_, err := s.Join(t.Context(), jobs.Node{Name: "node-1", Slots: 1})
		check(t, err)
		same(http.StatusOK, "waits for the end of a job of another namespace", "GET", job+"waits", "")
	})
}
