package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// A scene is a scheduler at some point in time, for tests of how jobs are described.
type scene struct {
	t     *testing.T
	db    *jobdb.DB
	store *jobs.Scheduler
	now   time.Time
}

func (s *scene) pass(d time.Duration) {
	s.now = s.now.Add(d)
	exec(s.t, s.db, "UPDATE @clock SET at = $1", s.now.UnixMicro())
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) join(n jobs.Node) jobs.Node {
	s.t.Helper()
	n, err := s.store.Join(s.t.Context(), n)
	s.must(err)
	return n
}

// apply applies the job n/NAME, whose source is on a server, after the caller's change to the
// document.
func (s *scene) apply(name, server string, change func(*jobs.Document)) {
	s.t.Helper()
	d := jobs.Document{Namespace: "n", Name: name, Kind: "fake", Source: server, Follow: true, Backoff: jobs.Backoff{Min: time.Minute, Max: time.Minute}}
	if change != nil {
		change(&d)
	}
	apply(s.t, s.store, d)
}

func (s *scene) admit(n jobs.Node, most int) []jobs.Run {
	s.t.Helper()
	runs, err := s.store.Admit(s.t.Context(), n, most)
	s.must(err)
	return runs
}

// run runs the one job that is due.
func (s *scene) run(n jobs.Node, o jobs.Outcome) {
	s.t.Helper()
	runs := s.admit(n, 10)
	if len(runs) != 1 {
		s.t.Fatalf("%d jobs have started, want 1", len(runs))
	}
	s.must(s.store.Finish(s.t.Context(), runs[0], o))
}

func (s *scene) describe(name string) *jobs.Description {
	s.t.Helper()
	d, err := s.store.Describe(s.t.Context(), "n/"+name)
	s.must(err)
	return d
}

