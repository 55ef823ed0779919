package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestInterruptOpening: a node that receives SIGTERM while it opens its database ends with status 0, as it does at any
// later time.
func TestInterruptOpening(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(file, []byte("version: 1\njobs: []\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"worker"}, {"standalone", "-f", file}} {
		p := &process{t: t, name: args[0], args: append([]string{"jobs", "--db", "postgres://postgres@" + silent.Addr().String() + "/jobs?sslmode=disable"}, args...)}
		p.start()
		conn, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		p.kill(syscall.SIGTERM)
		conn.Close()
		if !p.cmd.ProcessState.Success() {
			t.Errorf("%s ended with %v: %s", p.name, p.cmd.ProcessState, p.stderr)
		}
	}
}

// TestInterruptPublish: the first Ctrl-C makes publish finish its batch and report its progress, even while it
// waits for input.
func TestInterruptPublish(t *testing.T) {
	t.Parallel()
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

// TestInterruptServe: a server shuts down gracefully, with status 0.
func TestInterruptServe(t *testing.T) {
	t.Parallel()
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

// TestInterruptJobs: a node stops on SIGTERM with status 0, and at once if Ctrl-C is pressed twice. When it is started
// again, it continues where it stopped.
func TestInterruptJobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := "file:" + filepath.Join(dir, "store")
	out, file := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "jobs.yaml")
	text := fmt.Sprintf("version: 1\njobs:\n  - {name: a, kind: consume, source: %q, target: %q, follow: true}\n", store+"#a", "jsonl:"+out)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	received := func() int {
		text, _ := os.ReadFile(out) // the file may not exist yet
		return strings.Count(string(text), "\n")
	}
	p := &process{t: t, name: "standalone", args: []string{"jobs", "standalone", "-f", file, "--db", "sqlite:" + filepath.Join(dir, "jobs.db")}}
	for n, test := range []struct {
		signals []syscall.Signal
		status  map[int]bool
	}{
		{[]syscall.Signal{syscall.SIGTERM}, map[int]bool{0: true}},
		{[]syscall.Signal{syscall.SIGINT}, map[int]bool{130: true}},
		{[]syscall.Signal{syscall.SIGINT, syscall.SIGINT}, map[int]bool{130: true, -1: true}}, // -1: by the signal
		{[]syscall.Signal{syscall.SIGKILL}, map[int]bool{-1: true}},
		{[]syscall.Signal{syscall.SIGTERM}, map[int]bool{0: true}},
	} {
		input := &process{t: t, name: "publish", args: []string{"publish", "a", "--key", "/id", "--store", store}, input: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "{\"id\":%d}\n", n)
			return err
		}}
		input.start()
		<-input.exited
		p.start()
		waitFor(t, p.stderr.String, func() bool { return received() > n })
		for _, signal := range test.signals[1:] {
			_ = p.cmd.Process.Signal(signal) // the process may have ended already
		}
		p.kill(test.signals[0])
		if code := p.cmd.ProcessState.ExitCode(); !test.status[code] || received() != n+1 {
			t.Errorf("exit status %d after %v, %d lines, want %d: %s", code, test.signals, received(), n+1, p.stderr)
		}
	}
}
