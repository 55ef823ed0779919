package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// observed is an observer that records what it is told.
type observed struct {
	mu      sync.Mutex
	started int
	healed  []time.Duration
	ended   []string
	woken   []string
}

func (o *observed) Started(*jobs.Document, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started++
}

func (o *observed) Healed(after time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.healed = append(o.healed, after)
}

func (o *observed) Ended(_ *jobs.Document, how string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = append(o.ended, how)
	slices.Sort(o.ended)
}

func (o *observed) Woken(origin, how string, jobs int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.woken = append(o.woken, fmt.Sprintf("%d at %s by %s", jobs, origin, how))
}

func (*observed) Adopted(int)                         {}
func (*observed) Looped(string, time.Duration, error) {}

// waits is a kind whose runs do nothing until they are ended.
type waits struct{ fakeKind }

func (waits) Run(ctx context.Context, _ *jobs.Session) error {
	<-ctx.Done()
	return ctx.Err()
}

// works runs a node until stop is called.
func works(t *testing.T, store *jobs.Scheduler, o jobs.Observer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- store.Work(ctx, jobs.WorkerConfig{Name: "node", Observer: o}) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestObserved: runs end in different ways, after a process that ran the same jobs was killed.
func TestObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inBubble(t, jobs.Kinds{"fake": waits{}})
		killed, err := store.Join(t.Context(), jobs.Node{Name: "killed", Slots: 10})
		if err != nil {
			t.Fatal(err)
		}
		var documents []jobs.Document
		for _, name := range []string{"cancelled", "changed", "deleted", "paused", "stopped"} {
			documents = append(documents, jobs.Document{Namespace: "n", Name: name, Kind: "fake", Source: name})
		}
		if _, err := store.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		if runs, err := store.Admit(t.Context(), killed, 2); err != nil || len(runs) != 2 {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		time.Sleep(time.Minute)
		o := new(observed)
		stop := works(t, store, o)
		time.Sleep(20 * time.Second)
		if _, err := store.Cancel(t.Context(), "n/cancelled"); err != nil {
			t.Fatal(err)
		}
		if err := store.Delete(t.Context(), "n/deleted"); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Pause(t.Context(), "n/paused"); err != nil {
			t.Fatal(err)
		}
		documents[1].Labels = map[string]string{"a": "b"}
		if _, err := store.Apply(t.Context(), documents[1:2], jobs.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second) // the changed job runs again
		stop()
		want := []string{"cancelled", "cancelled", "changed", "changed", "stopped", "stopped"}
		if !slices.Equal(o.ended, want) || o.started != len(want) {
			t.Errorf("%d runs started, and ended as %v; want %v", o.started, o.ended, want)
		}
		if len(o.healed) != 2 || slices.Min(o.healed) < time.Minute || slices.Max(o.healed) > 80*time.Second {
			t.Errorf("jobs of the process that was killed a minute before ran again after %v", o.healed)
		}
	})
}

// TestLostRun: other nodes consider a node lost before the node itself can know.
func TestLostRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store *jobs.Scheduler
		store = inBubble(t, jobs.Kinds{"fake": reporting{run: func(context.Context, *jobs.Session) error {
			time.Sleep(10 * time.Second)
			return jobs.Lose(store)
		}}})
		if _, err := store.Apply(t.Context(), []jobs.Document{{Namespace: "n", Name: "j", Kind: "fake", Source: "s"}}, jobs.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		o := new(observed)
		stop := works(t, store, o)
		time.Sleep(15 * time.Second)
		o.mu.Lock()
		defer stop()
		defer o.mu.Unlock()
		if !slices.Equal(o.ended, []string{"lost"}) {
			t.Errorf("the run of a lost node ended as %v", o.ended)
		}
	})
}

