package jobs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestPerOrigin: one server is the source or target of more jobs than may run at the same time, and another server
// that of one job.
func TestPerOrigin(t *testing.T) {
	kinds := jobs.Kinds{"fake": originKind{}}
	eachDatabase(t, kinds, func(t *testing.T, db *jobdb.DB, _ *jobs.Scheduler) {
		settings := jobs.Defaults()
		settings.PerOrigin = 3
		s := jobs.NewScheduler(db, kinds, settings)
		for n := range 10 {
			d := jobs.Document{Namespace: fmt.Sprint("n", n%2), Name: fmt.Sprint(n), Kind: "fake", Source: "https://full.test:443", Target: fmt.Sprint("https://t", n, ".test:443")}
			if n%3 == 0 {
				d.Source, d.Target = d.Target, d.Source
			}
			apply(t, s, d)
		}
		node, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 100})
		if err != nil {
			t.Fatal(err)
		}
		admit := func(want int) []jobs.Run {
			t.Helper()
			runs, err := s.Admit(t.Context(), node, 100)
			if err != nil {
				t.Fatal(err)
			}
			if len(runs) != want {
				t.Errorf("%d runs were started, want %d", len(runs), want)
			}
			return runs
		}
		waiting := func(want int) {
			t.Helper()
			if n, err := s.Waiting(t.Context(), node, 100); err != nil || n != want {
				t.Errorf("%d jobs wait for a slot (%v), want %d", n, err, want)
			}
		}
		waiting(10)
		runs := admit(3)
		waiting(0)
		for _, name := range ids(t, s, jobs.Filter{States: []jobs.State{jobs.Pending}}) {
			d, err := s.Describe(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if want := "https://full.test:443 has 3 running jobs, the maximum"; d.Why != want {
				t.Errorf("why of %s: %s, want %s", name, d.Why, want)
			}
		}
		admit(0)
		apply(t, s, jobs.Document{Namespace: "n0", Name: "other", Kind: "fake", Source: "https://other.test:443"})
		waiting(1)
		admit(1)
		if err := s.Finish(t.Context(), runs[0], jobs.Outcome{End: jobs.Done}); err != nil {
			t.Fatal(err)
		}
		admit(1)
	})
}

// lingering is a kind whose runs report that they have begun, and wait for changes until they are
// ended.
type lingering struct {
	originKind
	began chan string
}

func (l lingering) Run(ctx context.Context, s *jobs.Session) error {
	if !s.Linger {
		return nil
	}
	s.CaughtUp()
	l.began <- s.Document.Name
	<-ctx.Done()
	return ctx.Err()
}

// TestCrowdedByOthers: the runs on one node use up the limit of an origin. A job that is pinned to another node still
// gets its turn.
func TestCrowdedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock()})
		if err != nil {
			t.Fatal(err)
		}
		kind := lingering{began: make(chan string, 100)}
		settings := jobs.Defaults()
		settings.PerOrigin = 3
		s := jobs.NewScheduler(db, jobs.Kinds{"fake": kind}, settings)
		ctx, stop := context.WithCancel(t.Context())
		var nodes sync.WaitGroup
		work := func(name string) {
			nodes.Go(func() {
				if err := s.Work(ctx, jobs.WorkerConfig{Name: name, Slots: 10}); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Second) // by now, the node has joined
		}
		document := func(name, node string) jobs.Document {
			return jobs.Document{Namespace: "n", Name: name, Kind: "fake", Source: "https://full.test:443", Follow: true, Placement: jobs.Placement{Node: node}}
		}
		work("first")
		for n := range settings.PerOrigin {
			apply(t, s, document(fmt.Sprint(n), ""))
		}
		for range settings.PerOrigin {
			<-kind.began
		}
		work("second")
		apply(t, s, document("pinned", "second"))
		select {
		case name := <-kind.began:
			if name != "pinned" {
				t.Errorf("%s was run, want the pinned job", name)
			}
		case <-time.After(time.Minute):
			t.Error("the pinned job does not run")
		}
		stop()
		nodes.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// busy is a kind whose runs report that they have begun, and have more to do until they are ended.
type busy struct {
	originKind
	began chan string
}

func (b busy) Run(ctx context.Context, s *jobs.Session) error {
	b.began <- s.Document.Name
	for entities := int64(1); ; entities++ {
		s.Report(jobs.Stats{Entities: entities})
		select {
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestCrowdedAndFull: the slots of a node are full, and so are both origins that its runs use.
// Another job with one of these origins still gets its turn.
func TestCrowdedAndFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock()})
		if err != nil {
			t.Fatal(err)
		}
		kind := busy{began: make(chan string, 100)}
		settings := jobs.Defaults()
		settings.PerOrigin = 3
		s := jobs.NewScheduler(db, jobs.Kinds{"fake": kind}, settings)
		slots := 2 * settings.PerOrigin
		job := func(n int) {
			apply(t, s, jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "fake", Source: fmt.Sprint("https://", n%2, ".test:443"), Follow: true})
		}
		for n := range slots {
			job(n)
		}
		ctx, stop := context.WithCancel(t.Context())
		var node sync.WaitGroup
		node.Go(func() {
			if err := s.Work(ctx, jobs.WorkerConfig{Name: "node", Slots: slots}); err != nil {
				t.Error(err)
			}
		})
		for range slots {
			<-kind.began
		}
		job(slots)
		select {
		case name := <-kind.began:
			if name != fmt.Sprint(slots) {
				t.Errorf("job %s was run again, want the one that waits", name)
			}
		case <-time.After(settings.MinRunTime + settings.Interval + 10*time.Second):
			t.Error("the job that waits does not run")
		}
		stop()
		node.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
