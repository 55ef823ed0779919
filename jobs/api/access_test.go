package api_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/feedctl/feedctl/jobs/api"
	"github.com/feedctl/feedctl/server"
)

// TestAccess requests each kind of resource with each kind of credential.
func TestAccess(t *testing.T) {
	t.Parallel()
	reader, writer := api.Credential{Credential: server.Credential{Bearer: "r"}}, api.Credential{Credential: server.Credential{Bearer: "w"}}
	s := open(t, "sqlite::memory:", api.Config{ReadAuth: []api.Credential{reader}, WriteAuth: []api.Credential{writer}}, fakeKind{})
	for _, r := range []struct {
		method, path, body       string
		none, asReader, asWriter int
	}{
		{"GET", orders, "", 401, 404, 403},
		{"GET", "/api/v1/jobs", "", 401, 200, 403},
		{"GET", "/api/v1/none", "", 404, 404, 404},
		{"POST", orders + ":validate", ordersDoc, 401, 200, 403},
		{"PUT", orders, ordersDoc, 401, 403, 201},
		{"PUT", orders + "/desired", `"paused"`, 401, 403, 200},
		{"POST", orders + "/restart", "", 401, 403, 200},
		{"DELETE", orders, "", 401, 403, 204},
		{"POST", "/api/v1/runs", `{"kind": "fake", "source": "b"}`, 401, 403, 202},
		{"PATCH", "/api/v1/tenants/shop", `{"shares": 7}`, 401, 403, 200},
		{"PATCH", "/api/v1/settings", `{}`, 401, 403, 200},
		{"POST", orders + "/cancel", "", 401, 403, 404},
		{"GET", orders + "/logs", "", 401, 404, 403},
		{"GET", "/api/v1/settings", "", 401, 200, 403},
		{"GET", "/_scheduler/docs", "", 401, 200, 403},
		{"GET", "/_active_tasks", "", 401, 200, 403},
		{"GET", "/openapi.json", "", 401, 200, 403},
		{"GET", "/healthz", "", 200, 200, 200},
		{"GET", "/readyz", "", 200, 200, 200},
	} {
		for authorization, want := range map[string]int{"": r.none, "Bearer r": r.asReader, "Bearer w": r.asWriter, "Bearer x": r.none} {
			w := s.ask(t, r.method, r.path, r.body, "Authorization: "+authorization)
			if w.Code != want {
				t.Errorf("%s %s as %q: %d, want %d", r.method, r.path, authorization, w.Code, want)
			}
			if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("%s %s as %q: %v", r.method, r.path, authorization, w.Header())
			}
		}
		if r.asWriter != 403 && r.method != "GET" {
			if w := s.ask(t, r.method, r.path, r.body, "Authorization: Bearer w", "Origin: https://evil.example"); w.Code != 403 {
				t.Errorf("%s %s from another origin: %d", r.method, r.path, w.Code)
			}
		}
	}
}

func TestExposure(t *testing.T) {
	t.Parallel()
	one := []api.Credential{{Credential: server.Credential{Bearer: "x"}}}
	for _, tt := range []struct {
		addr string
		c    api.Config
		open bool
	}{
		{"localhost:1", api.Config{}, false},
		{"127.0.0.1:1", api.Config{}, false},
		{":1", api.Config{}, true},
		{"192.0.2.1:1", api.Config{ReadAuth: one}, true},
		{"192.0.2.1:1", api.Config{WriteAuth: one}, true},
		{"192.0.2.1:1", api.Config{ReadAuth: one, WriteAuth: one}, false},
	} {
		if err := api.CheckExposure(tt.addr, tt.c); errors.Is(err, api.ErrExposed) != tt.open {
			t.Errorf("%s, %d readers, %d writers: %v", tt.addr, len(tt.c.ReadAuth), len(tt.c.WriteAuth), err)
		}
	}
}

// TestMetricsExposure tries addresses to serve metrics at, and requests for the metrics.
func TestMetricsExposure(t *testing.T) {
	t.Parallel()
	one := []api.Credential{{Credential: server.Credential{Bearer: "x"}}}
	for _, tt := range []struct {
		addr string
		c    api.Config
		open bool
	}{
		{"localhost:1", api.Config{}, false},
		{":1", api.Config{}, true},
		{"192.0.2.1:1", api.Config{WriteAuth: one}, true},
		{"192.0.2.1:1", api.Config{ReadAuth: one}, false},
	} {
		if err := api.CheckMetrics(tt.addr, tt.c); errors.Is(err, api.ErrExposed) != tt.open {
			t.Errorf("%s, %d readers, %d writers: %v", tt.addr, len(tt.c.ReadAuth), len(tt.c.WriteAuth), err)
		}
	}
	h, err := api.Guard(http.NotFoundHandler(), api.Config{ReadAuth: append(one, limited("shop", "shop"))})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, token string
		want          int
	}{{"GET", "", 401}, {"GET", "y", 401}, {"GET", "x", 404}, {"GET", "shop", 403}, {"POST", "x", 405}} {
		r := httptest.NewRequestWithContext(t.Context(), tt.method, "/metrics", nil)
		r.Header.Set("Authorization", "Bearer "+tt.token)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%s with the token %q has status %d, want %d", tt.method, tt.token, w.Code, tt.want)
		}
	}
}