// TestLease follows the lease of a node while its heartbeats wait for the database.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := make(chan struct{}, 1) // holds a value while heartbeats wait
		db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock(), Before: func(_ context.Context, sql string) {
			if strings.HasPrefix(sql, "UPDATE @node SET expires") {
				away <- struct{}{}
				<-away
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		store := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
		if nodes := store.LocalNodes(); len(nodes) != 0 {
			t.Errorf("before the node works, there are nodes %v", nodes)
		}
		stop := works(t, store, nil)
		lease := func() time.Duration {
			nodes := store.LocalNodes()
			if len(nodes) != 1 || nodes[0].Name != "node" {
				t.Fatalf("nodes of this process are %v", nodes)
			}
			return nodes[0].Lease
		}
		time.Sleep(time.Minute)
		if left := lease(); left < 7*time.Second || left > 12*time.Second {
			t.Errorf("the lease lasts for %v", left)
		}
		away <- struct{}{}
		time.Sleep(13 * time.Second)
		if left := lease(); left > 0 {
			t.Errorf("13 s after the last heartbeat, the lease lasts for %v", left)
		}
		<-away
		time.Sleep(5 * time.Second)
		if left := lease(); left <= 0 {
			t.Errorf("after a heartbeat, the lease lasts for %v", left)
		}
		stop()
	})
}

// TestLag checks, at each point in the life of a job that follows, how much it is known to have left to do.
func TestLag(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, db *jobdb.DB, store *jobs.Scheduler) {
		s := &scene{t: t, db: db, store: store, now: epoch}
		n := s.join(jobs.Node{Name: "node", Slots: 10})
		s.apply("plain", "elsewhere", nil)
		s.run(n, jobs.Outcome{End: jobs.Rejected, Reason: "no"})
		s.apply("j", "server", func(d *jobs.Document) { d.Metrics = true })
		s.apply("once", "else", func(d *jobs.Document) { d.Follow, d.Metrics, d.Paused = false, true, true })
		is := func(at string, pending int64, lag time.Duration) {
			t.Helper()
			all, count, err := store.Lags(t.Context(), 10)
			want := jobs.Lag{Namespace: "n", Name: "j", Pending: pending, Lag: lag}
			if err != nil || count != 1 || len(all) != 1 || all[0] != want {
				t.Errorf("%s: %+v, %d, %v; want %+v", at, all, count, err, want)
			}
			counts, err := store.Counts(t.Context(), 0, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			known := 0
			for _, c := range counts {
				if known += c.Lags; c.Lag != lag && c.Jobs == 1 && c.Lags == 1 || c.Lags == 1 && (c.LagSum != lag || c.Within[0] == 1 != (lag == 0) || c.Within[1] == 1 != (lag <= time.Hour)) {
					t.Errorf("%s: %+v, want a lag of %v", at, c, lag)
				}
			}
			if (known == 1) != (lag >= 0) {
				t.Errorf("%s: the lag of %d jobs is known", at, known)
			}
		}
		beat := func() { s.must(store.Heartbeat(t.Context(), n)) }
		s.pass(5 * time.Second)
		is("waits for its first run", -1, 5*time.Second)
		runs := s.admit(n, 10)
		s.pass(5 * time.Second)
		is("has not reported", -1, 10*time.Second)
		s.must(store.Finish(t.Context(), runs[0], jobs.Outcome{End: jobs.Crashed, Reason: "x", Stats: &jobs.Stats{Entities: 1, Pending: 7, Lag: 2 * time.Hour}}))
		is("crashed", 7, 2*time.Hour)
		beat()
		s.pass(10 * time.Second)
		is("waits after the crash", 7, 2*time.Hour+10*time.Second)
		s.pass(50 * time.Second)
		n = s.join(jobs.Node{Name: "node", Slots: 10})
		runs = s.admit(n, 10)
		s.must(store.Finish(t.Context(), runs[0], jobs.Outcome{End: jobs.Stopped, Stats: &jobs.Stats{Pending: -1, Lag: -1}}))
		s.pass(time.Second)
		is("was stopped, and does not know", -1, 71*time.Second)
		s.run(n, jobs.Outcome{End: jobs.CaughtUp, Seen: 1, Stats: &jobs.Stats{Pending: 1, Lag: time.Second}})
		beat()
		s.pass(time.Hour)
		is("caught up", 0, 0)
		n = s.join(jobs.Node{Name: "node", Slots: 10})
		s.must(store.Wake(t.Context(), "n/j"))
		s.pass(3 * time.Second)
		is("is woken", -1, 3*time.Second)
		runs = s.admit(n, 10)
		s.must(store.Finish(t.Context(), runs[0], jobs.Outcome{End: jobs.CaughtUp, Seen: 1, Stats: &jobs.Stats{}}))
		s.pass(2 * time.Second)
		is("has caught up, but there is more", -1, 2*time.Second)
		if _, err := store.Pause(t.Context(), "n/j"); err != nil {
			t.Fatal(err)
		}
		is("is paused", -1, -1)
	})
}

