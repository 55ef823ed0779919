package jobs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestRunOnce: jobs that run once exist only once, are not tried again, and are deleted after a
// day.
func TestRunOnce(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		ctx := t.Context()
		once := func(source, option string) *jobs.Job {
			t.Helper()
			d := jobs.Document{Namespace: "n", Kind: "fake", Source: source}
			if option != "" {
				d.Options = map[string]jobs.Values{"limit": {option}}
			}
			j, err := s.RunOnce(ctx, d, false)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		fails, works := once("bad", ""), once("good", "")
		if again := once("bad", ""); again.Document.ID() != fails.Document.ID() || again.Epoch != fails.Epoch || !again.Transient {
			t.Errorf("the same job again is %+v, want %+v", again, fails)
		}
		if fails.Document.ID() == works.Document.ID() {
			t.Error("runs of two sources have the same job")
		}
		if _, err := s.RunOnce(ctx, jobs.Document{Namespace: "n", Kind: "fake", Source: "bad", Options: map[string]jobs.Values{"limit": {"1"}}}, false); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "does the same") {
			t.Errorf("a job that does the same as another: %v", err)
		}
		for _, d := range []jobs.Document{{Kind: "none"}, {Kind: "fake", Follow: true}, {Kind: "fake", Schedule: "* * * * *"}} {
			d.Namespace, d.Source = "n", "x"
			if _, err := s.RunOnce(ctx, d, false); !errors.Is(err, jobs.ErrInvalid) {
				t.Errorf("%+v: error %v, want ErrInvalid", d, err)
			}
		}
		if _, err := s.Apply(ctx, []jobs.Document{{Namespace: "n", Name: "file", Kind: "fake", Source: "s", Paused: true}}, jobs.ApplyOptions{Prune: true}); err != nil {
			t.Fatal(err)
		}

		n, err := s.Join(ctx, jobs.Node{Name: "node", Slots: 5})
		if err != nil {
			t.Fatal(err)
		}
		runs, err := s.Admit(ctx, n, 5)
		if err != nil || len(runs) != 2 {
			t.Fatalf("%d runs, want 2: %v", len(runs), err)
		}
		for _, r := range runs {
			o := jobs.Outcome{End: jobs.Done}
			if r.Job.Document.Source == "bad" {
				o = jobs.Outcome{End: jobs.Crashed, Reason: "x"}
			}
			if err := s.Finish(ctx, r, o); err != nil {
				t.Fatal(err)
			}
		}
		if a, b := once("bad", ""), once("good", ""); a.State != jobs.Failed || b.State != jobs.Completed {
			t.Errorf("the jobs end as %s and %s", a.State, b.State)
		}
		for _, test := range []struct {
			after time.Duration
			jobs  int
		}{{24*time.Hour - time.Second, 3}, {24 * time.Hour, 1}} {
			exec(t, db, "UPDATE @clock SET at = $1", epoch.Add(test.after).UnixMicro())
			if _, err := s.Reap(ctx); err != nil {
				t.Fatal(err)
			}
			if found := ids(t, s, jobs.Filter{}); len(found) != test.jobs {
				t.Errorf("after %v, the jobs are %q, want %d", test.after, found, test.jobs)
			}
		}
		if nodes, err := s.Nodes(ctx); err != nil || len(nodes) != 1 {
			t.Errorf("nodes after a day: %v, %v", nodes, err)
		}
		exec(t, db, "UPDATE @clock SET at = $1", epoch.Add(25*time.Hour).UnixMicro())
		if _, err := s.Reap(ctx); err != nil {
			t.Fatal(err)
		}
		if nodes, err := s.Nodes(ctx); err != nil || len(nodes) != 0 {
			t.Errorf("nodes a day after they were lost: %v, %v", nodes, err)
		}
		if j := once("bad", ""); j.State != jobs.Pending || j.Epoch <= fails.Epoch {
			t.Errorf("after the job was deleted, the same run is %s", j.State)
		}
	})
}

// TestRunOnceRetry: a job that runs once is tried again after errors if it was added with retry.
func TestRunOnceRetry(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		ctx := t.Context()
		j, err := s.RunOnce(ctx, jobs.Document{Namespace: "n", Kind: "fake", Source: "s"}, true)
		if err != nil {
			t.Fatal(err)
		}
		for try, o := range []jobs.Outcome{{End: jobs.Crashed, Reason: "x"}, {End: jobs.Done, Reason: "all is done"}} {
			n, err := s.Join(ctx, jobs.Node{Name: "node", Slots: 1})
			if err != nil {
				t.Fatal(err)
			}
			runs, err := s.Admit(ctx, n, 1)
			if err != nil || len(runs) != 1 {
				t.Fatalf("try %d: %d runs, %v", try, len(runs), err)
			}
			if err := s.Finish(ctx, runs[0], o); err != nil {
				t.Fatal(err)
			}
			exec(t, db, "UPDATE @clock SET at = $1", epoch.Add(time.Hour).UnixMicro())
		}
		d, err := s.Describe(ctx, j.Document.ID())
		if err != nil || d.State != jobs.Completed || !strings.HasSuffix(d.Why, ": all is done") || d.Events[0].Reason != "all is done" {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// TestRunOnceElsewhere: the same job for two nodes is two jobs, which do not run at the same time.
func TestRunOnceElsewhere(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		on := func(node string) (*jobs.Job, error) {
			if _, err := s.Join(t.Context(), jobs.Node{Name: node, Slots: 1}); err != nil {
				t.Fatal(err)
			}
			return s.RunOnce(t.Context(), jobs.Document{Namespace: "n", Kind: "fake", Source: "s", Placement: jobs.Placement{Node: node}}, false)
		}
		a, err := on("a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := on("b"); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), a.Document.ID()+`" does the same`) {
			t.Errorf("while the job of the other node has not ended: %v", err)
		}
		if _, err := s.Cancel(t.Context(), a.Document.ID()); err != nil {
			t.Fatal(err)
		}
		if b, err := on("b"); err != nil || b.Document.Placement.Node != "b" || b.State != jobs.Pending {
			t.Errorf("after it has ended: %+v, %v", b, err)
		}
	})
}
