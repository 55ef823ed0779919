package watch_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/watch"
)

// waits is a kind of job that waits for the name given by its source, on the server given by its
// target.
type waits struct{}

func (waits) Check(*jobs.Document) []jobs.Problem { return nil }

func (waits) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.ID(), Watch: jobs.Watch{Type: "fake", Server: d.Target, Name: d.Source}}
}

func (waits) Run(context.Context, *jobs.Session) error { return nil }

// fake is a source whose servers are controlled by tests.
type fake struct {
	mu      sync.Mutex
	active  map[string]*watch.Watched
	begun   map[string]int
	failing map[string]error
}

func newFake() *fake {
	return &fake{active: map[string]*watch.Watched{}, begun: map[string]int{}, failing: map[string]error{}}
}

func (f *fake) Watch(ctx context.Context, w *watch.Watched) error {
	f.mu.Lock()
	f.begun[w.Server]++
	err := f.failing[w.Server]
	if f.active[w.Server] != nil {
		panic(w.Server + " is watched twice")
	}
	f.active[w.Server] = w
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.active, w.Server)
	}()
	if err == nil {
		<-ctx.Done()
		err = ctx.Err()
	}
	return err
}

func (f *fake) at(server string) *watch.Watched {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.active[server]
}

func (f *fake) fail(server string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing[server] = err
}

type managerTest struct {
	*testing.T
	store  *jobs.Scheduler
	source *fake
}

// inFakeTime runs a test in fake time, with a scheduler on SQLite; the clock of the database is real.
func inFakeTime(t *testing.T, test func(*managerTest)) {
	settings := jobs.Defaults()
	settings.Lease = time.Hour
	synctest.Test(t, func(t *testing.T) {
		store, err := jobs.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), jobs.Kinds{"wait": waits{}}, settings)
		if err != nil {
			t.Fatal(err)
		}
		test(&managerTest{t, store, newFake()})
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (t *managerTest) apply(server string, names ...string) {
	t.Helper()
	var documents []jobs.Document
	for _, name := range names {
		documents = append(documents, jobs.Document{Namespace: "test", Name: name, Kind: "wait", Source: name, Target: server, Follow: true})
	}
	if _, err := t.store.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
}

// node runs a manager as a node with the given name, until stop is called.
func (t *managerTest) node(name string) (n jobs.Node, stop func()) {
	t.Helper()
	n, err := t.store.Join(t.Context(), jobs.Node{Name: name, Slots: 100})
	if err != nil {
		t.Fatal(err)
	}
	m := watch.NewManager(t.store, map[string]watch.Source{"fake": t.source}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx, func() jobs.Node { return n }) }()
	return n, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// pass lets time pass, and waits until everything that is due has happened.
func (t *managerTest) pass(d time.Duration) {
	time.Sleep(d) // in fake time
	synctest.Wait()
}

func (t *managerTest) wantWatched(server string, want bool) {
	t.Helper()
	if got := t.source.at(server) != nil; got != want {
		t.Errorf("%s is watched: %t, want %t", server, got, want)
	}
}

func (t *managerTest) status(name string) jobs.WatchStatus {
	t.Helper()
	status, err := t.store.Watch(t.Context(), "test/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// TestManager: only one of two nodes watches a server, and only as long as jobs need it. A node that
// takes over continues from the position of the previous node.
func TestManager(t *testing.T) {
	inFakeTime(t, func(t *managerTest) {
		t.apply("one", "x", "y")
		a, stopA := t.node("a")
		t.pass(10 * time.Second)
		b, stopB := t.node("b")
		defer stopB()
		t.apply("two", "z")
		t.pass(10 * time.Second)
		t.wantWatched("one", true)
		t.wantWatched("two", true)

		w := t.source.at("one")
		if err := w.Jobs.Changed(t.Context(), map[string]string{"x": "1"}); err != nil {
			t.Fatal(err)
		}
		w.Jobs.Checked("17")
		t.pass(5 * time.Second)
		if status := t.status("x"); status.By != "a" || status.Checked.IsZero() {
			t.Errorf("the status of a watch that works is %+v", status)
		}
		w.Jobs.Checked("18")
		stopA() // saves the position
		t.wantWatched("one", false)
		if err := t.store.Leave(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		t.pass(10 * time.Second)
		w = t.source.at("one")
		if w == nil || w.Position != "18" {
			t.Fatalf("the next node watches %+v", w)
		}
		states, err := w.Jobs.States(t.Context())
		if err != nil || len(states) != 2 || states["x"] != "1" || states["y"] != "" {
			t.Errorf("the states of the next node are %v (error %v)", states, err)
		}
		if status := t.status("x"); status.By != b.Name {
			t.Errorf("the status of a watch that another node has taken is %+v", status)
		}
		if _, err := t.store.Pause(t.Context(), "test/x", "test/y"); err != nil {
			t.Fatal(err)
		}
		t.pass(10 * time.Second)
		t.wantWatched("one", false)
	})
}

// TestManagerRetries: a watch that fails is tried again, at increasing intervals, and by other
// nodes.
func TestManagerRetries(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *managerTest) {
		t.source.fail("down", errors.New("connection refused"))
		t.apply("down", "x")
		_, stopA := t.node("a")
		defer stopA()
		t.pass(20 * time.Minute)
		begun := t.source.begun["down"]
		if begun < 20 || begun > 80 {
			t.Errorf("tried %d times in 20 minutes", begun)
		}
		if status := t.status("x"); status.Error != "connection refused" {
			t.Errorf("the status is %+v", status)
		}
		_, stopB := t.node("b")
		defer stopB()
		t.source.fail("down", nil)
		t.pass(2 * time.Minute)
		t.wantWatched("down", true)
		t.source.at("down").Jobs.Checked("")
		t.pass(5 * time.Second)
		if status := t.status("x"); status.Error != "" || status.By == "" {
			t.Errorf("the status is %+v", status)
		}
	})
}
