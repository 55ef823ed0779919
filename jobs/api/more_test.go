package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/api"
)

// TestRuns adds a job that runs once, cancels it, and makes it run again.
func TestRuns(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		const body = `{"kind": "fake", "source": "once"}`
		w := s.ask(t, "POST", "/api/v1/runs", body)
		at1 := w.Header().Get("Location")
		if w.Code != 202 || !strings.HasPrefix(at1, "/api/v1/namespaces/default/jobs/run-") {
			t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		if again := s.ask(t, "POST", "/api/v1/runs", body); again.Code != 202 || again.Header().Get("Location") != at1 {
			t.Errorf("again: %d %v", again.Code, again.Header())
		}
		if got := s.want(t, 200, "POST", at1+"/cancel", ""); got["state"] != "failed" || got["reason"] != "cancelled" {
			t.Errorf("cancelled: %v", got)
		}
		if got := s.want(t, 202, "POST", "/api/v1/runs", body); got["state"] != "pending" || got["transient"] != true {
			t.Errorf("after its end: %v", got)
		}
		s.want(t, 422, "POST", "/api/v1/runs", `{"kind": "fake", "source": "a", "follow": true}`)
		s.want(t, 422, "POST", "/api/v1/runs", `{"kind": "none"}`)
		s.want(t, 400, "POST", "/api/v1/runs?dryRun=true", `{"kind": "fake", "source": "twice"}`)
		if got := s.want(t, 200, "GET", "/api/v1/jobs", ""); len(got["jobs"].([]any)) != 1 {
			t.Errorf("after a request with an unknown parameter: %v", got)
		}
		s.want(t, 201, "PUT", orders, ordersDoc)
		if got := s.want(t, 409, "POST", orders+"/cancel", ""); got["type"] != "urn:feedctl:problem:follows" {
			t.Errorf("cancel of a job that follows: %v", got)
		}
		if got := s.want(t, 200, "GET", orders, ""); got["why"] != "no node is alive" || got["events"] == nil {
			t.Errorf("got %v", got)
		}
	})
}

// TestOverviews reads the lists that are not about a single job, and changes settings.
func TestOverviews(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		for path, want := range map[string]string{"nodes": `{"nodes":[]}`, "origins": `{"origins":[]}`, "tenants": `{"tenants":[]}`} {
			if got := jsonOf(t, s.want(t, 200, "GET", "/api/v1/"+path, "")); got != want {
				t.Errorf("%s: %s", path, got)
			}
		}
		s.fill(t)
		if got := s.want(t, 200, "GET", "/api/v1/nodes", ""); at(got["nodes"].([]any)[0], "name") != "node-1" {
			t.Errorf("nodes: %v", got)
		}
		got := s.want(t, 200, "PATCH", "/api/v1/tenants/shop", `{"shares": 250, "maxRunning": 3}`)
		if shop := got["tenants"].([]any)[1]; at(shop, "namespace") != "shop" || at(shop, "shares") != 250.0 || at(shop, "maxRunning") != 3.0 {
			t.Errorf("tenants: %v", got)
		}
		for body, status := range map[string]int{`{"shares": 0}`: 422, `{"maxRunning": -1}`: 422, `{"share": 1}`: 400, `[]`: 400, `{} {}`: 400, ``: 400, " \n": 400, `{"shares": 7, "maxRunning": -1}`: 422} {
			s.want(t, status, "PATCH", "/api/v1/tenants/shop", body)
		}
		got = s.want(t, 200, "GET", "/api/v1/tenants", "")
		if shop := got["tenants"].([]any)[1]; at(shop, "shares") != 250.0 || at(shop, "maxRunning") != 3.0 {
			t.Errorf("after refused changes: %v", got)
		}
		s.want(t, 422, "PATCH", "/api/v1/tenants/Shop!", `{"shares": 1}`)
		value := func(got map[string]any, name string) any {
			all, _ := got["settings"].([]any)
			n := slices.IndexFunc(all, func(v any) bool { return at(v, "name") == name })
			if n < 0 {
				t.Fatalf("there is no setting %s in %v", name, got)
			}
			return at(all[n], "value")
		}
		if got := s.want(t, 200, "PATCH", "/api/v1/settings", `{"max-churn": "7"}`); value(got, "max-churn") != "7" {
			t.Errorf("set: %v", got)
		}
		s.want(t, 422, "PATCH", "/api/v1/settings", `{"max-churn": "8", "colour": "red"}`)
		if got := s.want(t, 200, "GET", "/api/v1/settings", ""); value(got, "max-churn") != "7" {
			t.Errorf("got: %v", got)
		}
		if got := s.want(t, 200, "PATCH", "/api/v1/settings", `{"max-churn": ""}`); value(got, "max-churn") != "100" {
			t.Errorf("reset: %v", got)
		}
	})
}

