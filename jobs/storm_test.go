package jobs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// stormKind is a kind of job that has origins and watches a server.
type stormKind struct{ fakeKind }

func (stormKind) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.ID() + " " + d.Source, SourceOrigin: "https://s.test:443", TargetOrigin: d.Target, Watch: jobs.Watch{Type: "fake", Server: "s", Name: d.Name}}
}

// TestStorm does everything that writes to jobs, from many goroutines, in any order: nothing fails
// because of a deadlock.
func TestStorm(t *testing.T) {
	t.Parallel()
	db, err := jobdb.Open(t.Context(), pgtest.Start(t).URL("storm")+"&pool_max_conns=12", jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := jobs.NewScheduler(db, jobs.Kinds{"fake": stormKind{}}, jobs.Defaults())
	const many = 24
	document := func(n int) jobs.Document {
		return jobs.Document{Namespace: fmt.Sprint("n", n%3), Name: fmt.Sprint(n), Kind: "fake", Source: fmt.Sprint(rand.IntN(3)), Target: fmt.Sprint("https://t", n%2, ".test:443"), Follow: true}
	}
	id := func(n int) string { return fmt.Sprint("n", n%3, "/", n) }
	for n := range 3 {
		if err := s.SetMaxRunning(t.Context(), fmt.Sprint("n", n), 6); err != nil {
			t.Fatal(err)
		}
	}
	some := func() (numbers []int) { return rand.Perm(many)[:1+rand.IntN(many)] }
	applied := func() error {
		var documents []jobs.Document
		for _, n := range some() {
			documents = append(documents, document(n))
		}
		_, err := s.Apply(t.Context(), documents, jobs.ApplyOptions{})
		return err
	}
	if err := applied(); err != nil {
		t.Fatal(err)
	}
	each := func(do func(ids ...string) (int, error)) error {
		if _, err := do(id(rand.IntN(many))); !errors.Is(err, jobs.ErrNoJob) {
			return err
		}
		return nil
	}
	node := func() error { // a node from its start to its end
		n, err := s.Join(t.Context(), jobs.Node{Name: "n", Slots: 20})
		if err != nil {
			return err
		}
		runs, err := s.Admit(t.Context(), n, 20)
		if err != nil {
			return err
		}
		for _, r := range runs[:len(runs)/2] {
			o := jobs.Outcome{End: jobs.CaughtUp, Seen: r.Job.Wanted, Stats: &jobs.Stats{Entities: 1}}
			if rand.IntN(3) == 0 {
				o = jobs.Outcome{End: jobs.Crashed, Origin: &jobs.OriginError{Origin: fmt.Sprint("https://t", rand.IntN(2), ".test:443"), Err: errRefused}}
			}
			if err := s.Finish(t.Context(), r, o); err != nil && !errors.Is(err, jobs.ErrFenced) {
				return err
			}
		}
		if rand.IntN(2) == 0 {
			return s.Leave(t.Context(), n)
		}
		exec(t, db, "UPDATE @node SET expires = 0 WHERE incarnation = $1", n.Incarnation)
		return nil
	}
	what := []func() error{
		applied, node, node, node, node,
		func() error {
			var ids []string
			for _, n := range some() {
				ids = append(ids, id(n))
			}
			return s.Wake(t.Context(), ids...)
		},
		func() error {
			states := map[string]string{}
			for _, n := range some() {
				states[fmt.Sprint(n)] = fmt.Sprint(rand.IntN(2))
			}
			_, err := s.WakeChanged(t.Context(), jobs.Watched{Type: "fake", Server: "s"}, states)
			return err
		},
		func() error { _, err := s.Reap(t.Context()); return err },
		func() error { _, err := s.Sweep(t.Context(), 0, many); return err },
		func() error { return s.OriginUp(t.Context(), fmt.Sprint("https://t", rand.IntN(2), ".test:443")) },
		func() error { return each(func(ids ...string) (int, error) { return s.Pause(t.Context(), ids...) }) },
		func() error { return each(func(ids ...string) (int, error) { return s.Resume(t.Context(), ids...) }) },
		func() error { return each(func(ids ...string) (int, error) { return s.Restart(t.Context(), ids...) }) },
		func() error { return s.Delete(t.Context(), id(rand.IntN(many))) },
	}
	var storm sync.WaitGroup
	for range 10 {
		storm.Go(func() {
			for range size(80, 30) {
				if err := what[rand.IntN(len(what))](); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	storm.Wait()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
