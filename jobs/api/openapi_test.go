package api_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/jobs/api"
)

// samples holds valid values of parameters.
var samples = map[string]string{
	"namespace": "shop", "state": "idle", "kind": "fake", "origin": "host", "name": "orders", "label": "a=b", "cursor": "a/b", "limit": "1",
	"skip": "0", "states": "running", "format": "yaml", "after": "0", "follow": "false",
}

// TestOpenAPI requests everything that the description lists, and compares the answers with the
// description.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite::memory:", api.Config{}, fakeKind{})
	s.fill(t)
	described := s.want(t, 200, "GET", "/openapi.json", "")
	paths, _ := described["paths"].(map[string]any)
	if len(paths) < 20 {
		t.Fatalf("%d paths", len(paths))
	}
	for pattern, resource := range paths {
		path := strings.NewReplacer("{namespace}", "shop", "{name}", "orders").Replace(pattern)
		for method, operation := range resource.(map[string]any) {
			known := []string{}
			parameters, _ := at(operation, "parameters").([]any)
			for _, p := range parameters {
				if at(p, "in") != "query" {
					continue
				}
				name := fmt.Sprint(at(p, "name"))
				known = append(known, name)
				_, err := strconv.Atoi(samples[name])
				if got := at(p, "schema", "type"); (got == "integer") != (err == nil) {
					t.Errorf("%s: %s is described as %v", path, name, got)
				}
			}
			for name, value := range samples {
				if !slices.Contains(known, name) {
					s.want(t, 400, strings.ToUpper(method), path+"?"+name+"="+value, "")
				}
			}
			if method == "delete" {
				continue
			}
			if method != "get" { // the tests of access and jobs cover the other methods
				if got := s.ask(t, strings.ToUpper(method), path, "{").Code; got == 404 && !strings.HasSuffix(path, "orders") || got == 405 || got == 501 {
					t.Errorf("%s %s: %d", method, path, got)
				}
				continue
			}
			for _, name := range known {
				if got := s.ask(t, "GET", path+"?"+name+"="+samples[name], ""); got.Code != 200 {
					t.Errorf("%s with %s: %d %s", path, name, got.Code, got.Body)
				}
			}
			w := s.ask(t, "GET", path, "")
			schema := at(operation, "responses", "200", "content", "application/json", "schema")
			if w.Code != 200 || schema == nil != strings.HasPrefix(w.Header().Get("Content-Type"), "text/") {
				t.Errorf("%s: %d %v, described as %v", path, w.Code, w.Header(), schema)
			} else if schema != nil {
				matches(t, path, decode[any](t, w), schema, described)
			}
		}
	}
}

// TestCreatedIsDescribed: the description lists the status for a job that is created, but not as a problem.
func TestCreatedIsDescribed(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite::memory:", api.Config{}, fakeKind{})
	described := s.want(t, 200, "GET", "/openapi.json", "")
	put := at(described, "paths", "/api/v1/namespaces/{namespace}/jobs/{name}", "put", "responses")
	for _, status := range []int{201, 200} {
		got := s.want(t, status, "PUT", orders, ordersDoc)
		matches(t, orders, any(got), at(put, strconv.Itoa(status), "content", "application/json", "schema"), described)
		if at(put, strconv.Itoa(status)) == nil {
			t.Errorf("%d is not described", status)
		}
	}
}

// matches compares a value with a schema.
func matches(t *testing.T, what string, v, schema, described any) {
	t.Helper()
	if ref, ok := at(schema, "$ref").(string); ok {
		schema = at(described, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	want, _ := at(schema, "type").(string)
	if want == "" || v == nil {
		return
	}
	if want == "integer" {
		want = "number"
	}
	if got := typeOf(v); got != want {
		t.Errorf("%s is %v, described as %s", what, v, want)
	}
	if all, ok := v.([]any); ok {
		for _, one := range all {
			matches(t, what+"[]", one, at(schema, "items"), described)
		}
	}
	object, _ := v.(map[string]any)
	properties, _ := at(schema, "properties").(map[string]any)
	for name, value := range object {
		switch inner, ok := properties[name]; {
		case ok:
			matches(t, what+"."+name, value, inner, described)
		case at(schema, "additionalProperties") == nil:
			t.Errorf("%s has %q, which is not described", what, name)
		}
	}
	required, _ := at(schema, "required").([]any)
	for _, name := range required {
		if _, ok := object[fmt.Sprint(name)]; !ok {
			t.Errorf("%s has no %q", what, name)
		}
	}
}