// TestExport: what is exported is what was applied.
func TestExport(t *testing.T) {
	t.Parallel()
	eachDatabase(t, api.Config{}, fakeKind{}, func(t *testing.T, s *site) {
		s.fill(t)
		exported := s.ask(t, "GET", "/api/v1/export?namespace=shop", "")
		got := jsonOf(t, s.want(t, 200, "POST", "/api/v1/validate", exported.Body.String()))
		if strings.Count(got, `"unchanged"`) != 6 || strings.Count(got, `"action"`) != 6 {
			t.Errorf("exported %s\nvalidated %s", exported.Body, got)
		}
		yaml := s.ask(t, "GET", "/api/v1/export?format=yaml&state=paused", "")
		if text := yaml.Body.String(); yaml.Header().Get("Content-Type") != "application/yaml" || strings.Count(text, "name:") != 1 || !strings.Contains(text, "paused: true") {
			t.Errorf("%v\n%s", yaml.Header(), yaml.Body)
		}
		s.want(t, 400, "GET", "/api/v1/export?format=xml", "")
		s.want(t, 400, "GET", "/api/v1/export?limit=1", "")
	})
}

// TestLogs reads what a run logs, after its end and as it is logged.
func TestLogs(t *testing.T) {
	t.Parallel()
	logged := make(chan string)
	kind := fakeKind{run: func(ctx context.Context, s *jobs.Session) error {
		for {
			select {
			case text := <-logged:
				if text == "" {
					return nil
				}
				s.Logger.Warn("something is odd", "what", text)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}}
	eachDatabase(t, api.Config{}, kind, func(t *testing.T, s *site) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Work(ctx, jobs.WorkerConfig{Name: "node-1", Slots: 1}) }()
		defer func() {
			stop()
			check(t, <-ended)
		}()
		s.want(t, 404, "GET", orders+"/logs?follow=true", "")
		s.want(t, 400, "GET", orders+"/logs?follow=1", "")
		s.want(t, 201, "PUT", orders, `{"kind": "fake", "source": "a"}`)
		web := httptest.NewServer(s.handler)
		t.Cleanup(web.Close)
		request, err := http.NewRequestWithContext(t.Context(), "GET", web.URL+orders+"/logs?follow=true", nil)
		check(t, err)
		response, err := http.DefaultClient.Do(request)
		check(t, err)
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		next := func() (l jobs.LogLine) {
			t.Helper()
			for lines.Scan() {
				if lines.Text() != "" {
					check(t, json.Unmarshal(lines.Bytes(), &l))
					return l
				}
			}
			t.Fatalf("the log has ended: %v", lines.Err())
			return l
		}
		for n := range 3 {
			logged <- fmt.Sprint("line ", n)
		}
		logged <- "" // the run ends
		for n := range 3 {
			if l := next(); l.Attrs["what"] != fmt.Sprint("line ", n) || l.Node != "node-1" || l.Run == 0 {
				t.Errorf("got %+v", l)
			}
		}
		if got := s.want(t, 200, "GET", orders+"/logs?after=1", ""); len(got["lines"].([]any)) != 2 || at(got["lines"].([]any)[0], "attrs", "what") != "line 1" {
			t.Errorf("got %v", got)
		}
		s.want(t, 204, "DELETE", orders, "")
		for lines.Scan() {
			if lines.Text() != "" {
				t.Errorf("after the end: %s", lines.Text())
			}
		}
		check(t, lines.Err())
	})
}

// TestFollowers: the number of clients that can follow logs at the same time is limited.
func TestFollowers(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite::memory:", api.Config{}, fakeKind{})
	s.want(t, 201, "PUT", orders, ordersDoc)
	web := httptest.NewServer(s.handler)
	t.Cleanup(web.Close)
	follow := func() *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), "GET", web.URL+orders+"/logs?follow=true", nil)
		check(t, err)
		response, err := http.DefaultClient.Do(request)
		check(t, err)
		return response
	}
	var last *http.Response
	for n := range 100 {
		last = follow()
		defer last.Body.Close()
		if last.StatusCode != 200 {
			t.Fatalf("client %d: %s", n, last.Status)
		}
	}
	refused := follow()
	check(t, refused.Body.Close())
	if refused.StatusCode != 503 || refused.Header.Get("Retry-After") == "" {
		t.Fatalf("one client too many: %s %v", refused.Status, refused.Header)
	}
	s.want(t, 200, "GET", orders+"/logs", "") // a request that does not follow
	check(t, last.Body.Close())
	for refused.StatusCode == 503 { // until the server has noticed that a client has left
		refused = follow()
		check(t, refused.Body.Close())
	}
	if refused.StatusCode != 200 {
		t.Errorf("after one has left: %s", refused.Status)
	}
}
