package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
)

// TestPublishInterrupted: after a signal, a failed request is not retried, whatever --retries says.
func TestPublishInterrupted(t *testing.T) {
	ctx, signal := context.WithCancelCause(t.Context())
	tries := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		tries++
		signal(exit.ErrInterrupted)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer web.Close()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"publish", "a", "--to", web.URL, "--retries", "-1"}, app.Streams{In: strings.NewReader("1\n"), Out: &stdout, Err: &stderr})
	want := "feedctl: interrupted: publish standard input to a: after 0 entities: post " + web.URL + "/feeds/a: status 503"
	if code != exit.Interrupted || tries != 1 || !strings.HasPrefix(stderr.String(), want) {
		t.Errorf("exit status %d after %d tries: %s", code, tries, &stderr)
	}
}
