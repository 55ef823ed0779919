package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/pgtest"
)

// TestStoreStarts runs consume with and without --follow while the server of the store is
// stopped. Both read the feed once it has started.
func TestStoreStarts(t *testing.T) {
	server := pgtest.StartOwn(t)
	store := server.URL("a")
	mustRun(t, zones, "publish", store+"#zones", "--key", "/name")
	server.Stop()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	logs, logged := io.Pipe()
	for _, args := range [][]string{{"inspect", store + "#zones"}, {"tail", store + "#zones", "--from", "beginning", "--limit", "3"}} {
		var out bytes.Buffer
		done := make(chan int)
		go func() { done <- run(t.Context(), args, app.Streams{In: strings.NewReader(""), Out: &out, Err: logged}) }()
		line := make([]byte, 4096)
		n, err := logs.Read(line)
		if err != nil || !strings.Contains(string(line[:n]), "server is unavailable, retrying") {
			t.Fatalf("%s: %q, %v", args[0], line[:n], err)
		}
		go io.Copy(io.Discard, logs)
		server.Start()
		if code := <-done; code != exit.OK || !strings.Contains(out.String(), "UTC") && !strings.Contains(out.String(), "3 entities") {
			t.Errorf("%s: exit status %d: %s", args[0], code, &out)
		}
		server.Stop()
		logs, logged = io.Pipe()
	}
}