// TestWhy brings a job into each situation that has its own explanation.
func TestWhy(t *testing.T) {
	const server = "https://db.test:443"
	refused := &jobs.OriginError{Origin: server, Err: errors.New("connection refused")}
	tests := map[string]func(*scene){}
	for _, test := range []struct {
		name string
		do   func(*scene)
		want string
	}{
		{"no node", func(s *scene) { s.apply("job", server, nil) }, "no node is alive"},
		{"due", func(s *scene) {
			s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, nil)
		}, "due, and will start within seconds"},
		{"behind others", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("first", server, nil)
			s.admit(n, 1)
			for _, name := range []string{"b", "c", "job", "z"} {
				s.apply(name, server, nil)
			}
			s.apply("x", server, func(d *jobs.Document) { d.Namespace = "other" })
			s.apply("later", server, func(d *jobs.Document) { d.Namespace, d.Paused = "other", true })
		}, "waits for a slot: 2 jobs of its namespace are ahead of it, and 1 job of other namespaces is due"},
		{"most of its namespace", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 9})
			s.apply("first", server, nil)
			s.apply("job", server, nil)
			s.must(s.store.SetMaxRunning(s.t.Context(), "n", 1))
			s.admit(n, 9)
		}, "namespace n runs 1 job, the maximum"},
		{"pinned to a node that is lost", func(s *scene) {
			s.join(jobs.Node{Name: "b", Slots: 1})
			s.apply("job", server, func(d *jobs.Document) { d.Placement.Node = "b" })
			s.pass(time.Minute)
			s.join(jobs.Node{Name: "a", Slots: 1})
		}, "pinned to node b, which is not alive"},
		{"pinned to a node without the label", func(s *scene) {
			s.join(jobs.Node{Name: "b", Slots: 1, Labels: []string{"us"}})
			s.apply("job", server, func(d *jobs.Document) { d.Placement = jobs.Placement{Node: "b", Labels: []string{"eu"}} })
		}, "pinned to node b, which does not have all of the labels eu"},
		{"labels", func(s *scene) {
			s.join(jobs.Node{Name: "b", Slots: 1, Labels: []string{"eu"}})
			s.apply("job", server, func(d *jobs.Document) { d.Placement.Labels = []string{"eu", "ssd"} })
		}, "no node that is alive has all of the labels eu, ssd"},
		{"crashed", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, func(d *jobs.Document) { d.Schedule = "" })
			s.run(n, jobs.Outcome{End: jobs.Crashed, Reason: "disk full"})
			exec(s.t, s.db, "UPDATE @job SET not_before = $1", s.now.Add(time.Minute).UnixMicro())
		}, "crashed, and will be tried again at 2026-01-01T00:01:00Z: disk full"},
		{"crashed again", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, nil)
			s.run(n, jobs.Outcome{End: jobs.Crashed, Reason: "disk full"})
			s.pass(time.Minute)
			n = s.join(jobs.Node{Name: "a", Slots: 1})
			s.run(n, jobs.Outcome{End: jobs.Crashed, Reason: "disk full"})
			exec(s.t, s.db, "UPDATE @job SET not_before = $1", s.now.Add(time.Minute).UnixMicro())
		}, "crashed 2 times in a row, and will be tried again at 2026-01-01T00:02:00Z: disk full"},
		{"server down", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 9})
			for _, name := range []string{"b", "c", "job"} {
				s.apply(name, server, nil)
			}
			for _, r := range s.admit(n, 9) {
				s.must(s.store.Finish(s.t.Context(), r, jobs.Outcome{End: jobs.Crashed, Reason: refused.Error(), Origin: refused}))
			}
		}, "https://db.test:443 is down, and one of its jobs will try it again at 2026-01-01T00:00:05Z: connection refused"},
		{"server down, to be tried", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 9})
			for _, name := range []string{"b", "c", "job"} {
				s.apply(name, server, nil)
			}
			for _, r := range s.admit(n, 9) {
				s.must(s.store.Finish(s.t.Context(), r, jobs.Outcome{End: jobs.Crashed, Reason: refused.Error(), Origin: refused}))
			}
			s.pass(6 * time.Second)
		}, "https://db.test:443 is down, and one of its jobs will try it again now: connection refused"},
		{"server asks to wait", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 9})
			s.apply("job", server, nil)
			busy := &jobs.OriginError{Origin: server, Err: errors.New("429 Too Many Requests"), RetryAfter: 10 * time.Second}
			s.run(n, jobs.Outcome{End: jobs.Crashed, Reason: busy.Error(), Origin: busy})
		}, "https://db.test:443 asks its clients to wait until 2026-01-01T00:00:10Z: 429 Too Many Requests"},
		{"server is back", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 9})
			for _, name := range []string{"b", "c", "job"} {
				s.apply(name, server, nil)
			}
			for _, r := range s.admit(n, 9) {
				s.must(s.store.Finish(s.t.Context(), r, jobs.Outcome{End: jobs.Crashed, Reason: refused.Error(), Origin: refused}))
			}
			s.must(s.store.OriginUp(s.t.Context(), server))
			exec(s.t, s.db, "UPDATE @job SET not_before = $1", s.now.Add(3*time.Second).UnixMicro())
		}, "starts at 2026-01-01T00:00:03Z, so that not all jobs start at once"},
		{"schedule", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, func(d *jobs.Document) { d.Follow, d.Schedule = false, "17 3 * * *" })
			if runs := s.admit(n, 1); len(runs) > 0 {
				s.t.Error("the job has run before the first time of its schedule")
			}
			s.pass(4 * time.Hour)
			n = s.join(jobs.Node{Name: "a", Slots: 1})
			s.run(n, jobs.Outcome{End: jobs.Done})
		}, "its next scheduled run is at 2026-01-02T03:17:00Z"},
		{"running", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, nil)
			s.pass(time.Second)
			s.admit(n, 1)
		}, "running on node a since 2026-01-01T00:00:01Z"},
		{"running, paused", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, nil)
			s.admit(n, 1)
			_, err := s.store.Pause(s.t.Context(), "n/job")
			s.must(err)
		}, "node a is ending its run, as it was paused"},
		{"running, changed", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, nil)
			s.admit(n, 1)
			s.apply("job", server, func(d *jobs.Document) { d.Target = "https://other.test:443" })
		}, "node a is ending its run, as it was changed"},
		{"running on a node that is silent", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, nil)
			s.admit(n, 1)
			s.pass(14 * time.Second)
		}, "its node a was last heard from 14s ago, and another node will run it"},
		{"running on a node that is gone", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, nil)
			s.admit(n, 1)
			exec(s.t, s.db, "DELETE FROM @node")
			exec(s.t, s.db, "UPDATE @job SET owner = 'node-x'")
		}, "its node node-x has left, and another node will run it"},
		{"idle", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, nil)
			s.pass(time.Second)
			s.run(n, jobs.Outcome{End: jobs.CaughtUp, Seen: 1})
		}, "idle since 2026-01-01T00:00:01Z: caught up, waiting for its source to change"},
		{"paused", func(s *scene) {
			s.apply("job", server, func(d *jobs.Document) { d.Paused = true })
		}, "paused since 2026-01-01T00:00:00Z, until it is resumed"},
		{"completed", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, func(d *jobs.Document) { d.Follow = false })
			s.run(n, jobs.Outcome{End: jobs.Done})
		}, "completed at 2026-01-01T00:00:00Z"},
		{"failed", func(s *scene) {
			n := s.join(jobs.Node{Name: "a", Slots: 1})
			s.apply("job", server, nil)
			s.run(n, jobs.Outcome{End: jobs.Rejected, Reason: "401 Unauthorized"})
		}, "failed at 2026-01-01T00:00:00Z, and will not be tried again until it is changed or restarted: 401 Unauthorized"},
	} {
		tests[test.name] = func(s *scene) {
			test.do(s)
			if d := s.describe("job"); d.Why != test.want {
				s.t.Errorf("%s: %s\nwant %s", d.State, d.Why, test.want)
			}
		}
	}
	eachScene(t, tests)
}

