package problem

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestSend(t *testing.T) {
	t.Parallel()
	p := New(http.StatusServiceUnavailable, "away", "the store %q is away", "s")
	p.Members = map[string]any{"published": 3}
	p.Cause = errors.New("secret cause")
	w := httptest.NewRecorder()
	p.Send(w, httptest.NewRequest(http.MethodGet, "/", nil))
	const want = `{"type":"urn:feedctl:problem:away","title":"Service Unavailable","status":503,"detail":"the store \"s\" is away","published":3}` + "\n"
	if w.Code != 503 || w.Body.String() != want || w.Header().Get("Retry-After") != "1" || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v\n%s\nwant\n%s", w.Code, w.Header(), w.Body, want)
	}
	w = httptest.NewRecorder()
	New(http.StatusNotFound, "none", "").Send(w, httptest.NewRequest(http.MethodHead, "/", nil))
	if w.Body.Len() > 0 || w.Header().Get("Content-Length") != "69" {
		t.Errorf("HEAD: %v %q", w.Header(), w.Body)
	}
}
