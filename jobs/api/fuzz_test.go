package api_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/jobs/api"
)

// FuzzPut sends bodies. Each is either refused with all of its problems, or stored. If a job is stored, the document
// that GET returns for it can be sent back, and changes nothing.
func FuzzPut(f *testing.F) {
	for _, seed := range []string{
		ordersDoc, `{}`, `[]`, ``, `{"kind": "fake", "source": "a", "after": ["orders"]}`, `{"kind": "fake", "source": "\u0000"}`,
		`{"kind": "fake", "source": "a", "schedule": "1 2 3 4 5", "labels": {"a": "b"}, "backoff": {"min": "1s", "max": "2s"}, "placement": {"labels": ["x"]}}`,
		`{"kind": "fake", "source": "a", "options": {"a": ["b", 1, true, null]}, "credentials": {"source": "env:A"}, "paused": true, "colour": 1}`,
		`{"kind": "fake", "kind": "fake", "source": 1e400}`, "{\"kind\": \"fake\", \"source\": \"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	s := open(f, "sqlite::memory:", api.Config{}, fakeKind{})
	f.Fuzz(func(t *testing.T, body []byte) {
		put := func(text string) *httptest.ResponseRecorder { return s.ask(t, "PUT", orders, text) }
		w := put(string(body))
		if w.Code != 201 {
			if w.Code < 400 || w.Code >= 500 || !json.Valid(w.Body.Bytes()) || s.log.Len() > 0 {
				t.Errorf("%d %s, logged %s", w.Code, w.Body, s.log)
			}
			s.want(t, 404, "GET", orders, "")
			return
		}
		document := jsonOf(t, s.want(t, 200, "GET", orders, "")["document"])
		if again := put(document); again.Code != 200 || !strings.Contains(again.Body.String(), `"generation":1,`) {
			t.Errorf("%s sent back: %d %v %s", document, again.Code, again.Header(), again.Body)
		}
		defer s.want(t, 204, "DELETE", orders, "")
		if exported := s.ask(t, "GET", "/api/v1/export?format=yaml", ""); exported.Code != 200 || !strings.Contains(exported.Body.String(), "name:") {
			t.Errorf("exported: %d %s", exported.Code, exported.Body)
		}
	})
}
