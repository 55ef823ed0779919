package main

import (
	"context"
	"io"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/stores"
)

// A watched is a stream that reports when a string was written to it.
type watched struct {
	io.Writer
	text string
	seen chan<- struct{}
	last string
}

func (w *watched) Write(p []byte) (int, error) {
	if w.last += string(p); w.seen != nil && strings.Contains(w.last, w.text) {
		close(w.seen)
		w.seen = nil
	}
	return len(p), nil
}

// TestFollowMissing follows feeds that do not exist, until SIGTERM. A message says so, and
// suggests a name.
func TestFollowMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	store := "file:" + dir + "/store"
	mustRun(t, zones, "publish", store+"#zones", "--key", "/name")
	mustRun(t, zones, "publish", store+"#events", "--key", "/name")
	web := serveStore(t, store)
	for _, line := range []string{
		"tail zonse --store " + store,
		"tail " + web + "/feeds/zonse",
		"consume " + store + "#zonse --follow --into jsonl:" + filepath.Join(dir, "a.jsonl"),
		"consume " + web + "/feeds/zonse --follow --into jsonl:" + filepath.Join(dir, "b.jsonl") + " --json",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		seen, ended := make(chan struct{}), make(chan int, 1)
		stderr := &watched{text: "waiting for feed \"zonse\", which does not exist yet; did you mean \"zones\"?\n", seen: seen}
		go func() {
			ended <- run(ctx, strings.Fields(line), app.Streams{In: strings.NewReader(""), Out: io.Discard, Err: stderr, Terminal: true})
		}()
		select {
		case <-seen:
		case code := <-ended:
			t.Fatalf("feedctl %s: exit status %d: %s", line, code, stderr.last)
		}
		cancel(exit.ErrTerminated)
		if code := <-ended; code != exit.OK {
			t.Errorf("feedctl %s: exit status %d: %s", line, code, stderr.last)
		}
	}
}

func serveStore(t *testing.T, url string) string {
	t.Helper()
	store, err := stores.Open(t.Context(), url, stores.Options{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := server.New(store, server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		_ = handler.Close(context.WithoutCancel(t.Context()))
		web.Close()
		_ = store.Close()
	})
	return web.URL
}
