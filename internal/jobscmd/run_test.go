package jobscmd_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// A task is a kind whose jobs write a line to their log. A job fails if its source is "bad", and runs until
// it is stopped if its source is "long".
type task struct {
	fake
	started, stopped chan struct{}
}

// writes is a kind of job that has no source.
type writes struct{ task }

func (writes) TakesSource() bool { return false }

func (writes) Check(*jobs.Document) []jobs.Problem { return nil }

func (k task) Run(ctx context.Context, s *jobs.Session) error {
	s.Logger.Warn("something is odd", "source", s.Document.Source)
	switch s.Document.Source {
	case "bad":
		return errors.New("the source is bad")
	case "":
		s.Result("wrote " + s.Document.Target)
	case "long":
		close(k.started)
		<-ctx.Done()
		close(k.stopped)
		return ctx.Err()
	}
	return nil
}

// TestRun runs jobs with "jobs run", that is, without files, alongside a node.
func TestRun(t *testing.T) {
	m := newMachine(t)
	kind := task{started: make(chan struct{}), stopped: make(chan struct{})}
	m.kinds["task"], m.kinds["writes"] = kind, writes{kind}
	m.write("jobs.yaml", "version: 1\njobs: []\n")
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	m.fails(2, []string{"jobs", "run", "tsk", "x"}, `unknown kind "tsk"`)
	m.fails(2, []string{"jobs", "run", "task", "x", "--option", "limit"}, "want NAME=VALUE")
	if out, _ := m.run(0, "__complete", "jobs", "run", ""); out != "fake\nother\ntask\nwrites\n:4\n" {
		t.Errorf("completion of kinds: %s", out)
	}
	out, _ := m.run(0, "jobs", "run", "task", "good", "t", "-n", "shop", "--option", "limit=1", "--option", "limit=2", "--detach", "--json")
	if !strings.HasPrefix(out, `{"job":"shop/run-`) || !strings.HasSuffix(out, `","state":"pending"}`+"\n") {
		t.Errorf("a detached run prints %s", out)
	}
	name := strings.Split(out, `"`)[3]

	for terminal, want := range map[bool]string{false: `why="no node is alive"`, true: ": waits: no node is alive"} {
		alone, leave := context.WithCancelCause(m.Context())
		m.runSeeing(alone, 130, terminal, func(printed string) {
			if strings.Contains(printed, want) {
				leave(exit.ErrInterrupted)
			}
		}, "jobs", "run", "task", "alone")
	}

	ctx, stop := context.WithCancelCause(m.Context())
	node := make(chan struct{})
	go func() {
		defer close(node)
		m.runContext(ctx, 130, "jobs", "worker", "--name", "node")
	}()
	m.prints(name+" is completed\n", "jobs", "run", "task", "good", "t", "-n", "shop", "--option", "limit=1", "--option", "limit=2")
	if out, _ := m.run(0, "jobs", "run", "writes", "t"); !strings.HasSuffix(out, " is completed: wrote t\n") {
		t.Errorf("a kind with only a target prints %s", out)
	}
	if out, _ := m.run(0, "jobs", "run", "writes", "t", "--json"); !strings.Contains(out, `"state":"completed","reason":"wrote t"`) {
		t.Errorf("a kind with only a target prints %s", out)
	}
	m.fails(1, []string{"jobs", "run", "task", "bad"}, "has failed: the source is bad", "Try: ")
	m.run(0, "jobs", "run", "task", "bad", "t2", "--retry", "--detach")
	if out, _ := m.run(0, "jobs", "list", "--json"); strings.Count(out, `"retry":true`) != 1 {
		t.Errorf("no job has retry set: %s", out)
	}
	m.fails(1, []string{"jobs", "run", "task", "bad"}, "has failed: the source is bad") // a second run of the same job
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

// A gate is a kind whose runs begin with a line in the log, and end when the test releases them.
type gate struct {
	fake
	began, end chan struct{}
}

func (g gate) Run(ctx context.Context, s *jobs.Session) error {
	s.Logger.Warn("the run has begun")
	g.began <- struct{}{}
	select {
	case <-g.end:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestDatabaseRestarts: commands that wait for a job, or for lines of its log, continue after a restart of
// PostgreSQL.
func TestDatabaseRestarts(t *testing.T) {
	m := newMachine(t)
	kind := gate{began: make(chan struct{}), end: make(chan struct{})}
	m.kinds["gate"] = kind
	server := pgtest.StartOwn(t)
	t.Setenv("FEEDCTL_DB", server.URL("jobs"))
	m.write("jobs.yaml", "version: 1\njobs: []\n")
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	ctx, stop := context.WithCancelCause(m.Context())
	var commands sync.WaitGroup
	commands.Go(func() { m.runContext(ctx, 130, "jobs", "worker", "--name", "node") })
	run := func() (job string) {
		out, _ := m.run(0, "jobs", "run", "gate", "x")
		job, ok := strings.CutSuffix(out, " is completed\n")
		if !ok {
			t.Errorf("jobs run prints %s", out)
		}
		return job
	}
	go func() {
		<-kind.began
		kind.end <- struct{}{}
	}()
	job := run()
	follows := make(chan struct{})
	begins := sync.OnceFunc(func() { close(follows) })
	commands.Go(func() {
		defer stop(exit.ErrInterrupted)
		m.runSeeing(ctx, 130, false, func(printed string) {
			switch strings.Count(printed, "the run has begun") {
			case 1:
				begins()
			case 2:
				stop(exit.ErrInterrupted)
			}
		}, "jobs", "logs", "-f", job)
	})
	<-follows
	commands.Go(func() { run() })
	<-kind.began
	server.Restart()
	kind.end <- struct{}{}
	commands.Wait()
}

// TestServeOnly runs a worker that only serves the API, and is not a node.
func TestServeOnly(t *testing.T) {
	m := newMachine(t)
	m.fails(2, []string{"jobs", "worker", "--max-jobs", "0"}, "would do nothing without --listen")
	m.write("jobs.yaml", twoJobs)
	m.fails(2, []string{"jobs", "standalone", "-f", "jobs.yaml", "--max-jobs", "0"}, "standalone runs jobs")
	ctx, stop := context.WithCancelCause(m.Context())
	m.runSeeing(ctx, 130, false, func(printed string) {
		if strings.Contains(printed, "serving the API of jobs") {
			m.prints("none\n", "jobs", "nodes")
			stop(exit.ErrInterrupted)
		}
	}, "jobs", "worker", "--max-jobs", "0", "--listen", "127.0.0.1:0")
}

// TestLimitedCredentials runs a worker. Some of its credentials are limited to namespaces.
func TestLimitedCredentials(t *testing.T) {
	m := newMachine(t)
	m.write("jobs.yaml", twoJobs)
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	m.write("bad", "bearer all\nnamespace=Shop bearer hunter2\n")
	m.fails(1, []string{"jobs", "worker", "--max-jobs", "0", "--read-credentials-file", "bad"}, "bad, line 2: want namespace=NAME")
	m.write("readers", "bearer all\nnamespace=none,empty bearer few\n")
	m.write("writers", "namespace=none bearer few\n")
	ctx, stop := context.WithCancelCause(m.Context())
	served := regexp.MustCompile(`serving the API of jobs.*(http://[0-9.:]+)`)
	var once sync.Once
	m.runSeeing(ctx, 130, false, func(printed string) {
		if match := served.FindStringSubmatch(printed); match != nil {
			once.Do(func() { // once this has been printed, the API is served
				go func() {
					defer stop(exit.ErrInterrupted)
					m.responds(ctx, "GET", match[1]+"/api/v1/tenants", "all", `"shop"`)
					m.responds(ctx, "GET", match[1]+"/api/v1/tenants", "few", `{"tenants":[]}`)
					m.responds(ctx, "DELETE", match[1]+"/api/v1/namespaces/shop/jobs/none", "few", `not for namespace \"shop\"`)
				}()
			})
		}
	}, "jobs", "worker", "--max-jobs", "0", "--listen", "127.0.0.1:0", "--read-credentials-file", "readers", "--write-credentials-file", "writers")
}

// responds sends a request with a bearer token. The body of the response must contain the string want.
func (m *machine) responds(ctx context.Context, method, url, token, want string) {
	m.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		m.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		m.Error(err)
		return
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), want) {
		m.Errorf("%s %s with the token %q: %s (%v), want %s", method, url, token, text, err, want)
	}
}
