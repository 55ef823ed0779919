package jobs_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// reasonKind is a kind of job with two origins and a watch.
type reasonKind struct{ fakeKind }

func (reasonKind) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{
		Work: d.ID(), SourceOrigin: "https://one.test", TargetOrigin: "https://two.test",
		Watch: jobs.Watch{Type: "fake", Server: "https://one.test", Name: "x"},
	}
}

// TestReasons stores errors with strings that PostgreSQL refuses.
func TestReasons(t *testing.T) {
	eachDatabase(t, jobs.Kinds{"fake": reasonKind{}}, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		bad := errors.New("zero \x00, M\xfcnchen" + strings.Repeat(" and more", 1000))
		const want = "zero �, M�nchen and more"
		check := func(what, got string) {
			t.Helper()
			if !strings.HasPrefix(got, want) || len(got) > 5000 {
				t.Errorf("%s: %.50q with %d bytes, want %q… with at most 5000", what, got, len(got), want)
			}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		apply(t, s, jobs.Document{Namespace: "n", Name: "x", Kind: "fake", Source: "x", Follow: true})
		node, err := s.Join(t.Context(), jobs.Node{Name: "a", Slots: 1})
		must(err)
		watches, err := s.Watches(t.Context(), node, []string{"fake"}, func(jobs.Watched) bool { return false })
		must(err)
		for w := range watches {
			must(s.WatchFailed(t.Context(), node, w, bad, false))
		}
		status, err := s.Watch(t.Context(), "n/x")
		must(err)
		check("watch", status.Error)

		runs, err := s.Admit(t.Context(), node, 1)
		must(err)
		if len(runs) != 1 {
			t.Fatalf("%d runs", len(runs))
		}
		failed := &jobs.OriginError{Origin: "https://two.test", Err: bad}
		must(s.Finish(t.Context(), runs[0], jobs.Outcome{End: jobs.Crashed, Reason: bad.Error(), Origin: failed}))
		must(jobs.Block(s, t.Context(), &jobs.OriginError{Origin: "https://one.test", Err: bad}, time.Minute))
		job, err := s.Get(t.Context(), "n/x")
		must(err)
		check("job", job.Reason)
		origins, err := s.Origins(t.Context())
		must(err)
		if len(origins) != 2 {
			t.Errorf("%d origins", len(origins))
		}
		for _, o := range origins {
			check(o.Origin, o.Reason)
		}
	})
}

// TestFinishRefused: a node has one slot, and the database refuses to store the end of the first
// run. The next job runs nevertheless.
func TestFinishRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock()})
		if err != nil {
			t.Fatal(err)
		}
		store := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
		exec(t, db, `CREATE TRIGGER refuse BEFORE UPDATE ON job WHEN NEW.id = 'n/a' AND NEW.state = 'completed' BEGIN SELECT RAISE(ABORT, 'refused'); END`)
		for _, name := range []string{"a", "b"} {
			apply(t, store, jobs.Document{Namespace: "n", Name: name, Kind: "fake", Source: name})
			time.Sleep(time.Second) // so that the order of the jobs is known
		}
		ctx, stop := context.WithCancel(t.Context())
		var node sync.WaitGroup
		node.Go(func() {
			if err := store.Work(ctx, jobs.WorkerConfig{Name: "node", Slots: 1}); err != nil {
				t.Error(err)
			}
		})
		state := func(id string) jobs.State {
			j, err := store.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return j.State
		}
		time.Sleep(time.Minute)
		if got := state("n/b"); got != jobs.Completed {
			t.Errorf("the other job is %s after a minute", got)
		}
		exec(t, db, "DROP TRIGGER refuse")
		time.Sleep(3 * time.Minute)
		if got := state("n/a"); got != jobs.Completed {
			t.Errorf("the job is %s once its end can be stored", got)
		}
		stop()
		node.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
