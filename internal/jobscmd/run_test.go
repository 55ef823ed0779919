package jobscmd_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/jobs"
)

// A task is a kind of jobs that log, fail if their source is "bad", and take until they are
// stopped if it is "long".
type task struct {
	fake
	started, stopped chan struct{}
}

func (k task) Run(ctx context.Context, s *jobs.Session) error {
	s.Logger.Warn("something is odd", "source", s.Document.Source)
	switch s.Document.Source {
	case "bad":
		return errors.New("the source is bad")
	case "long":
		close(k.started)
		<-ctx.Done()
		close(k.stopped)
		return ctx.Err()
	}
	return nil
}

// TestRun runs jobs that are in no file, beside a node.
func TestRun(t *testing.T) {
	m := newMachine(t)
	kind := task{started: make(chan struct{}), stopped: make(chan struct{})}
	m.kinds["task"] = kind
	m.write("jobs.yaml", "version: 1\njobs: []\n")
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	m.fails(2, []string{"jobs", "run", "tsk", "x"}, `unknown kind "tsk"`)
	m.fails(2, []string{"jobs", "run", "task", "x", "--option", "limit"}, "want NAME=VALUE")
	out, _ := m.run(0, "jobs", "run", "task", "good", "t", "-n", "shop", "--option", "limit=1", "--option", "limit=2", "--detach", "--json")
	if !strings.HasPrefix(out, `{"job":"shop/run-`) || !strings.HasSuffix(out, `","state":"pending"}`+"\n") {
		t.Errorf("a job that does not run yet: %s", out)
	}
	name := strings.Split(out, `"`)[3]

	ctx, stop := context.WithCancelCause(m.Context())
	node := make(chan struct{})
	go func() {
		defer close(node)
		m.runContext(ctx, 130, "jobs", "worker", "--name", "node")
	}()
	m.prints(name+" is completed\n", "jobs", "run", "task", "good", "t", "-n", "shop", "--option", "limit=1", "--option", "limit=2")
	m.fails(1, []string{"jobs", "run", "task", "bad"}, "has failed: the source is bad", "Try: ")
	m.fails(1, []string{"jobs", "run", "task", "bad"}, "has failed: the source is bad") // again
	interrupted, interrupt := context.WithCancelCause(m.Context())
	go func() {
		<-kind.started
		interrupt(exit.ErrInterrupted)
	}()
	m.runContext(interrupted, 130, "jobs", "run", "task", "long")
	<-kind.stopped
	if out, _ := m.run(0, "jobs", "list", "--state", "failed", "--json"); !strings.Contains(out, `"reason":"cancelled"`) {
		t.Errorf("the job is not cancelled: %s", out)
	}
	if out, _ := m.run(0, "jobs", "logs", name); !strings.Contains(out, ` on node: something is odd source="good"`) || !strings.Contains(out, " WARN run ") {
		t.Errorf("the log is\n%s", out)
	}
	if out, _ := m.run(0, "jobs", "logs", name, "--json"); !strings.HasPrefix(out, `{"job":"`+name+`","lines":[{"number":1,"time":"`) {
		t.Errorf("the log is\n%s", out)
	}
	m.fails(3, []string{"jobs", "logs", "none"}, "no such job")
	stop(exit.ErrInterrupted)
	<-node
}
