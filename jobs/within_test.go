package jobs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestWithin explains jobs to callers who may know only some namespaces.
func TestWithin(t *testing.T) {
	const server = "https://db.test:443"
	other := func(d *jobs.Document) { d.Namespace = "other" }
	tests := map[string]func(*scene){}
	for _, test := range []struct {
		name       string
		do         func(*scene)
		want, only string
	}{
		{"behind others", func(s *scene) {
			s.join(jobs.Node{Name: "a", Slots: 0})
			s.apply("job", server, nil)
			s.apply("x", server, other)
		}, "waits for a slot: 0 jobs of its namespace are ahead of it, and 1 job of other namespaces is due", "waits for a slot: 0 jobs of its namespace are ahead of it"},
		{"server down", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 9})
			for _, name := range []string{"x", "y", "z"} {
				s.apply(name, server, other)
			}
			refused := &jobs.OriginError{Origin: server, Err: errors.New("GET /hidden: 500")}
			for _, r := range s.admit(n, 9) {
				s.must(s.store.Finish(s.t.Context(), r, jobs.Outcome{End: jobs.Crashed, Reason: refused.Error(), Origin: refused}))
			}
			s.apply("job", server, nil)
		}, server + " is down, and one of its jobs will try it again at 2026-01-01T00:00:05Z: GET /hidden: 500",
			server + " is down, and one of its jobs will try it again at 2026-01-01T00:00:05Z: the error is not shown, as it may name jobs of other namespaces"},
	} {
		tests[test.name] = func(s *scene) {
			test.do(s)
			for _, reader := range []struct {
				want       string
				namespaces []string
			}{{test.want, nil}, {test.only, []string{"n"}}, {test.only, []string{"m", "n"}}} {
				ctx := s.t.Context()
				if reader.namespaces != nil {
					ctx = jobs.Within(ctx, reader.namespaces...)
				}
				d, err := s.store.Describe(ctx, "n/job")
				s.must(err)
				if d.Why != reader.want {
					s.t.Errorf("for %v: %s\nwant %s", reader.namespaces, d.Why, reader.want)
				}
			}
		}
	}
	eachScene(t, tests)
}

// TestWatchWithin: jobs of two namespaces need a watch that fails.
func TestWatchWithin(t *testing.T) {
	eachDatabase(t, jobs.Kinds{"fake": reasonKind{}}, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		apply(t, s, jobs.Document{Namespace: "n", Name: "x", Kind: "fake", Source: "x", Follow: true})
		node, err := s.Join(t.Context(), jobs.Node{Name: "a", Slots: 1})
		if err != nil {
			t.Fatal(err)
		}
		watches, err := s.Watches(t.Context(), node, []string{"fake"}, func(jobs.Watched) bool { return false })
		if err != nil || len(watches) != 1 {
			t.Fatalf("%d watches, %v", len(watches), err)
		}
		for w := range watches {
			if err := s.WatchFailed(t.Context(), node, w, errors.New("GET /hidden: 500"), false); err != nil {
				t.Fatal(err)
			}
		}
		for want, describe := range map[string]func() (*jobs.Description, error){
			"GET /hidden: 500":       func() (*jobs.Description, error) { return s.Describe(t.Context(), "n/x") },
			"the error is not shown": func() (*jobs.Description, error) { return s.Describe(jobs.Within(t.Context(), "n"), "n/x") },
		} {
			d, err := describe()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(d.Watch.Error, want) {
				t.Errorf("the watch fails with %q, want %q", d.Watch.Error, want)
			}
		}
	})
}
