package storagetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

// workerVariable is set in the environment of a process that performs a task.
const workerVariable = "FEEDCTL_STORAGETEST_TASK"

// A task is performed on the store by a child process, which prints its results on standard output,
// one per line.
type task struct {
	Name string
	URL  string
	Key  string
	Verb string
	N    int
}

// Main is the TestMain of a driver. It runs the tests or, in a process started by a test,
// opens the store at a URL and runs a task.
func Main(m *testing.M, open func(ctx context.Context, url string) (storage.Store, error)) {
	text, ok := os.LookupEnv(workerVariable)
	if !ok {
		os.Exit(m.Run())
	}
	if err := work(text, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func work(text string, open func(ctx context.Context, url string) (storage.Store, error)) error {
	var job task
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return err
	}
	ctx := context.Background()
	store, err := open(ctx, job.URL)
	if err != nil {
		return err
	}
	defer store.Close()
	// The test sends a line to all its processes, so that they begin at the same time.
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil && err != io.EOF {
		return err
	}
	switch job.Name {
	case "create":
		return workCreate(ctx, store, job)
	case "increment":
		for range job.N {
			if err := increment(ctx, store, job.Key, job.Verb, "process"); err != nil {
				return err
			}
		}
		return nil
	case "write":
		return workWrite(ctx, store, job)
	}
	return fmt.Errorf("unknown task %q", job.Name)
}

// workCreate tries to create N objects, and prints the keys of those that no other process created
// first.
func workCreate(ctx context.Context, store storage.Store, job task) error {
	for i := range job.N {
		key := fmt.Sprintf("%s%03d", job.Key, i)
		body := fmt.Appendf(nil, "process %d", os.Getpid())
		_, err := store.Create(ctx, key, claimOf("process", os.Getpid(), body), storage.Bytes(body))
		switch {
		case err == nil:
			fmt.Println(key)
		case !errors.Is(err, storage.ErrExists):
			return err
		}
	}
	return nil
}

// worker returns a command that performs the task.
func worker(t *testing.T, job task) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	// The race detector would delay the exit of each process by a second.
	cmd.Env = append(os.Environ(), workerVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}
