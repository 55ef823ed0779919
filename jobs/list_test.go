package jobs_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// eachDatabase runs a test on an empty scheduler for each kind of database, in parallel with other
// tests.
func eachDatabase(t *testing.T, kinds jobs.Kinds, test func(*testing.T, *jobdb.DB, *jobs.Scheduler)) {
	t.Helper()
	t.Parallel()
	for name, db := range databases(t) {
		t.Run(name, func(t *testing.T) { test(t, db, jobs.NewScheduler(db, kinds, jobs.Defaults())) })
	}
}

func apply(t *testing.T, s *jobs.Scheduler, documents ...jobs.Document) {
	t.Helper()
	if _, err := s.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ids returns the IDs of all jobs that a filter selects, in the order of the list.
func ids(t *testing.T, s *jobs.Scheduler, f jobs.Filter) (ids []string) {
	t.Helper()
	for {
		page, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for n := range page.Jobs {
			ids = append(ids, page.Jobs[n].Document.ID())
		}
		if page.Next == "" {
			return ids
		}
		f.After = page.Next
	}
}

// TestListFilter filters a list with one job in each state, each with its own labels and servers.
func TestListFilter(t *testing.T) {
	eachDatabase(t, jobs.Kinds{"fake": originKind{}, "other": originKind{}}, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		outcomes := map[string]*jobs.Outcome{
			"a/pending":   nil,
			"a/running":   nil,
			"a/idle":      {End: jobs.CaughtUp, Seen: 1},
			"a/crashing":  {End: jobs.Crashed, Reason: "no"},
			"b/paused":    nil,
			"b/completed": {End: jobs.Done},
			"b/failed":    {End: jobs.Rejected, Reason: "never"},
		}
		node, err := s.Join(t.Context(), jobs.Node{Name: "node-1", Slots: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range slices.Sorted(maps.Keys(outcomes)) {
			d := jobs.Document{
				Namespace: id[:1], Name: id[2:], Kind: "fake", Source: "https://db.test:443", Follow: true,
				Labels: map[string]string{"state": id[2:], "team": id[:1]}, Paused: id == "b/paused" || id == "a/pending",
			}
			if id == "b/completed" {
				d.Kind, d.Follow, d.Target = "other", false, "https://db.test.example:8080"
			}
			apply(t, s, d)
			if d.Paused {
				continue
			}
			runs, err := s.Admit(t.Context(), node, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range runs {
				id := r.Job.Document.ID()
				if outcomes[id] == nil {
					continue
				}
				if err := s.Finish(t.Context(), r, *outcomes[id]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := s.Resume(t.Context(), "a/pending"); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			name   string
			filter jobs.Filter
			want   string
		}{
			{"all", jobs.Filter{}, "[a/crashing a/idle a/pending a/running b/completed b/failed b/paused]"},
			{"namespace", jobs.Filter{Namespace: "b"}, "[b/completed b/failed b/paused]"},
			{"pending", jobs.Filter{States: []jobs.State{jobs.Pending}}, "[a/pending]"},
			{"crashing", jobs.Filter{States: []jobs.State{jobs.Crashing}}, "[a/crashing]"},
			{"states", jobs.Filter{States: []jobs.State{jobs.Running, jobs.Failed, jobs.Idle}}, "[a/idle a/running b/failed]"},
			{"states of a namespace", jobs.Filter{Namespace: "a", States: []jobs.State{jobs.Running, jobs.Failed, jobs.Idle}}, "[a/idle a/running]"},
			{"kind", jobs.Filter{Kind: "other"}, "[b/completed]"},
			{"label", jobs.Filter{Labels: map[string]string{"team": "b"}}, "[b/completed b/failed b/paused]"},
			{"labels", jobs.Filter{Labels: map[string]string{"team": "b", "state": "failed"}}, "[b/failed]"},
			{"part of a label", jobs.Filter{Labels: map[string]string{"team": ""}}, "[]"},
			{"label in capitals", jobs.Filter{Labels: map[string]string{"Team": "b"}}, "[]"},
			{"name", jobs.Filter{Name: "ing"}, "[a/crashing a/pending a/running]"},
			{"name with a namespace", jobs.Filter{Name: "b/"}, "[]"},
			{"origin", jobs.Filter{Origin: "https://db.test.example:8080"}, "[b/completed]"},
			{"host", jobs.Filter{Origin: "db.test.example"}, "[b/completed]"},
			{"host and port", jobs.Filter{Origin: "db.test.example:8080"}, "[b/completed]"},
			{"another port", jobs.Filter{Origin: "db.test.example:80"}, "[]"},
			{"host of all", jobs.Filter{Origin: "db.test", Namespace: "a"}, "[a/crashing a/idle a/pending a/running]"},
		} {
			for _, limit := range []int{0, 1, 2} {
				test.filter.Limit = limit
				if got := fmt.Sprint(ids(t, s, test.filter)); got != test.want {
					t.Errorf("%s, %d a page: %s, want %s", test.name, limit, got, test.want)
				}
			}
		}
		totals, err := s.Totals(t.Context(), jobs.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, state := range jobs.States() {
			if totals[state] != 1 {
				t.Errorf("%d jobs are %s, want 1", totals[state], state)
			}
		}
		page, err := s.List(t.Context(), jobs.Filter{Name: "running"})
		if err != nil {
			t.Fatal(err)
		}
		if l := page.Jobs[0]; l.Node != "node-1" || !l.Since.Equal(epoch) || l.Stats != nil {
			t.Errorf("node %q, since %v, stats %v", l.Node, l.Since, l.Stats)
		}
		if _, err := s.List(t.Context(), jobs.Filter{States: []jobs.State{"error"}}); err == nil {
			t.Error("an unknown state is accepted")
		}
		if _, err := s.List(t.Context(), jobs.Filter{After: "x"}); err == nil {
			t.Error("an invalid cursor is accepted")
		}
	})
}

// TestListStable creates and deletes jobs between pages.
func TestListStable(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		document := func(n int) jobs.Document {
			return jobs.Document{Namespace: "n", Name: fmt.Sprintf("%03d", n), Kind: "fake", Source: fmt.Sprint(n)}
		}
		var documents []jobs.Document
		for n := range 100 {
			documents = append(documents, document(2*n))
		}
		apply(t, s, documents...)
		seen := map[string]int{}
		f := jobs.Filter{Limit: 10}
		for n := 0; ; n++ {
			page, err := s.List(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for k := range page.Jobs {
				seen[page.Jobs[k].Document.ID()]++
			}
			if page.Next == "" {
				break
			}
			f.After = page.Next
			apply(t, s, document(2*n+1)) // sorts before the next page
			if err := s.Delete(t.Context(), page.Next); err != nil {
				t.Fatal(err)
			}
		}
		for k := range documents {
			if id := documents[k].ID(); seen[id] != 1 {
				t.Errorf("%s is in the list %d times", id, seen[id])
			}
		}
	})
}
