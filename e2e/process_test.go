package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// A process is a feedctl command that can be killed and restarted.
type process struct {
	t      *testing.T
	name   string
	binary string // empty: the tested feedctl
	args   []string
	input  func(w io.Writer) error // writes standard input; nil: none

	cmd    *exec.Cmd
	stderr *output
	exited chan struct{} // closed when the command has ended
	err    error         // its error, once exited is closed
}

func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(cmp.Or(p.binary, binary), p.args...)
	p.stderr = &output{}
	p.cmd.Stdout, p.cmd.Stderr = p.stderr, p.stderr
	p.exited = make(chan struct{})
	var stdin io.WriteCloser
	if p.input != nil {
		var err error
		if stdin, err = p.cmd.StdinPipe(); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	if stdin != nil {
		go func() {
			// The pipe breaks when the process is killed, as intended.
			_ = p.input(stdin)
			_ = stdin.Close()
		}()
	}
	go func(cmd *exec.Cmd, exited chan struct{}) {
		p.err = cmd.Wait()
		close(exited)
	}(p.cmd, p.exited)
}

func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// kill sends the process a signal and waits for its end.
func (p *process) kill(signal os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("kill %s: %v", p.name, err)
	}
	select {
	case <-p.exited:
	case <-time.After(waitLimit):
		p.t.Fatalf("%s did not exit after %v:\n%s", p.name, signal, p.stderr)
	}
}

// An output collects the output of a process. It can be read while the process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// feedctl runs a command that must succeed, and returns its standard output.
func feedctl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("feedctl %v: %v\n%s%s", args, err, out, stderr.String())
	}
	return string(out)
}

// waitFor waits until a condition holds. If that takes too long, it fails the test with the
// result of where.
func waitFor(t *testing.T, where func() string, condition func() bool) {
	t.Helper()
	waitPausing(t, 5*time.Millisecond, where, condition)
}

// waitForCommand does what waitFor does, for a condition that runs commands.
func waitForCommand(t *testing.T, where func() string, condition func() bool) {
	t.Helper()
	waitPausing(t, 250*time.Millisecond, where, condition)
}

// waitPausing waits until a condition holds. Between checks, it pauses for longer than a check takes, since the checks
// would otherwise take the processor from what they wait for.
func waitPausing(t *testing.T, pause time.Duration, where func() string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(waitLimit)
	for {
		began := time.Now()
		if condition() {
			return
		}
		now := time.Now()
		if now.After(deadline) {
			t.Fatalf("no progress for %v: %s", waitLimit, where())
		}
		time.Sleep(max(pause, 3*now.Sub(began)))
	}
}
