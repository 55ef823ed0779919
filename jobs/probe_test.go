package jobs_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

var originKinds = jobs.Kinds{"fake": originKind{}}

// probing is a node whose runs are ended by the test.
type probing struct {
	*testing.T
	db    *jobdb.DB
	store *jobs.Scheduler
	node  jobs.Node
}

func newProbing(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) *probing {
	t.Helper()
	node, err := s.Join(t.Context(), jobs.Node{Name: "n", Slots: 10})
	if err != nil {
		t.Fatal(err)
	}
	return &probing{t, db, s, node}
}

// at sets the time since the epoch.
func (p *probing) at(after time.Duration) {
	p.Helper()
	exec(p.T, p.db, "UPDATE @clock SET at = $1", epoch.Add(after).UnixMicro())
	if err := p.store.Heartbeat(p.Context(), p.node); err != nil {
		p.Fatal(err)
	}
}

// admit starts jobs.
func (p *probing) admit(most int) []jobs.Run {
	p.Helper()
	runs, err := p.store.Admit(p.Context(), p.node, most)
	if err != nil {
		p.Fatal(err)
	}
	return runs
}

func (p *probing) finish(r jobs.Run, o jobs.Outcome) {
	p.Helper()
	if err := p.store.Finish(p.Context(), r, o); err != nil {
		p.Fatal(err)
	}
}

// fail ends a run because of a server, which may ask its clients to wait.
func (p *probing) fail(r jobs.Run, server string, after time.Duration) {
	p.Helper()
	e := &jobs.OriginError{Origin: server, Err: errors.New("503"), RetryAfter: after}
	p.finish(r, jobs.Outcome{End: jobs.Crashed, Reason: e.Error(), Origin: e})
}

func follower(name, source, target string) jobs.Document {
	return jobs.Document{Namespace: "n", Name: name, Kind: "fake", Source: source, Target: target, Follow: true}
}

// TestProbesAfterRetryAfter: a server is found to be down while it asks its clients to wait. After
// the wait, it is probed like any other.
func TestProbesAfterRetryAfter(t *testing.T) {
	eachDatabase(t, originKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		const server = "https://down.test"
		for n := range 20 {
			apply(t, s, follower(fmt.Sprint(n), server, fmt.Sprint("https://t", n)))
		}
		p := newProbing(t, db, s)
		for _, r := range p.admit(3) {
			p.fail(r, server, 10*time.Second)
		}
		var probes []int
		for second := 11; second <= 130; second++ {
			p.at(time.Duration(second) * time.Second)
			for range 2 { // the end of each run lets the next admission begin
				for _, r := range p.admit(10) {
					probes = append(probes, second)
					p.fail(r, server, 0)
				}
			}
		}
		if diff := cmp.Diff([]int{11, 21, 41, 81}, probes); diff != "" { // the pause doubles
			t.Errorf("seconds of the probes: %s", diff)
		}
	})
}

// TestProbeOfTwoServers: both servers of some jobs are down, and have asked their clients to wait.
// One of these jobs probes at a time, and jobs with other servers start.
func TestProbeOfTwoServers(t *testing.T) {
	eachDatabase(t, originKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		servers := []string{"https://a.test", "https://b.test"}
		for n := range 6 {
			apply(t, s, follower(fmt.Sprint(n), servers[0], servers[1]))
		}
		p := newProbing(t, db, s)
		for n, r := range p.admit(6) {
			p.fail(r, servers[n%2], 10*time.Second)
		}
		p.at(11 * time.Second)
		apply(t, s, follower("other", "https://c.test", "https://d.test"))
		runs := p.admit(10)
		if len(runs) != 2 || runs[1].Job.Document.Name != "other" {
			t.Errorf("%d runs, want a probe and the job with other servers", len(runs))
		}
	})
}

// TestProbesOfOtherServers: two servers are down, and one slot is free. No job could probe one of
// the servers; the other is probed nevertheless.
func TestProbesOfOtherServers(t *testing.T) {
	eachDatabase(t, originKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		const used, unused = "https://b.test", "https://a.test"
		var paused []string
		for n := range 3 {
			a, b := follower(fmt.Sprint("a", n), unused, ""), follower(fmt.Sprint("b", n), used, "")
			apply(t, s, a, b)
			paused = append(paused, a.ID())
		}
		p := newProbing(t, db, s)
		for _, r := range p.admit(6) {
			p.fail(r, r.Job.Document.Source, 0)
		}
		if _, err := s.Pause(t.Context(), paused...); err != nil {
			t.Fatal(err)
		}
		p.at(6 * time.Second)
		if runs := p.admit(1); len(runs) != 1 || runs[0].Job.Document.Source != used {
			t.Errorf("%d probes, want one of %s", len(runs), used)
		}
	})
}

// TestUnusedServers: what is known about servers that no job uses any more is deleted, but not
// while the servers ask their clients to wait.
func TestUnusedServers(t *testing.T) {
	eachDatabase(t, originKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		deleted, kept := follower("a", "https://a.test", ""), follower("b", "https://s.test", "https://b.test")
		apply(t, s, deleted, kept)
		p := newProbing(t, db, s)
		for _, r := range p.admit(2) {
			p.fail(r, map[string]string{"a": "https://a.test", "b": "https://b.test"}[r.Job.Document.Name], 10*time.Second)
		}
		if err := s.Delete(t.Context(), deleted.ID()); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			at   time.Duration
			want int
		}{{9 * time.Second, 2}, {10 * time.Second, 1}, {time.Hour, 1}} {
			p.at(step.at)
			if _, err := s.Reap(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := (&lostTest{t, db}).number("SELECT count(*) FROM @origin"); n != step.want {
				t.Errorf("after %v %d servers are known, want %d", step.at, n, step.want)
			}
		}
	})
}

// TestWaitIsLimited: a server asks its clients to wait for decades, and its job runs again after
// five minutes.
func TestWaitIsLimited(t *testing.T) {
	eachDatabase(t, originKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		apply(t, s, follower("a", "https://a.test", ""))
		p := newProbing(t, db, s)
		p.fail(p.admit(1)[0], "https://a.test", math.MaxInt32*time.Second)
		p.at(4 * time.Minute)
		if len(p.admit(1)) != 0 {
			t.Error("the job ran again after 4 min")
		}
		p.at(5 * time.Minute)
		if len(p.admit(1)) != 1 {
			t.Error("the job did not run again after 5 min")
		}
	})
}

// TestProbesKeepSchedules: a job that waits for its schedule while its server is down does not
// probe the server before its time.
func TestProbesKeepSchedules(t *testing.T) {
	eachDatabase(t, originKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		const server = "https://down.test"
		nightly := jobs.Document{Namespace: "n", Name: "nightly", Kind: "fake", Source: server, Schedule: "17 3 * * *"}
		apply(t, s, nightly)
		p := newProbing(t, db, s)
		for n := range 3 {
			apply(t, s, follower(fmt.Sprint(n), server, ""))
			p.fail(p.admit(1)[0], server, 0)
		}
		p.at(6 * time.Second)
		runs := p.admit(10)
		if len(runs) != 1 || runs[0].Job.Document.Name == nightly.Name {
			t.Fatalf("%d probes, want one that is not the job with a schedule", len(runs))
		}
		p.fail(runs[0], server, 0)
		p.at(3*time.Hour + 17*time.Minute)
		if runs := p.admit(10); len(runs) != 1 || runs[0].Job.Document.Name != nightly.Name {
			t.Errorf("%d probes at the time of the schedule, want one by its job", len(runs))
		}
	})
}
