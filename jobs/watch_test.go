package jobs_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// waiters is a kind of job that waits for changes of its source, on the server given by its target.
type waiters struct{ fakeKind }

func (waiters) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.ID(), Watch: jobs.Watch{Type: "fake", Server: d.Target, Name: d.Source, Local: d.Placement.Node != ""}}
}

type watchTest struct {
	*testing.T
	db    *jobdb.DB
	store *jobs.Scheduler
}

func eachWatchTest(t *testing.T, test func(*watchTest)) {
	t.Helper()
	t.Parallel()
	for name, db := range databases(t) {
		t.Run(name, func(t *testing.T) {
			test(&watchTest{t, db, jobs.NewScheduler(db, jobs.Kinds{"wait": waiters{}}, jobs.Defaults())})
		})
	}
}

// apply creates jobs that follow, and are named after their sources.
func (t *watchTest) apply(server string, names ...string) {
	t.Helper()
	var documents []jobs.Document
	for _, name := range names {
		documents = append(documents, jobs.Document{Namespace: "test", Name: name, Kind: "wait", Source: name, Target: server, Follow: true})
	}
	if _, err := t.store.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (t *watchTest) join(name string) jobs.Node {
	t.Helper()
	n, err := t.store.Join(t.Context(), jobs.Node{Name: name, Slots: 100})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// idle runs all jobs that are due, until they have caught up.
func (t *watchTest) idle(n jobs.Node) {
	t.Helper()
	runs, err := t.store.Admit(t.Context(), n, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if err := t.store.Finish(t.Context(), r, jobs.Outcome{End: jobs.CaughtUp, Seen: r.Job.Wanted}); err != nil {
			t.Fatal(err)
		}
	}
}

func (t *watchTest) wantState(name string, want jobs.State) {
	t.Helper()
	j, err := t.store.Get(t.Context(), "test/"+name)
	if err != nil {
		t.Fatal(err)
	}
	if j.State != want {
		t.Errorf("%s is %s, want %s", name, j.State, want)
	}
}

func (t *watchTest) changed(server string, states map[string]string, want int) {
	t.Helper()
	woken, err := t.store.WakeChanged(t.Context(), jobs.Watched{Type: "fake", Server: server}, states)
	if err != nil {
		t.Fatal(err)
	}
	if woken != want {
		t.Errorf("%v has woken %d jobs, want %d", states, woken, want)
	}
}

func (t *watchTest) advance(d time.Duration) {
	t.Helper()
	exec(t.T, t.db, "UPDATE @clock SET at = at + $1", d.Microseconds())
}

func (t *watchTest) wantWatches(n jobs.Node, want map[string]string) {
	t.Helper()
	all, err := t.store.Watches(t.Context(), n, []string{"fake"}, func(jobs.Watched) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for w, position := range all {
		got[w.Server+w.Node] = position
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s watches %v, want %v", n.Name, got, want)
	}
}

// TestWakeChanged: only jobs of the given server wake when a state differs from the one with which they were last
// woken.
func TestWakeChanged(t *testing.T) {
	eachWatchTest(t, func(t *watchTest) {
		n := t.join("a")
		t.apply("one", "x", "y")
		t.apply("two", "z")
		t.changed("one", map[string]string{"x": "1", "y": "1", "z": "1"}, 2)
		t.idle(n)
		t.changed("one", map[string]string{"x": "1", "y": "2"}, 1)
		t.wantState("x", jobs.Idle)
		t.wantState("y", jobs.Pending)
		t.changed("two", map[string]string{"x": "3", "z": ""}, 1)
		t.wantState("z", jobs.Pending)
		t.changed("two", map[string]string{"z": ""}, 1) // an unknown state always wakes

		states, err := t.store.WatchStates(t.Context(), jobs.Watched{Type: "fake", Server: "one"})
		if want := map[string]string{"x": "1", "y": "2"}; err != nil || !maps.Equal(states, want) {
			t.Errorf("states are %v (error %v), want %v", states, err, want)
		}

		// A job that is woken during a run is not idle after the run.
		runs, err := t.store.Admit(t.Context(), n, 100)
		if err != nil {
			t.Fatal(err)
		}
		t.changed("one", map[string]string{"y": "3"}, 1)
		for _, r := range runs {
			if err := t.store.Finish(t.Context(), r, jobs.Outcome{End: jobs.CaughtUp, Seen: r.Job.Wanted}); err != nil {
				t.Fatal(err)
			}
		}
		t.wantState("y", jobs.Pending)
		t.wantState("z", jobs.Idle)
	})
}

// TestWatches: a watch has one owner, and gets another as soon as the owner is lost, leaves or
// gives up.
func TestWatches(t *testing.T) {
	eachWatchTest(t, func(t *watchTest) {
		a, b := t.join("a"), t.join("b")
		t.apply("one", "x", "y")
		t.wantWatches(a, map[string]string{"one": ""})
		t.wantWatches(b, nil)
		one := jobs.Watched{Type: "fake", Server: "one"}
		check := func(n jobs.Node, position string) {
			t.Helper()
			if err := t.store.WatchesChecked(t.Context(), n, []jobs.WatchCheck{{Watched: one, Position: position}}); err != nil {
				t.Fatal(err)
			}
		}
		check(a, "17")
		check(b, "3") // b has no watch
		t.wantWatches(a, map[string]string{"one": "17"})

		t.advance(jobs.Defaults().Lease / 2)
		if err := t.store.Heartbeat(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		t.advance(jobs.Defaults().Lease / 2)
		t.wantWatches(a, nil)
		t.wantWatches(b, map[string]string{"one": "17"})
		check(a, "99")
		t.wantWatches(b, map[string]string{"one": "17"})

		c := t.join("c")
		if err := t.store.WatchFailed(t.Context(), b, one, errBad, false); err != nil {
			t.Fatal(err)
		}
		t.wantWatches(c, nil)
		if err := t.store.WatchFailed(t.Context(), b, one, errBad, true); err != nil {
			t.Fatal(err)
		}
		status, err := t.store.Watch(t.Context(), "test/x")
		if err != nil || status.Error != errBad.Error() || status.By != "" {
			t.Errorf("the status of a watch that failed is %+v (error %v)", status, err)
		}
		t.wantWatches(c, map[string]string{"one": "17"})
		if err := t.store.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		t.wantWatches(b, map[string]string{"one": "17"})
		status, err = t.store.Watch(t.Context(), "test/x")
		if err != nil || status.By != "b" || status.Name != "x" || status.Checked.IsZero() {
			t.Errorf("the status of a watch is %+v (error %v)", status, err)
		}

		if err := t.store.Delete(t.Context(), "test/x", "test/y"); err != nil {
			t.Fatal(err)
		}
		t.wantWatches(b, nil)
		if _, err := t.store.Watch(t.Context(), "test/x"); !errors.Is(err, jobs.ErrNoJob) {
			t.Errorf("the watch of a deleted job: %v", err)
		}
	})
}

// TestWatchForgotten: a node is lost. Its watch of a server that no job uses is deleted.
func TestWatchForgotten(t *testing.T) {
	eachWatchTest(t, func(t *watchTest) {
		t.apply("used", "x")
		t.apply("unused", "y")
		t.wantWatches(t.join("a"), map[string]string{"used": "", "unused": ""})
		if err := t.store.Delete(t.Context(), "test/y"); err != nil {
			t.Fatal(err)
		}
		rows := func() (all []string) {
			if _, err := t.store.Reap(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := t.db.View(t.Context(), func(tx jobdb.Tx) error {
				return jobdb.Each(t.Context(), tx, "SELECT server FROM @watch ORDER BY server", nil, func(scan func(...any) error) error {
					all = append(all, "")
					return scan(&all[len(all)-1])
				})
			})
			if err != nil {
				t.Error(err)
			}
			return all
		}
		if got := rows(); len(got) != 2 {
			t.Errorf("while the node lives, there are watches of %v", got)
		}
		t.advance(jobs.Defaults().Lease)
		if got := rows(); len(got) != 1 || got[0] != "used" {
			t.Errorf("after the node was lost, there are watches of %v", got)
		}
	})
}

// TestLocalWatch: files of a node are watched by that node.
func TestLocalWatch(t *testing.T) {
	eachWatchTest(t, func(t *watchTest) {
		a, b := t.join("a"), t.join("b")
		var documents []jobs.Document
		for _, node := range []string{"a", "b"} {
			documents = append(documents, jobs.Document{Namespace: "test", Name: node, Kind: "wait", Source: "x", Target: "file:", Follow: true, Placement: jobs.Placement{Node: node}})
		}
		if _, err := t.store.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		t.wantWatches(a, map[string]string{"file:a": ""})
		t.wantWatches(b, map[string]string{"file:b": ""})
		t.idle(a)
		woken, err := t.store.WakeChanged(t.Context(), jobs.Watched{Type: "fake", Server: "file:", Node: "a"}, map[string]string{"x": "1"})
		if err != nil || woken != 1 {
			t.Errorf("%d jobs woken (error %v), want 1", woken, err)
		}
	})
}

// TestWatchPlacement: a node watches only what is needed by jobs that it may run.
func TestWatchPlacement(t *testing.T) {
	eachWatchTest(t, func(t *watchTest) {
		d := jobs.Document{Namespace: "test", Name: "x", Kind: "wait", Source: "x", Target: "inside", Follow: true, Placement: jobs.Placement{Labels: []string{"inside"}}}
		if _, err := t.store.Apply(t.Context(), []jobs.Document{d}, jobs.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		t.wantWatches(t.join("outside"), nil)
		inside, err := t.store.Join(t.Context(), jobs.Node{Name: "inside", Slots: 1, Labels: []string{"inside"}})
		if err != nil {
			t.Fatal(err)
		}
		t.wantWatches(inside, map[string]string{"inside": ""})
	})
}

// TestSweep: jobs that no working watch covers are woken when they have been idle for some time.
func TestSweep(t *testing.T) {
	eachWatchTest(t, func(t *watchTest) {
		n := t.join("a")
		t.apply("covered", "x")
		t.apply("failing", "y")
		t.apply("unwatched", "z1", "z2", "z3")
		t.wantWatches(n, map[string]string{"covered": "", "failing": "", "unwatched": ""})
		t.idle(n)
		t.advance(time.Minute)
		covered, failing := jobs.Watched{Type: "fake", Server: "covered"}, jobs.Watched{Type: "fake", Server: "failing"}
		if err := t.store.WatchesChecked(t.Context(), n, []jobs.WatchCheck{{Watched: covered}, {Watched: failing}}); err != nil {
			t.Fatal(err)
		}
		if err := t.store.WatchFailed(t.Context(), n, failing, errBad, false); err != nil {
			t.Fatal(err)
		}
		var woken []int
		for range 3 {
			some, err := t.store.Sweep(t.Context(), time.Minute, 3)
			if err != nil {
				t.Fatal(err)
			}
			woken = append(woken, some)
		}
		if want := []int{3, 1, 0}; !slices.Equal(woken, want) {
			t.Errorf("woken: %v, want %v", woken, want)
		}
		t.wantState("x", jobs.Idle)
		status, err := t.store.Watch(t.Context(), "test/y")
		if err != nil || status.Swept.IsZero() {
			t.Errorf("the status after a sweep is %+v (error %v)", status, err)
		}
		t.advance(time.Hour) // without a check
		if some, err := t.store.Sweep(t.Context(), time.Minute, 3); some != 1 || err != nil {
			t.Errorf("woken after an hour without a check: %d (error %v), want 1", some, err)
		}
	})
}
