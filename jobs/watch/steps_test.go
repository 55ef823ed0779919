package watch_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/watch"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
)

var all = flag.Bool("all", false, "change names before every step of a node, rather than before one of three")

// steps counts the steps of a node, and interrupts the node once.
type steps struct {
	source watch.Source

	mu    sync.Mutex
	n     int
	at    int // the step before which the node is interrupted
	doing func()
}

func (s *steps) step() {
	s.mu.Lock()
	s.n++
	doing := s.doing
	if s.n != s.at {
		doing = nil
	} else {
		s.doing = nil
	}
	s.mu.Unlock()
	if doing != nil {
		doing()
	}
}

// interrupt resets the count of steps. The function doing will be called before step number at.
func (s *steps) interrupt(at int, doing func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n, s.at, s.doing = 0, at, doing
}

// interrupted reports whether doing has been called.
func (s *steps) interrupted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doing == nil
}

// of returns a transport with a step before and after each request.
func (s *steps) of(transport http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		s.step()
		response, err := transport.RoundTrip(r)
		s.step()
		return response, err
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// steppedStore is a store with a step before and after each request for an object.
type steppedStore struct {
	storage.Store
	steps *steps
}

func (s steppedStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	s.steps.step()
	defer s.steps.step()
	return s.Store.Stat(ctx, key)
}

func (s steppedStore) Close() error { return nil }

func (s steppedStore) Unwrap() storage.Store { return s.Store }

// A follower describes a job that reads a name on a server, and how soon it must run.
type follower struct {
	server, name string
	change       func()
	read         func() string // what the job finds
	tick         time.Duration // how often the node looks for jobs that are due
	within       time.Duration // how soon the job must run after a change
	long         time.Duration // duration of the runs during which the watcher notices a change
}

// Watch implements [watch.Source]. Calls to the database of jobs count as steps, too.
func (s *steps) Watch(ctx context.Context, w *watch.Watched) error {
	stepped := *w
	stepped.Jobs = steppedJobs{w.Jobs, s}
	return s.source.Watch(ctx, &stepped)
}

type steppedJobs struct {
	watch.Jobs
	steps *steps
}

func (j steppedJobs) States(ctx context.Context) (map[string]string, error) {
	j.steps.step()
	defer j.steps.step()
	return j.Jobs.States(ctx)
}

func (j steppedJobs) Changed(ctx context.Context, states map[string]string) error {
	j.steps.step()
	defer j.steps.step()
	return j.Jobs.Changed(ctx, states)
}

func (j steppedJobs) Checked(position string) {
	j.steps.step()
	defer j.steps.step()
	j.Jobs.Checked(position)
}

// test makes two changes, the second before one of the steps that the node takes after the first: a step of the
// watcher, of the run, or of making the job idle. It does so for each step. Each time, the job must run after
// the second change.
func (f *follower) test(t *testing.T, s *steps) {
	t.Helper()
	settings := jobs.Defaults()
	settings.Lease = time.Hour
	scheduler, err := jobs.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), jobs.Kinds{"wait": waits{}}, settings)
	if err != nil {
		t.Fatal(err)
	}
	node, err := scheduler.Join(t.Context(), jobs.Node{Name: "node", Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := jobs.Document{Namespace: "n", Name: "a", Kind: "wait", Source: f.name, Target: f.server, Follow: true}
	if _, err := scheduler.Apply(t.Context(), []jobs.Document{d}, jobs.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	manager := watch.NewManager(scheduler, map[string]watch.Source{"fake": s}, slog.New(slog.DiscardHandler))
	running.Go(func() {
		if err := manager.Run(ctx, func() jobs.Node { return node }); err != nil {
			t.Error(err)
		}
	})
	found := "" // what the last run read
	lasts := time.Duration(0)
	work := func() {
		t.Helper()
		runs, err := scheduler.Admit(t.Context(), node, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			s.step()
			found = f.read()
			s.step()
			time.Sleep(lasts)
			s.step()
			if err := scheduler.Finish(t.Context(), r, jobs.Outcome{End: jobs.CaughtUp, Seen: r.Job.Wanted}); err != nil {
				t.Fatal(err)
			}
			s.step()
		}
		time.Sleep(f.tick)
	}
	await := func(what string, holds func() bool) {
		t.Helper()
		for limit := time.Now().Add(f.within); !holds(); work() {
			if time.Now().After(limit) {
				t.Fatalf("%s: the job has found %q, want %q", what, found, f.read())
			}
		}
	}
	await("before the first change", func() bool {
		status, err := scheduler.Watch(t.Context(), d.ID())
		if err != nil {
			t.Fatal(err)
		}
		return found == f.read() && !status.Checked.IsZero()
	})
	every := 3
	switch {
	case *all:
		every = 1
	case testing.Short():
		every = 10
	}
	for _, lasts = range []time.Duration{0, f.long} {
		for at := 1 + mathrand.IntN(every); ; at += every {
			s.interrupt(at, f.change)
			f.change()
			await(fmt.Sprintf("before step %d", at), func() bool { return found == f.read() })
			for end := time.Now().Add(10 * f.tick); time.Now().Before(end); { // for steps that come later
				work()
			}
			if !s.interrupted() {
				t.Logf("runs of %v: fewer than %d steps", lasts, at)
				break
			}
			await(fmt.Sprintf("after step %d", at), func() bool { return found == f.read() })
		}
	}
	stop()
	running.Wait()
	if err := scheduler.Close(); err != nil {
		t.Error(err)
	}
}

// headOf returns a function whose result identifies the newest page of a feed.
func headOf(t *testing.T, store storage.Store, name string) func() string {
	return func() string {
		p, err := chain.NewReader(store, name).Newest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(p.Number, p.Entities)
	}
}

// TestSteps: a change makes the job run, whichever step the node has reached at that time.
func TestSteps(t *testing.T) {
	t.Parallel()
	const tick, long, within = 200 * time.Millisecond, 10 * time.Second, 6 * time.Minute // before CouchDB compares databases
	for name, config := range map[string]server.Config{"feeds listed": listed, "feeds unlisted": unlisted} {
		t.Run(name, func(t *testing.T) {
			inFeedsWorld(t, 2, 1, config, func(t *testing.T, w *feedsWorld) {
				s := &steps{}
				s.source = watch.Feeds{Transport: s.of(w.net.Client().Transport)}
				f := &follower{server: "http://feeds.test/base/", name: "f001", tick: tick, within: within, long: long}
				f.change, f.read = func() { publish(t, w.store, "f001") }, headOf(t, w.store, "f001")
				f.test(t, s)
			})
		})
	}
	for name, source := range map[string]func(openStore) watch.Source{"files": filesSource, "s3": s3Source} {
		t.Run(name, func(t *testing.T) {
			inStoreWorld(t, 2, func(t *testing.T, w *storeWorld) {
				s := &steps{}
				open := func(context.Context, string, string) (storage.Store, error) { return steppedStore{w, s}, nil }
				s.source = source(open)
				f := &follower{server: "store:", name: "f001", tick: tick, within: within, long: long}
				f.change, f.read = func() { publish(t, w, "f001") }, headOf(t, w, "f001")
				f.test(t, s)
			})
		})
	}
	for mode, configure := range kintoModes {
		t.Run("kinto "+mode, func(t *testing.T) {
			inKintoWorld(t, 2, func(t *testing.T, w *kintoWorld) {
				s := &steps{}
				s.source = watch.Kinto{Transport: s.of(w.net.Client().Transport)}
				f := &follower{server: "http://kinto.test/v1/", name: "b/c001", tick: tick, within: within, long: long}
				f.change, f.read = func() { w.put("b/c001") }, func() string { return w.stampOf("b/c001") }
				f.test(t, s)
			}, configure)
		})
	}
	t.Run("couchdb", func(t *testing.T) {
		inCouchWorld(t, 2, func(t *testing.T, w *couchWorld) {
			s := &steps{}
			s.source = watch.CouchDB{Transport: s.of(w.net.Client().Transport)}
			f := &follower{server: "http://couch.test", name: "db001", tick: tick, within: within, long: long}
			f.change = func() { w.AddDoc("db001", rand.Text(), "{}") }
			f.read = func() string {
				response := httptest.NewRecorder()
				w.Fake.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/db001", nil))
				return response.Body.String()
			}
			f.test(t, s)
		}, reporting)
	})
}

// TestStepsPostgres is like TestSteps, with watchers of a real server.
func TestStepsPostgres(t *testing.T) {
	t.Parallel()
	database := pgtest.Start(t)
	const tick, within = 20 * time.Millisecond, 5 * time.Minute
	t.Run("store", func(t *testing.T) {
		t.Parallel()
		url := database.URL("a")
		store, err := openPostgres(t.Context(), url, "")
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		publish(t, store, "f")
		f := &follower{server: url, name: "f", tick: tick, within: within, long: 400 * time.Millisecond}
		f.change = func() { publish(t, store, "f") }
		f.read = headOf(t, store, "f")
		f.test(t, &steps{source: watch.Postgres{Open: openPostgres}})
	})
	t.Run("outbox", func(t *testing.T) {
		t.Parallel()
		url := database.URL("b")
		db, err := openOutbox(t.Context(), url, "")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		f := &follower{server: url, name: "f", tick: tick, within: within, long: 1200 * time.Millisecond}
		f.change = func() {
			if _, err := pool.Exec(t.Context(), "INSERT INTO feedctl.outbox (feed) VALUES ('f')"); err != nil {
				t.Error(err)
			}
		}
		f.read = func() (last string) {
			if err := pool.QueryRow(t.Context(), "SELECT coalesce(max(id), 0)::text FROM feedctl.outbox").Scan(&last); err != nil {
				t.Fatal(err)
			}
			return last
		}
		f.test(t, &steps{source: watch.Outbox{Open: openOutbox}})
	})
}