// TestRunError checks that the last error of a job is kept, together with its hint, until the job is changed, however
// much happens in between.
func TestRunError(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, db *jobdb.DB, store *jobs.Scheduler) {
		s := &scene{t: t, db: db, store: store, now: epoch}
		n := s.join(jobs.Node{Name: "node", Slots: 10})
		s.apply("j", "server", nil)
		s.run(n, jobs.Outcome{End: jobs.Crashed, Reason: "it broke\x00", Hint: "mending it"})
		want := jobs.RunError{Time: s.now, Message: "it broke�", Hint: "mending it"}
		for range 15 {
			if _, err := store.Restart(t.Context(), "n/j"); err != nil {
				t.Fatal(err)
			}
			s.run(n, jobs.Outcome{End: jobs.CaughtUp, Seen: 100})
			exec(t, db, "UPDATE @job SET seen = wanted, state = 'idle', behind = 0")
		}
		d, err := store.Describe(t.Context(), "n/j")
		if err != nil || d.LastError == nil || *d.LastError != want {
			t.Errorf("the last error is %+v, want %+v; %v", d.LastError, want, err)
		}
		for _, e := range d.Events {
			if e.Type == jobs.EventCrashed {
				t.Error("the crash is still in the history")
			}
		}
		s.apply("j", "server", func(d *jobs.Document) { d.Labels = map[string]string{"a": "b"} })
		if d, err := store.Describe(t.Context(), "n/j"); err != nil || d.LastError != nil {
			t.Errorf("after the job was changed, its last error is %+v; %v", d.LastError, err)
		}
	})
}

// served is a kind of job that waits for changes of its source, which is a server or local files.
type served struct{ fakeKind }

func (served) Identify(d *jobs.Document) jobs.Identity {
	i := jobs.Identity{Work: d.ID(), Watch: jobs.Watch{Type: "fake", Server: d.Source, Name: d.Name}}
	if strings.HasPrefix(d.Source, "https:") {
		i.SourceOrigin = d.Source
	}
	return i
}

// TestWoken: jobs with a server or local files as their source are woken by a watch, or because no watch covers them.
func TestWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inBubble(t, jobs.Kinds{"fake": served{}})
		var documents []jobs.Document
		for _, source := range []string{"https://a.test:443", "https://a.test:443", "file:/data"} {
			documents = append(documents, jobs.Document{Namespace: "n", Name: fmt.Sprint("j", len(documents)), Kind: "fake", Source: source, Follow: true})
		}
		if _, err := store.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		o := new(observed)
		stop := works(t, store, o)
		wake := func(server string) {
			time.Sleep(time.Minute)
			if _, err := store.WakeChanged(t.Context(), jobs.Watched{Type: "fake", Server: server}, map[string]string{"j0": "", "j1": "", "j2": "", "x": ""}); err != nil {
				t.Error(err)
			}
		}
		wake("https://a.test:443")
		wake("file:/data")
		wake("https://b.test:443")
		time.Sleep(time.Minute)
		if _, err := store.Sweep(t.Context(), time.Second, 10); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		stop()
		slices.Sort(o.woken[2:])
		want := []string{"2 at https://a.test:443 by event", "1 at file:/data by event", "1 at file:/data by sweep", "2 at https://a.test:443 by sweep"}
		if !slices.Equal(o.woken, want) {
			t.Errorf("woken: %q, want %q", o.woken, want)
		}
	})
}
