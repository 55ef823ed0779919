package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The first Ctrl-C makes publish finish its batch and report its progress, even while it
// waits for input.
func TestInterruptPublish(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	written := make(chan struct{})
	block := make(chan struct{})
	p := &process{t: t, name: "publish",
		args: []string{"publish", "events", "--key", "/id", "--store", "file:" + dir, "--resume", state, "--log-level", "error"},
		input: func(w io.Writer) error {
			for i := range 100 {
				fmt.Fprintf(w, `{"id":%d}`+"\n", i)
			}
			close(written)
			<-block
			return nil
		},
	}
	p.start()
	defer close(block)
	<-written
	published := func() int {
		var s struct{ Published int }
		text, _ := os.ReadFile(state)
		_ = json.Unmarshal(text, &s)
		return s.Published
	}
	waitFor(t, p.stderr.String, func() bool { return published() == 100 })
	p.kill(syscall.SIGINT)
	if code := p.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit status %d", code)
	}
	want := "feedctl: interrupted: publish standard input to events: after 100 entities\n"
	if got := p.stderr.String(); got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
}

// A server shuts down gracefully, with status 0.
func TestInterruptServe(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		dir := t.TempDir()
		ready := filepath.Join(dir, "url")
		feedctl(t, "init", "file:"+dir+"/store")
		p := &process{t: t, name: "serve", args: []string{"serve", "--listen", "127.0.0.1:0", "--ready-file", ready, "--store", "file:" + dir + "/store"}}
		p.start()
		waitFor(t, p.stderr.String, func() bool { _, err := os.Stat(ready); return err == nil })
		p.kill(signal)
		if code := p.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(p.stderr.String(), "shutting down") {
			t.Errorf("exit status %d after %v: %s", code, signal, p.stderr)
		}
	}
}
