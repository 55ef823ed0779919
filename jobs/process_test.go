package jobs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// nodeVariable is set in the environment of a process that is a node. Its value is the name of the
// node, the number of its slots and the URL of its database, separated by spaces.
const nodeVariable = "FEEDCTL_JOBS_TEST_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(nodeVariable) == "" {
		os.Exit(m.Run())
	}
	if err := nodeMain(os.Getenv(nodeVariable)); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func nodeMain(text string) error {
	c := jobs.WorkerConfig{}
	var url string
	if _, err := fmt.Sscan(text, &c.Name, &c.Slots, &url); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	settings := jobs.Defaults()
	if strings.HasPrefix(url, "sqlite:") {
		settings.Lease = time.Hour
	}
	db, err := jobdb.Open(ctx, url, jobdb.Options{})
	if err != nil {
		return err
	}
	kinds := jobs.Kinds{"endless": endless{}, "number": numbering{db: db, url: url, node: c.Name}}
	return errors.Join(jobs.NewScheduler(db, kinds, settings).Work(ctx, c), db.Close())
}

// A process is a node in a process of its own.
type process struct {
	*osexec.Cmd
	out *bufio.Scanner
}

func startNode(t *testing.T, name string, slots int, url string) *process {
	t.Helper()
	cmd := osexec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", nodeVariable, name, slots, url))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, bufio.NewScanner(stdout)}
	t.Cleanup(p.kill)
	return p
}

// kill ends the process at once, if it is still running.
func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait() // the error is that it was killed
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// line returns the next line that the process prints.
func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("node %s has ended: %v", p.Env[len(p.Env)-1], p.out.Err())
	}
	return p.out.Text()
}

// endless is a kind whose runs print that they have begun, and last until they are stopped.
type endless struct{ fakeKind }

func (endless) Run(ctx context.Context, s *jobs.Session) error {
	fmt.Println("runs", s.Document.ID())
	<-ctx.Done()
	return ctx.Err()
}

// completing is a kind whose runs end at once.
type completing struct {
	fakeKind
	ran chan string
}

func (c completing) Run(_ context.Context, s *jobs.Session) error {
	c.ran <- s.Document.ID()
	return nil
}

// TestOneNode kills the node that uses an SQLite file. Before that, another node cannot use the
// file; after that, another node runs the jobs at once, without waiting until the lease of an hour has expired.
func TestOneNode(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	const many = 3
	ran := make(chan string, 2*many)
	store, err := jobs.Open(t.Context(), url, jobs.Kinds{"endless": completing{ran: ran}}, jobs.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	for n := range many {
		apply(t, store, jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "endless", Source: fmt.Sprint("s", n)})
	}
	p := startNode(t, "killed", 10, url)
	for range many {
		p.line(t)
	}
	err = store.Work(t.Context(), jobs.WorkerConfig{Name: "second"})
	if !errors.Is(err, jobs.ErrReserved) || !strings.Contains(err.Error(), url) || !strings.Contains(err.Error(), "postgres://") {
		t.Errorf("a second node: %v, want ErrReserved, the file, and the remedy", err)
	}
	p.kill()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- store.Work(ctx, jobs.WorkerConfig{Name: "third"}) }()
	for range many {
		select {
		case <-ran:
		case err := <-done:
			t.Fatalf("the third node has ended: %v", err)
		case <-time.After(time.Minute):
			t.Fatal("a job waits for the lease of the killed node")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
