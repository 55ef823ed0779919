package jobs_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestPlacement: jobs that require labels run only on nodes that have them.
func TestPlacement(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		for _, test := range []struct {
			node  string
			asks  []string
			nodes map[string][]string // node → labels
			want  string              // nodes that may run the job
		}{
			{"", nil, map[string][]string{"a": nil, "b": {"eu"}}, "[a b]"},
			{"", []string{"eu"}, map[string][]string{"a": nil, "b": {"eu"}, "c": {"us"}}, "[b]"},
			{"", []string{"ssd", "eu"}, map[string][]string{"a": {"eu"}, "b": {"eu", "gpu", "ssd"}, "c": {"ssd"}}, "[b]"},
			{"", []string{"eu", "eu"}, map[string][]string{"a": {"eu"}}, "[a]"},
			{"", []string{"a_b"}, map[string][]string{"a": {"axb"}, "b": {"a_b"}}, "[b]"},
			{"", []string{"eu"}, map[string][]string{"a": {"eu-west"}, "b": {"zone=eu"}}, "[]"},
			{"b", []string{"eu"}, map[string][]string{"a": {"eu"}, "b": {"eu"}}, "[b]"},
			{"b", []string{"eu"}, map[string][]string{"a": {"eu"}, "b": nil}, "[]"},
		} {
			var nodes []jobs.Node
			for name, labels := range test.nodes {
				n, err := s.Join(t.Context(), jobs.Node{Name: name, Labels: labels})
				if err != nil {
					t.Fatal(err)
				}
				nodes = append(nodes, n)
			}
			apply(t, s, jobs.Document{Namespace: "n", Name: "job", Kind: "fake", Source: "s", Follow: true, Placement: jobs.Placement{Node: test.node, Labels: test.asks}})
			var may []string
			for _, n := range nodes {
				waiting, err := s.Waiting(t.Context(), n, 10)
				if err != nil {
					t.Fatal(err)
				}
				runs, err := s.Admit(t.Context(), n, 10)
				if err != nil {
					t.Fatal(err)
				}
				if len(runs) != waiting {
					t.Errorf("node %s runs %d jobs, and %d wait for it", n.Name, len(runs), waiting)
				}
				for _, r := range runs {
					may = append(may, n.Name)
					if err := s.Finish(t.Context(), r, jobs.Outcome{End: jobs.Stopped}); err != nil {
						t.Fatal(err)
					}
				}
			}
			slices.Sort(may)
			if got := fmt.Sprint(may); got != test.want {
				t.Errorf("job on node %q with labels %q runs on %s of %v, want %s", test.node, test.asks, got, test.nodes, test.want)
			}
			if err := s.Delete(t.Context(), "n/job"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Join(t.Context(), jobs.Node{Name: "x", Labels: []string{"EU"}}); err == nil {
			t.Error("a node with an invalid label has joined")
		}
		for _, p := range fakeKinds.Check([]jobs.Document{{Namespace: "n", Name: "job", Kind: "fake", Source: "s", Placement: jobs.Placement{Labels: []string{"a,b"}}}}) {
			if p.Field == "placement.labels" {
				return
			}
		}
		t.Error("a job with an invalid label of nodes is valid")
	})
}
