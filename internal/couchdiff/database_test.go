package couchdiff

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestNoResponse: a request without a response is sent again.
func TestNoResponse(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) < attempts {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "answer")
	}))
	defer server.Close()
	db := database{server.URL, &http.Client{Timeout: time.Second}}
	body, err := db.get(t.Context(), "/a", "*/*")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if text, err := io.ReadAll(body); err != nil || string(text) != "answer" {
		t.Errorf("%q, %v", text, err)
	}
}
