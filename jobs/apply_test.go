package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// statements counts the statements that a scheduler sends to its database.
type statements struct{ all, writes int }

func (s *statements) count(_ context.Context, sql string) {
	s.all++
	if !strings.HasPrefix(sql, "SELECT") {
		s.writes++
	}
}

func (s *statements) reset() { *s = statements{} }

// TestApplyStatements applies thousands of jobs, and checks that this takes few statements: one
// statement for each job would mean 10,000 round trips.
func TestApplyStatements(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(t).URL("apply"),
	} {
		t.Run(name, func(t *testing.T) {
			var sent statements
			db, err := jobdb.Open(t.Context(), url, jobdb.Options{Before: sent.count})
			if err != nil {
				t.Fatal(err)
			}
			s := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
			const many = 2000
			documents := make([]jobs.Document, many)
			for n := range documents {
				documents[n] = jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "fake", Source: fmt.Sprint("s", n), Target: fmt.Sprint("t", n), Follow: true}
			}
			for _, step := range []struct {
				what        string
				change      func()
				prune       bool
				all, writes int // at most
			}{
				{"create", func() {}, false, many / 50, many / 90},
				{"apply again", func() {}, true, many/400 + 5, 0},
				{"change one", func() { documents[5].Source = "x" }, false, many/400 + 10, 5},
				{"change all", func() {
					for n := range documents {
						documents[n].Target = fmt.Sprint("t", (n+1)%many) // the current target of another job
					}
				}, false, many / 40, many / 80},
				{"delete most", func() { documents = documents[:5] }, true, many / 50, many / 100},
			} {
				step.change()
				sent.reset()
				changes, err := s.Apply(t.Context(), documents, jobs.ApplyOptions{Prune: step.prune})
				if err != nil {
					t.Fatalf("%s: %v", step.what, err)
				}
				if sent.all > step.all || sent.writes > step.writes {
					t.Errorf("%s: %d statements, %d of which write; want at most %d and %d", step.what, sent.all, sent.writes, step.all, step.writes)
				}
				actions := map[jobs.Action]int{}
				for _, c := range changes {
					actions[c.Action]++
				}
				t.Logf("%s: %v, %+v", step.what, actions, sent)
			}
			if found := ids(t, s, jobs.Filter{}); len(found) != 5 {
				t.Errorf("%d jobs are left, want 5", len(found))
			}
			if events, err := s.History(t.Context(), "n/4"); err != nil || len(events) != 2 {
				t.Errorf("events: %v, %v", events, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestApplyProblems: one error contains all problems that the database reveals in the documents, and nothing is
// stored.
func TestApplyProblems(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		job := func(name, source, target string, after ...string) jobs.Document {
			return jobs.Document{Namespace: "n", Name: name, Kind: "fake", Source: source, Target: target, After: after}
		}
		pinned := job("d", "d", "")
		pinned.Placement.Node = "nowhere"
		apply(t, s, job("a", "a", "ta"), job("b", "b", "tb", "a"), job("old", "old", "told"))
		_, err := s.Apply(t.Context(), []jobs.Document{
			job("a", "a", "ta", "c"), // b, c and a wait for each other
			job("c", "c", "", "b"),
			pinned,
			job("e", "b", "tb"),
			job("f", "f", "told"),
			job("g", "g", "", "gone"),
		}, jobs.ApplyOptions{})
		var problems jobs.InvalidError
		if !errors.As(err, &problems) {
			t.Fatalf("error %v", err)
		}
		want := `job "n/d": placement.node: there is no node "nowhere": start it first, with "feedctl jobs worker --name nowhere"
job "n/g": after: "gone" is not a job
job "n/a": after: the job waits for itself: n/a → n/c → n/b → n/a
job "n/e": source: job "n/b" does the same
job "n/f": target: job "n/old" writes to the same target`
		if problems.Error() != want {
			t.Errorf("got\n%v\nwant\n%s", problems, want)
		}
		if diff := cmp.Diff([]string{"n/a", "n/b", "n/old"}, ids(t, s, jobs.Filter{})); diff != "" {
			t.Error(diff)
		}
		if j, err := s.Get(t.Context(), "n/a"); err != nil || j.Generation != 1 {
			t.Errorf("the stored job a: %+v, %v", j, err)
		}
		if _, err := s.Apply(t.Context(), []jobs.Document{job("b", "b", "tb", "old")}, jobs.ApplyOptions{Prune: true}); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("a job that waits for a deleted one: %v", err)
		}
	})
}

// TestPrune: only the jobs of namespaces that are now empty or have another name are deleted.
func TestPrune(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		stored := func(o jobs.ApplyOptions, want []string, documents ...jobs.Document) {
			t.Helper()
			if _, err := s.Apply(t.Context(), documents, o); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, ids(t, s, jobs.Filter{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		}
		job := func(namespace, name string) jobs.Document {
			return jobs.Document{Namespace: namespace, Name: name, Kind: "fake", Source: name, Target: name}
		}
		transient, err := s.RunOnce(t.Context(), jobs.Document{Namespace: "shop", Kind: "fake", Source: "once"}, false)
		if err != nil {
			t.Fatal(err)
		}
		once := transient.Document.ID()
		apply(t, s, job("shop", "a"), job("shop", "b"), job("other", "c"))
		path := writeFile(t, "jobs.yaml", "version: 1\nnamespace: store\njobs:\n  - {name: a, kind: fake, source: a, target: a}\n---\nversion: 1\nnamespace: shop\njobs: []\n")
		files, err := fakeKinds.Read(jobs.ReadOptions{}, path)
		if err != nil {
			t.Fatal(err)
		}
		stored(jobs.ApplyOptions{Prune: true, Namespaces: files.Namespaces}, []string{"other/c", once, "store/a"}, files.Documents...)
		stored(jobs.ApplyOptions{PruneAll: true}, []string{"new/a", once}, job("new", "a"))
		stored(jobs.ApplyOptions{Prune: true, Namespaces: []string{"invalid name"}}, []string{"new/a", once})
		stored(jobs.ApplyOptions{PruneAll: true}, []string{once})
	})
}

// TestAfter: jobs that wait for others, in the same files or in files that were applied earlier,
// start after these.
func TestAfter(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		job := func(name string, after ...string) jobs.Document {
			return jobs.Document{Namespace: "n", Name: name, Kind: "fake", Source: name, After: after}
		}
		apply(t, s, job("c"), job("b", "c"))
		apply(t, s, job("a", "b"), job("d"))
		node, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 10})
		if err != nil {
			t.Fatal(err)
		}
		runs, err := s.Admit(t.Context(), node, 10)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, r := range runs {
			order = append(order, r.Job.Document.Name)
		}
		if diff := cmp.Diff([]string{"c", "d", "b", "a"}, order); diff != "" {
			t.Error(diff)
		}
	})
}

// BenchmarkApply applies 10,000 jobs, first as new ones and then again.
func BenchmarkApply(b *testing.B) {
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(b.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(b).URL("apply"),
	} {
		db, err := jobdb.Open(b.Context(), url, jobdb.Options{})
		if err != nil {
			b.Fatal(err)
		}
		s := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
		documents := make([]jobs.Document, 10_000)
		for n := range documents {
			documents[n] = jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "fake", Source: fmt.Sprint("s", n), Target: fmt.Sprint("t", n), Follow: true}
		}
		apply := func(b *testing.B, documents []jobs.Document) {
			if _, err := s.Apply(b.Context(), documents, jobs.ApplyOptions{Prune: true}); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name+"/new", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				apply(b, documents[:1])
				b.StartTimer()
				apply(b, documents)
			}
		})
		b.Run(name+"/unchanged", func(b *testing.B) {
			apply(b, documents)
			for b.Loop() {
				apply(b, documents)
			}
		})
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	}
}
