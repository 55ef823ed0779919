package jobs_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// workAs runs nodes on one scheduler, until stop is called.
func workAs(t *testing.T, store *jobs.Scheduler, nodes ...jobs.WorkerConfig) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, c := range nodes {
		all.Go(func() {
			if err := store.Work(ctx, c); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// TestClock: the clocks of nodes are an hour ahead of or behind that of the database. A lost node is
// noticed when its lease has expired, a job runs when its time has come by the clock of the database, and
// a server that asks its clients to wait for a minute gets no request for a minute.
func TestClock(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: fmt.Sprintf("(%s - %d)", goClock(), off.Microseconds())})
				if err != nil {
					t.Fatal(err)
				}
				store := jobs.NewScheduler(db, jobs.Kinds{"fake": requesting{}}, jobs.Defaults())
				document := func(name, source string) jobs.Document {
					return jobs.Document{Namespace: "n", Name: name, Kind: "fake", Source: source, Follow: true}
				}
				apply(t, store, document("lost", "https://a.test"))
				lost, err := store.Join(t.Context(), jobs.Node{Name: "lost", Slots: 1})
				if err != nil {
					t.Fatal(err)
				}
				if runs, err := store.Admit(t.Context(), lost, 1); err != nil || len(runs) != 1 {
					t.Fatalf("%+v, %v", runs, err)
				}
				gone := time.Now()
				server := &fakeServer{status: http.StatusOK}
				stop := workAs(t, store, jobs.WorkerConfig{Name: "node", Transport: server})
				for server.asked().IsZero() && time.Since(gone) < time.Hour {
					time.Sleep(time.Second)
				}
				if took := server.asked().Sub(gone); took < jobs.Defaults().Lease || took > 30*time.Second {
					t.Errorf("the job of the lost node ran after %v, want at least the lease and at most 30 s", took)
				}

				server.set(http.StatusServiceUnavailable, http.Header{"Retry-After": {"60"}}, nil)
				apply(t, store, document("told", "https://b.test"))
				time.Sleep(55 * time.Second)
				if n := server.set(http.StatusOK, nil, nil); n != 1 {
					t.Errorf("%d requests while the server asks to wait, want only the one that was told to", n)
				}
				time.Sleep(40 * time.Second)
				if n := server.set(http.StatusOK, nil, nil); n == 0 {
					t.Error("no request after the time for which the server has asked")
				}

				at := time.Now().Add(-off).Add(30 * time.Minute).UTC()
				cron := document("clock", "https://c.test")
				cron.Follow, cron.Schedule = false, fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour())
				apply(t, store, cron)
				time.Sleep(35 * time.Minute)
				j, err := store.Get(t.Context(), "n/clock")
				if err != nil {
					t.Fatal(err)
				}
				if late := j.Started.Sub(at.Truncate(time.Minute)); late < 0 || late > 5*time.Second {
					t.Errorf("the job with the schedule %q started at %v", cron.Schedule, j.Started)
				}
				stop()
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestMinuteAway: the database does not answer for longer than a minute, which is longer than every limit
// of the nodes. As in [TestDatabaseAway], runs continue, no job runs twice, and the ends of some runs are
// recorded when the database answers again.
func TestMinuteAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock()})
		if err != nil {
			t.Fatal(err)
		}
		const many = 6
		kind := holding{began: make(chan string, 10*many), release: map[string]chan struct{}{}}
		store := jobs.NewScheduler(db, jobs.Kinds{"hold": kind}, jobs.Defaults())
		for n := range many {
			d := jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "hold", Source: fmt.Sprint("s", n)}
			kind.release[d.Name] = make(chan struct{})
			apply(t, store, d)
		}
		stop := workAs(t, store, jobs.WorkerConfig{Name: "a", Slots: many / 2}, jobs.WorkerConfig{Name: "b", Slots: many / 2})
		for range many {
			<-kind.began
		}
		time.Sleep(time.Minute)
		err = db.Begin(t.Context(), func(jobdb.Tx) error { // the database has only one connection
			time.Sleep(30 * time.Second)
			for n := range many / 2 {
				close(kind.release[fmt.Sprint(n)])
			}
			time.Sleep(40 * time.Second)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		l := &lostTest{t, db}
		if done, running := l.number("SELECT count(*) FROM @job WHERE state = 'completed'"), l.number("SELECT count(*) FROM @job WHERE state = 'running'"); done != many/2 || running != many/2 {
			t.Errorf("%d jobs are completed and %d run, want %d of each", done, running, many/2)
		}
		for n := many / 2; n < many; n++ {
			close(kind.release[fmt.Sprint(n)])
		}
		time.Sleep(10 * time.Second)
		if n := l.number("SELECT count(*) FROM @event WHERE type NOT IN ('added', 'started', 'completed')"); n != 0 || len(kind.began) != 0 {
			t.Errorf("%d jobs were disturbed, and %d ran again", n, len(kind.began))
		}
		stop()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestRunsAreForgotten: with a job that runs each minute, the table of runs does not grow beyond the runs
// of an hour.
func TestRunsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock()})
		if err != nil {
			t.Fatal(err)
		}
		server := &fakeServer{status: http.StatusOK}
		store := jobs.NewScheduler(db, jobs.Kinds{"fake": requesting{}}, jobs.Defaults())
		apply(t, store, jobs.Document{Namespace: "n", Name: "job", Kind: "fake", Source: "https://server.test", Schedule: "* * * * *"})
		stop := workAs(t, store, jobs.WorkerConfig{Name: "node", Transport: server})
		l := &lostTest{t, db}
		var rows []int
		for range 2 {
			time.Sleep(65 * time.Minute)
			rows = append(rows, l.number("SELECT count(*) FROM @river_job"))
		}
		if runs := server.set(http.StatusOK, nil, nil); runs < 125 {
			t.Errorf("%d runs, want one each minute", runs)
		}
		for _, n := range rows {
			if n < 55 || n > 70 {
				t.Errorf("%v rows of runs after one and two hours, want 55 to 70", rows)
				break
			}
		}
		stop()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// repeating is a kind whose runs send a request each second.