// eachScene runs each test on an empty scheduler, for each kind of database.
func eachScene(t *testing.T, tests map[string]func(*scene)) {
	t.Helper()
	eachDatabase(t, jobs.Kinds{"fake": originKind{}}, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				for _, table := range []string{"@job", "@event", "@node", "@tenant", "@origin", "@stats"} {
					exec(t, db, "DELETE FROM "+table)
				}
				s := &scene{t, db, s, epoch}
				s.pass(0)
				test(s)
			})
		}
	})
}

// TestDescribe describes a running job.
func TestDescribe(t *testing.T) {
	eachScene(t, map[string]func(*scene){"": func(s *scene) {
		n := s.join(jobs.Node{Name: "a", Slots: 1})
		s.apply("job", "https://db.test:443", nil)
		s.pass(2 * time.Second)
		s.admit(n, 1)
		d := s.describe("job")
		if d.Node != "a" || d.State != jobs.Running || d.Lease == nil || d.Lease.Age != 2*time.Second || d.Lease.Stale {
			s.t.Errorf("state %s, node %q, lease %+v", d.State, d.Node, d.Lease)
		}
		if len(d.Events) != 2 || d.Events[0].Type != jobs.EventStarted || d.Events[1].Type != jobs.EventAdded {
			s.t.Errorf("events %+v", d.Events)
		}
		s.pass(10 * time.Second)
		if d := s.describe("job"); !d.Lease.Stale || d.Lease.Age != 12*time.Second {
			s.t.Errorf("lease of a lost node: %+v", d.Lease)
		}
		if _, err := s.store.Describe(s.t.Context(), "n/other"); !errors.Is(err, jobs.ErrNoJob) {
			s.t.Errorf("a job that does not exist: %v", err)
		}
	}})
}
