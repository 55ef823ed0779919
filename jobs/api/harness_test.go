package api_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/api"
)

// fakeKind is a kind of job that pretends to copy its source to its target.
type fakeKind struct {
	run func(context.Context, *jobs.Session) error
}

func (fakeKind) Check(d *jobs.Document) []jobs.Problem {
	if d.Source == "" {
		return []jobs.Problem{{Field: "source", Message: "there is no source"}}
	}
	return nil
}

func (fakeKind) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.Source + " " + d.Target, Target: d.Target}
}

func (k fakeKind) Run(ctx context.Context, s *jobs.Session) error {
	if k.run == nil {
		return nil
	}
	return k.run(ctx, s)
}

// A site is an API on a database of its own.
type site struct {
	*jobs.Scheduler
	handler *api.API
	log     *strings.Builder
}

// eachDatabase runs a test on each kind of database.
func eachDatabase(t *testing.T, c api.Config, kind fakeKind, test func(t *testing.T, s *site)) {
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(t).URL("jobs"),
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t, url, c, kind)) })
	}
}

func open(t testing.TB, url string, c api.Config, kind fakeKind) *site {
	t.Helper()
	s := &site{log: new(strings.Builder)}
	var err error
	s.Scheduler, err = jobs.Open(t.Context(), url, jobs.Kinds{"fake": kind}, jobs.Defaults())
	check(t, err)
	t.Cleanup(func() { check(t, s.Scheduler.Close()) })
	c.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	s.handler, err = api.New(s.Scheduler, c)
	check(t, err)
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask sends a request with the given header fields.
func (s *site) ask(t testing.TB, method, path, body string, fields ...string) *httptest.ResponseRecorder {
	t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, in)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// want sends a request, checks the status of the answer, and returns the decoded body.
func (s *site) want(t testing.TB, status int, method, path, body string, fields ...string) map[string]any {
	t.Helper()
	w := s.ask(t, method, path, body, fields...)
	if w.Code != status {
		t.Fatalf("%s %s %s: %d, want %d\n%s", method, path, body, w.Code, status, w.Body)
	}
	var got map[string]any
	if w.Body.Len() > 0 && strings.Contains(w.Header().Get("Content-Type"), "json") {
		check(t, json.Unmarshal(w.Body.Bytes(), &got))
	}
	if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s %s: an error has Content-Type %q", method, path, w.Header().Get("Content-Type"))
	}
	if w.Code < 400 && w.Code != http.StatusNoContent && w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s %s: Cache-Control %q", method, path, w.Header().Get("Cache-Control"))
	}
	return got
}

// at returns the value at a path in nested JSON objects.
func at(v any, path ...string) any {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	check(t, err)
	return string(text)
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	check(t, json.Unmarshal(w.Body.Bytes(), &v))
	return v
}
