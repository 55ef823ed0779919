package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// requesting is a kind whose runs send one request to their source.
type requesting struct{ fakeKind }

func (requesting) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.ID(), SourceOrigin: d.Source + ":443"}
}

func (requesting) Run(ctx context.Context, s *jobs.Session) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Document.Source, nil)
	if err != nil {
		return err
	}
	response, err := s.Transport.RoundTrip(r)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	err = errors.Join(err, response.Body.Close())
	if err == nil && s.Linger {
		s.CaughtUp()
		<-ctx.Done()
	}
	return err
}

// A fakeServer answers all requests of a node.
type fakeServer struct {
	mu       sync.Mutex
	down     error
	header   http.Header
	status   int
	requests int
	last     time.Time
}

func (f *fakeServer) RoundTrip(*http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	f.last = time.Now()
	return &http.Response{Status: fmt.Sprint(f.status), StatusCode: f.status, Header: f.header, Body: io.NopCloser(strings.NewReader(""))}, f.down
}

// asked returns when the last request arrived.
func (f *fakeServer) asked() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// set changes how the server answers, and returns how many requests there were since the last call
// of set.
func (f *fakeServer) set(status int, header http.Header, down error) (requests int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests = f.requests
	f.requests, f.status, f.header, f.down = 0, status, header, down
	return requests
}

// TestServerDown: a server that 1,000 jobs use is down for half an hour.
func TestServerDown(t *testing.T) {
	t.Parallel()
	many, minutes := size(1000, 150), size(29, 6)
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{status: http.StatusOK}
		store := inBubble(t, jobs.Kinds{"fake": requesting{}})
		documents := make([]jobs.Document, many)
		ids := make([]string, many)
		for n := range documents {
			documents[n] = jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "fake", Source: "https://server.test", Follow: true}
			ids[n] = documents[n].ID()
		}
		if _, err := store.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error)
		go func() { done <- store.Work(ctx, jobs.WorkerConfig{Name: "node", Transport: server}) }()
		ran := func(since time.Time) (count int) {
			for _, id := range ids {
				j, err := store.Get(ctx, id)
				if err != nil {
					t.Fatal(err)
				}
				if !j.Succeeded.Before(since) || j.State == jobs.Running && !j.Started.Before(since) {
					count++
				}
			}
			return count
		}
		began := time.Now()
		time.Sleep(2 * time.Minute)
		if n := ran(began); n != many {
			t.Fatalf("%d of %d jobs ran at first", n, many)
		}
		server.set(0, nil, errors.New("connection refused"))
		if err := store.Wake(ctx, ids...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		first := server.set(0, nil, errors.New("connection refused"))
		time.Sleep(time.Duration(minutes) * time.Minute)
		probes := server.set(http.StatusOK, nil, nil)
		t.Logf("%d requests in the first minute, and %d in the %d after it", first, probes, minutes)
		if probes > minutes*60/48+2 || probes < minutes*2/3 { // the pause is about a minute, part of which is random
			t.Errorf("%d requests in %d minutes, want about one a minute", probes, minutes)
		}
		if first > 120 { // one for each running job, and probes
			t.Errorf("%d requests before the server was known to be down, want at most one for each run, and probes", first)
		}
		back := time.Now()
		for ran(back) < many && time.Since(back) < 5*time.Minute {
			time.Sleep(3 * time.Second)
		}
		t.Logf("all had run %v after the server was back", time.Since(back))
		if took := time.Since(back); took > 90*time.Second {
			t.Errorf("%d of %d jobs had run %v after the server was back, want all within 90 s", ran(back), many, took)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitIsShared: a server asks its clients to wait while the database cannot be written to. The
// wait is stored once it can.
func TestWaitIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock()})
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db, "CREATE TRIGGER away BEFORE INSERT ON @origin BEGIN SELECT RAISE(ABORT, 'away'); END")
		store := jobs.NewScheduler(db, jobs.Kinds{"fake": requesting{}}, jobs.Defaults())
		apply(t, store, jobs.Document{Namespace: "n", Name: "job", Kind: "fake", Source: "https://server.test"})
		messages := make(chan string, 1000)
		ctx, stop := context.WithCancel(t.Context())
		var node sync.WaitGroup
		node.Go(func() {
			server := &fakeServer{status: http.StatusOK, header: http.Header{"Backoff": {"300"}}}
			c := jobs.WorkerConfig{Name: "node", Transport: server, Logger: slog.New(noticing{messages: messages})}
			if err := store.Work(ctx, c); err != nil {
				t.Error(err)
			}
		})
		until := time.Now().Add(5 * time.Minute)
		for !strings.Contains(<-messages, "cannot use its database") {
		}
		exec(t, db, "DROP TRIGGER away")
		time.Sleep(10 * time.Second)
		servers, err := store.Origins(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if off := servers[0].Until.Sub(until); off.Abs() > 10*time.Second {
			t.Errorf("the server is not used until %v, want %v", servers[0].Until, until)
		}
		stop()
		node.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLongRetryAfter: a server once asks its clients to wait for decades. Its job runs again after
// five minutes.
func TestLongRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inBubble(t, jobs.Kinds{"fake": requesting{}})
		d := jobs.Document{Namespace: "n", Name: "job", Kind: "fake", Source: "https://server.test"}
		apply(t, store, d)
		server := &fakeServer{status: http.StatusServiceUnavailable, header: http.Header{"Retry-After": {"2147483647"}}}
		ctx, stop := context.WithCancel(t.Context())
		var node sync.WaitGroup
		node.Go(func() {
			if err := store.Work(ctx, jobs.WorkerConfig{Name: "node", Transport: server}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(4 * time.Minute)
		if n := server.set(http.StatusOK, nil, nil); n != 1 {
			t.Errorf("%d requests in 4 min, want 1", n)
		}
		time.Sleep(2 * time.Minute)
		if j, err := store.Get(t.Context(), d.ID()); err != nil || j.State != jobs.Completed {
			t.Errorf("after 6 min: %+v, %v", j, err)
		}
		stop()
		node.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
