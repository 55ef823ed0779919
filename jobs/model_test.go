package jobs_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

var walks = flag.Int("walks", 4, "how many random walks through the states")

// size returns the size of a test: the first argument or, with -short, which is for the race detector, the second.
func size(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}

// fakeKind is a kind of job that does nothing.
type fakeKind struct{}

func (fakeKind) Check(d *jobs.Document) []jobs.Problem {
	if d.Source == "" {
		return []jobs.Problem{{Field: "source", Message: "there is no source"}}
	}
	return nil
}

func (fakeKind) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.Source + " " + d.Target, Target: d.Target}
}

func (fakeKind) Run(context.Context, *jobs.Session) error { return nil }

var fakeKinds = jobs.Kinds{"fake": fakeKind{}}

// databases returns empty databases, with a clock that tests set.
func databases(t *testing.T) map[string]*jobdb.DB {
	t.Helper()
	all := map[string]*jobdb.DB{}
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(t).URL("jobs"),
	} {
		db, err := jobdb.Open(t.Context(), url, jobdb.Options{Clock: "(SELECT at FROM @clock)"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		exec(t, db, "CREATE TABLE @clock (at bigint NOT NULL)")
		exec(t, db, "INSERT INTO @clock (at) VALUES ($1)", epoch.UnixMicro())
		all[name] = db
	}
	return all
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func exec(t *testing.T, db *jobdb.DB, sql string, args ...any) {
	t.Helper()
	err := db.Begin(t.Context(), func(tx jobdb.Tx) error {
		_, err := tx.Exec(context.WithoutCancel(t.Context()), sql, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// TestStates walks at random through the states of a few jobs on a few nodes, some of which
// are lost and come back, and compares each step with a model.
func TestStates(t *testing.T) {
	t.Parallel()
	for name, db := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range size(*walks, 1) {
				seed := rand.Uint64()
				exec(t, db, "DELETE FROM @job")
				exec(t, db, "DELETE FROM @event")
				exec(t, db, "DELETE FROM @node")
				w := &walk{t: t, db: db, store: jobs.NewScheduler(db, fakeKinds, jobs.Defaults()), random: rand.New(rand.NewPCG(seed, 0)), seed: seed, now: epoch, model: map[string]*modelJob{}}
				exec(t, db, "UPDATE @clock SET at = $1", w.now.UnixMicro())
				for range size(400, 150) {
					w.step()
				}
			}
		})
	}
}

// A modelJob is the state that a job should have.
type modelJob struct {
	source                  string
	desiredPaused, asPaused bool // now, and as applied
	state                   jobs.State
	generation, observed    int64
	epoch                   int64
	owner                   string
	wanted, seen            int64
	after                   time.Time // because of errors, the job is not due before this time
	crashes                 int64
}

type modelNode struct {
	node    jobs.Node
	expires time.Time
	left    bool // the node has left or is lost
}

type walk struct {
	t      *testing.T
	db     *jobdb.DB
	store  *jobs.Scheduler
	random *rand.Rand
	seed   uint64
	now    time.Time
	model  map[string]*modelJob
	nodes  []*modelNode
	runs   []jobs.Run // all runs that ever began
	log    []string
}

func (w *walk) step() {
	steps := []func() string{
		w.apply, w.pause, w.resume, w.restart, w.wake, w.join, w.heartbeat, w.heartbeat, w.heartbeat, w.leave, w.reap,
		w.admit, w.admit, w.admit, w.finish, w.finish, w.finish, w.finish, w.remove, w.wait,
	}
	w.pass(time.Microsecond)
	w.log = append(w.log, steps[w.random.IntN(len(steps))]())
	w.compare()
}

func (w *walk) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-30):] {
		w.t.Log(line)
	}
	w.t.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

func (w *walk) must(err error) {
	w.t.Helper()
	if err != nil {
		w.fail("%v", err)
	}
}

func (w *walk) id() string {
	return fmt.Sprintf("%c/job-%d", 'a'+rune(w.random.IntN(2)), w.random.IntN(4))
}

func (w *walk) apply() string {
	id := w.id()
	d := jobs.Document{
		Namespace: id[:1], Name: id[2:], Kind: "fake", Source: id + fmt.Sprint(w.random.IntN(2)),
		Follow: true, Paused: w.random.IntN(4) == 0,
	}
	changes, err := w.store.Apply(w.t.Context(), []jobs.Document{d}, jobs.ApplyOptions{})
	w.must(err)
	m, ok := w.model[id]
	switch {
	case !ok:
		m = &modelJob{generation: 1, state: jobs.Pending, wanted: 1, desiredPaused: d.Paused, epoch: w.now.UnixMicro()}
		if d.Paused {
			m.state = jobs.Paused
		}
		w.model[id] = m
	case m.source != d.Source || m.asPaused != d.Paused:
		m.generation++
		if m.asPaused != d.Paused {
			m.desiredPaused = d.Paused
		}
		if m.state != jobs.Running {
			m.due()
			if m.desiredPaused {
				m.state = jobs.Paused
				m.wanted--
			}
		}
	default:
		if changes[0].Action != jobs.Unchanged {
			w.fail("apply %s again: %v", id, changes[0].Action)
		}
	}
	m.source, m.asPaused = d.Source, d.Paused
	return fmt.Sprintf("apply %s: %v", id, changes[0].Action)
}

func (m *modelJob) due() {
	m.state, m.crashes, m.after = jobs.Pending, 0, time.Time{}
	m.wanted++
}

func (m *modelJob) finished() bool { return m.state == jobs.Failed || m.state == jobs.Completed }

// change calls a method of the store, and changes the model in the same way.
func (w *walk) change(what string, do func(context.Context, ...string) (int, error), model func(*modelJob)) string {
	id := w.id()
	_, err := do(w.t.Context(), id)
	m, ok := w.model[id]
	if !ok {
		if !errors.Is(err, jobs.ErrNoJob) {
			w.fail("%s %s, which does not exist: %v", what, id, err)
		}
		return what + " " + id + ": no such job"
	}
	w.must(err)
	model(m)
	return what + " " + id
}

func (w *walk) pause() string {
	return w.change("pause", w.store.Pause, func(m *modelJob) {
		if m.finished() {
			return
		}
		if !m.desiredPaused && m.state != jobs.Running {
			m.state, m.after = jobs.Paused, time.Time{}
		}
		m.desiredPaused = true
	})
}

func (w *walk) resume() string {
	return w.change("resume", w.store.Resume, func(m *modelJob) {
		if m.state == jobs.Paused {
			m.due()
		}
		m.desiredPaused = false
	})
}

func (w *walk) restart() string {
	return w.change("restart", w.store.Restart, func(m *modelJob) {
		if m.state != jobs.Running && m.state != jobs.Paused {
			m.due()
		}
	})
}

func (w *walk) wake() string {
	id := w.id()
	w.must(w.store.Wake(w.t.Context(), id))
	if m, ok := w.model[id]; ok && (m.state == jobs.Idle || m.state == jobs.Running || m.state == jobs.Pending) {
		m.wanted++
		if m.state == jobs.Idle {
			m.state = jobs.Pending
		}
	}
	return "wake " + id
}

func (w *walk) join() string {
	n, err := w.store.Join(w.t.Context(), jobs.Node{Name: fmt.Sprintf("n%d", w.random.IntN(3)), Slots: 4})
	w.must(err)
	w.nodes = append(w.nodes, &modelNode{node: n, expires: w.now.Add(12 * time.Second)})
	return "join " + n.Incarnation
}

// node returns one of the latest nodes, or nil. Earlier nodes are silent.
func (w *walk) node() *modelNode {
	if len(w.nodes) == 0 {
		return nil
	}
	return w.nodes[len(w.nodes)-1-w.random.IntN(min(len(w.nodes), 4))]
}

func (n *modelNode) alive(now time.Time) bool { return !n.left && n.expires.After(now) }

func (w *walk) heartbeat() string {
	n := w.node()
	if n == nil {
		return "(no node)"
	}
	err := w.store.Heartbeat(w.t.Context(), n.node)
	if n.left {
		if !errors.Is(err, jobs.ErrExpired) {
			w.fail("heartbeat of lost node %s: %v", n.node.Incarnation, err)
		}
		return "heartbeat of lost " + n.node.Incarnation
	}
	if errors.Is(err, jobs.ErrNamesake) && slices.ContainsFunc(w.nodes, func(o *modelNode) bool { return o != n && o.node.Name == n.node.Name && !o.left }) {
		return "heartbeat of " + n.node.Incarnation + ", which has the name of another one"
	}
	w.must(err)
	n.expires = w.now.Add(12 * time.Second)
	return "heartbeat of " + n.node.Incarnation
}

func (w *walk) lose(which func(owner string) bool) {
	for _, m := range w.model {
		if m.state == jobs.Running && which(m.owner) {
			m.state, m.owner = jobs.Pending, ""
			m.epoch++
			if m.desiredPaused {
				m.state = jobs.Paused
			}
		}
	}
}

func (w *walk) leave() string {
	n := w.node()
	if n == nil {
		return "(no node)"
	}
	w.must(w.store.Leave(w.t.Context(), n.node))
	n.left = true
	w.lose(func(owner string) bool { return owner == n.node.Incarnation })
	return "leave of " + n.node.Incarnation
}

func (w *walk) reap() string {
	count, err := w.store.Reap(w.t.Context())
	w.must(err)
	for _, n := range w.nodes {
		n.left = !n.alive(w.now)
	}
	w.lose(func(owner string) bool {
		for _, n := range w.nodes {
			if n.node.Incarnation == owner {
				return n.left
			}
		}
		return true
	})
	return fmt.Sprintf("reap: %d", count)
}

func (w *walk) admit() string {
	n := w.node()
	if n == nil {
		return "(no node)"
	}
	var waiting int
	for _, m := range w.model {
		if m.state == jobs.Pending && !m.after.After(w.now) {
			waiting++
		}
	}
	most := w.random.IntN(4)
	runs, err := w.store.Admit(w.t.Context(), n.node, most)
	if most > 0 && !n.alive(w.now) {
		if !errors.Is(err, jobs.ErrExpired) {
			w.fail("lost node %s starts %d jobs: %v", n.node.Incarnation, len(runs), err)
		}
		return "admit on lost " + n.node.Incarnation
	}
	w.must(err)
	if len(runs) != min(most, waiting) {
		w.fail("%d jobs were started, %d wait, there is room for %d", len(runs), waiting, most)
	}
	for _, r := range runs {
		m := w.model[r.Job.Document.ID()]
		if m.state != jobs.Pending || m.after.After(w.now) {
			w.fail("%s was started: %+v", r.Job.Document.ID(), m)
		}
		m.state, m.owner, m.observed = jobs.Running, n.node.Incarnation, m.generation
		m.epoch++
	}
	w.runs = append(w.runs, runs...)
	return fmt.Sprintf("admit on %s: %d", n.node.Incarnation, len(runs))
}

func (w *walk) finish() string {
	if len(w.runs) == 0 {
		return "(no run)"
	}
	r := w.runs[len(w.runs)-1-w.random.IntN(min(len(w.runs), 6))]
	id := r.Job.Document.ID()
	m := w.model[id]
	current := m != nil && m.epoch == r.Job.Epoch && m.state == jobs.Running
	o := jobs.Outcome{End: jobs.End(w.random.IntN(6))}
	if m != nil {
		o.Seen = m.wanted - int64(w.random.IntN(2))
	}
	err := w.store.Finish(w.t.Context(), r, o)
	what := fmt.Sprintf("finish run %d of %s: %v", r.Job.Epoch, id, o)
	if !current {
		if !errors.Is(err, jobs.ErrFenced) {
			w.fail("%s, which is not the current run: %v", what, err)
		}
		return what + ": fenced"
	}
	w.must(err)
	m.finish(w.now, r, o)
	return what
}

func (m *modelJob) finish(now time.Time, r jobs.Run, o jobs.Outcome) {
	m.owner, m.after = "", time.Time{}
	healthy := now.Sub(r.Job.Started) >= 2*time.Minute
	if healthy || o.End == jobs.CaughtUp || o.End == jobs.Done {
		m.crashes = 0
	}
	switch o.End {
	case jobs.Stopped:
		m.state = jobs.Pending
	case jobs.CaughtUp:
		m.seen = max(m.seen, o.Seen)
		m.state = jobs.Pending
		if m.seen == m.wanted {
			m.state = jobs.Idle
		}
	case jobs.Done:
		m.state = jobs.Completed
	case jobs.Crashed:
		m.state = jobs.Pending
		m.crashes++
		m.after = now.Add(1) // a placeholder, until compare reads the time
	case jobs.Duplicate:
		m.state = jobs.Pending
		m.after = now.Add(2) // a placeholder as well, for the time after one error
	case jobs.Rejected:
		m.state = jobs.Failed
		m.crashes++
	}
	if m.desiredPaused && !m.finished() {
		m.state, m.after = jobs.Paused, time.Time{}
	} else if m.generation != m.observed {
		m.state, m.after, m.crashes = jobs.Pending, time.Time{}, 0
	}
}

func (w *walk) remove() string {
	if w.random.IntN(3) > 0 {
		return "(nothing)"
	}
	id := w.id()
	w.must(w.store.Delete(w.t.Context(), id))
	delete(w.model, id)
	return "delete " + id
}

func (w *walk) wait() string {
	d := time.Duration(w.random.IntN(8)) * time.Second
	w.pass(d)
	return fmt.Sprintf("%v pass", d)
}

func (w *walk) pass(d time.Duration) {
	w.now = w.now.Add(d)
	exec(w.t, w.db, "UPDATE @clock SET at = $1", w.now.UnixMicro())
}

// compare compares all jobs with the model.
func (w *walk) compare() {
	w.t.Helper()
	for id, m := range w.model {
		j, err := w.store.Get(w.t.Context(), id)
		w.must(err)
		if !m.after.IsZero() {
			d := j.NotBefore.Sub(m.after)
			if full := 30 * time.Second << min(max(m.crashes-1, 0), 10); m.after.Nanosecond()%1000 == 1 && (d < min(full, time.Hour)*3/4-time.Second || d > min(full, time.Hour)) {
				w.fail("%s waits %v after %d errors", id, d, m.crashes)
			}
			m.after = j.NotBefore
		}
		got := modelJob{
			source: j.Document.Source, desiredPaused: j.Document.Paused, asPaused: m.asPaused, state: j.State, generation: j.Generation, observed: j.Observed,
			epoch: j.Epoch, owner: j.Owner, wanted: j.Wanted, seen: j.Seen, after: j.NotBefore, crashes: j.Errors,
		}
		if got != *m {
			w.fail("%s is\n%+v, want\n%+v", id, got, *m)
		}
		history, err := w.store.History(w.t.Context(), id)
		w.must(err)
		if len(history) == 0 || len(history) > 20 {
			w.fail("%s has %d events, want 1 to 20", id, len(history))
		}
	}
}
