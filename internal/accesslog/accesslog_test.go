package accesslog

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestAccessLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access.log")
	handler, closeLog, err := Open(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			defer panic(http.ErrAbortHandler)
		case "/none":
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.Copy(w, strings.NewReader("hello"))
	}), io.Discard, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/feeds/f?X-Signature=secret", "/none", "/a%0Ab", "/cut"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.SetBasicAuth("me", "secret")
		r.Header.Set("Referer", "https://me:secret@example.org/page?token=secret")
		r.Header.Set("User-Agent", "evil\"\x1b[2J\n")
		func() {
			defer func() { _ = recover() }()
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}()
	}
	if err := closeLog(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const rest = ` 5 "https://example.org/page" "evil\"\x1b[2J\n"` + "\n"
	want := `192.0.2.1 - - [T] "GET /feeds/f HTTP/1.1" 200` + rest + `192.0.2.1 - - [T] "GET /none HTTP/1.1" 404` + rest +
		`192.0.2.1 - - [T] "GET /a%0Ab HTTP/1.1" 200` + rest + `192.0.2.1 - - [T] "GET /cut HTTP/1.1" 200` + rest
	at := regexp.MustCompile(`\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]`)
	if got := at.ReplaceAllString(string(log), "[T]"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestAccessLogFails: a full disk is reported once, and does not stop the server.
func TestAccessLogFails(t *testing.T) {
	r, w := io.Pipe()
	_ = r.Close()
	var log bytes.Buffer
	handler := &accessLog{w: w, log: slog.New(slog.NewTextHandler(&log, nil)), handler: http.NotFoundHandler()}
	for range 3 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	if n := strings.Count(log.String(), "cannot write the access log"); n != 1 {
		t.Errorf("%d lines in the log: %s", n, log.String())
	}
}
