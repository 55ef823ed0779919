package jobs_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/disktest"
	"github.com/feedctl/feedctl/jobs"
)

// failures is an observer that reports when loops cannot use the database.
type failures struct {
	jobs.Observer
	failed chan error
}

func (f failures) Looped(_ string, _ time.Duration, err error) {
	if err != nil {
		select {
		case f.failed <- err:
		default:
		}
	}
}

// TestFullDisk fills the disk that holds the database of jobs while a job runs. The run continues,
// changes to jobs are refused, and the node resumes its work when there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := disktest.Mount(t, "4m")
	c := newCounters()
	s, err := jobs.Open(t.Context(), "sqlite:"+filepath.Join(disk, "jobs.db"), jobs.Kinds{"count": c}, jobs.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	failed := make(chan error)
	var node sync.WaitGroup
	node.Go(func() {
		if err := s.Work(ctx, jobs.WorkerConfig{Name: "node", Slots: 5, Observer: failures{jobs.NoObserver, failed}}); err != nil {
			t.Error(err)
		}
	})
	defer func() {
		stop()
		node.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	document := func(n int) jobs.Document {
		return jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "count", Source: fmt.Sprint("s", n), Target: fmt.Sprint("t", n), Follow: true}
	}
	copied := func(n, want int) {
		t.Helper()
		c.set(document(n).Source, want)
		c.await(t, func() bool { return c.targets[document(n).Target] == want })
	}
	apply(t, s, document(0))
	copied(0, 1)
	free := disktest.Fill(t, disk)
	var refused error
	for n := 1; refused == nil; n++ { // the files still have some room
		_, refused = s.Apply(t.Context(), []jobs.Document{document(n)}, jobs.ApplyOptions{})
	}
	t.Log(refused)
	t.Log(<-failed)
	copied(0, 2)
	free()
	apply(t, s, document(1000))
	copied(1000, 1)
	if j, err := s.Get(t.Context(), "n/1000"); err != nil || j.Errors != 0 {
		t.Errorf("%+v (%v), want no errors", j, err)
	}
}
