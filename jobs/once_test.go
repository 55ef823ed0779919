package jobs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestRunOnce has jobs that run once: they exist once, are not tried again, and are deleted
// after a day.
func TestRunOnce(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		ctx := t.Context()
		once := func(source, option string) *jobs.Job {
			t.Helper()
			d := jobs.Document{Namespace: "n", Kind: "fake", Source: source}
			if option != "" {
				d.Options = map[string]jobs.Values{"limit": {option}}
			}
			j, err := s.RunOnce(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		fails, works := once("bad", ""), once("good", "")
		if again := once("bad", ""); again.Document.ID() != fails.Document.ID() || again.Epoch != fails.Epoch || !again.Transient {
			t.Errorf("the same again is %+v, want %+v", again, fails)
		}
		if fails.Document.ID() == works.Document.ID() {
			t.Error("two sources are one job")
		}
		if _, err := s.RunOnce(ctx, jobs.Document{Namespace: "n", Kind: "fake", Source: "bad", Options: map[string]jobs.Values{"limit": {"1"}}}); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "does the same") {
			t.Errorf("a job that does the same as another: %v", err)
		}
		for _, d := range []jobs.Document{{Kind: "none"}, {Kind: "fake", Follow: true}, {Kind: "fake", Schedule: "* * * * *"}} {
			d.Namespace, d.Source = "n", "x"
			if _, err := s.RunOnce(ctx, d); !errors.Is(err, jobs.ErrInvalid) {
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
			t.Errorf("they end as %s and %s", a.State, b.State)
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
				t.Errorf("after %v there are %q, want %d", test.after, found, test.jobs)
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
			t.Errorf("after that, the same is %s", j.State)
		}
	})
}