type repeating struct{ requesting }

func (r repeating) Run(ctx context.Context, s *jobs.Session) error {
	for {
		if err := r.requesting.Run(ctx, s); err != nil {
			return err
		}
		s.Report(jobs.Stats{Entities: time.Now().Unix()})
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestToldElsewhere: if a server has asked a run on one node to wait, runs on other nodes wait as long.
func TestToldElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inBubble(t, jobs.Kinds{"fake": requesting{}, "repeat": repeating{}})
		told, elsewhere := &fakeServer{status: http.StatusOK}, &fakeServer{status: http.StatusOK}
		stop := workAs(t, store, jobs.WorkerConfig{Name: "told", Transport: told}, jobs.WorkerConfig{Name: "elsewhere", Transport: elsewhere})
		time.Sleep(time.Second)
		document := func(name, kind string) jobs.Document {
			return jobs.Document{Namespace: "n", Name: name, Kind: kind, Source: "https://server.test", Placement: jobs.Placement{Node: name}}
		}
		apply(t, store, document("elsewhere", "repeat"))
		time.Sleep(time.Minute)
		if n := elsewhere.set(http.StatusOK, nil, nil); n < 50 {
			t.Fatalf("%d requests in a minute, want one each second", n)
		}
		told.set(http.StatusServiceUnavailable, http.Header{"Retry-After": {"120"}}, nil)
		apply(t, store, document("told", "fake"))
		time.Sleep(5 * time.Second)
		if n := told.set(http.StatusOK, nil, nil); n != 1 {
			t.Fatalf("%d requests of the run that was told to wait, want 1", n)
		}
		elsewhere.set(http.StatusOK, nil, nil)
		time.Sleep(110 * time.Second)
		if n := elsewhere.set(http.StatusOK, nil, nil); n != 0 {
			t.Errorf("%d requests of a run on another node while the server asks to wait", n)
		}
		time.Sleep(2 * time.Minute)
		if n := elsewhere.set(http.StatusOK, nil, nil); n < 50 {
			t.Errorf("%d requests after the wait, want one each second", n)
		}
		stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestConnectionsAreKept: many jobs that take turns in one slot all use the same connection.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	var opened, answered atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answered.Add(1) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	const many = 20
	ended := make(chan string, 10*many)
	store, err := jobs.Open(t.Context(), "sqlite::memory:", jobs.Kinds{"fake": requestingAt{requesting{}, ended}}, jobs.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for n := range many {
		d := jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "fake", Source: server.URL, Follow: true}
		apply(t, store, d)
		all = append(all, d.ID())
	}
	stop := workAs(t, store, jobs.WorkerConfig{Name: "node", Slots: 1})
	for range many {
		<-ended
	}
	if err := store.Wake(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	for range many {
		<-ended
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for %d requests, want 1", n, answered.Load())
	}
	stop()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// requestingAt is a kind whose runs send a request to their source, and report when they have ended.
type requestingAt struct {
	requesting
	ended chan<- string
}

func (r requestingAt) Run(ctx context.Context, s *jobs.Session) error {
	err := r.requesting.Run(ctx, s)
	r.ended <- s.Document.Name
	return err
}
