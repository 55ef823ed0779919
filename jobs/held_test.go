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

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/watch"
)

// troubled is a server that fails, and that jobs and watches use.
type troubled struct {
	mu     sync.Mutex
	status int
	header http.Header
	down   error
	asked  map[string]int // requests, by path
}

func (s *troubled) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[r.URL.Path]++
	return &http.Response{Status: fmt.Sprint(s.status), StatusCode: s.status, Header: s.header, Body: io.NopCloser(strings.NewReader(""))}, s.down
}

// set changes how the server answers, and returns how many requests there were since the last call of
// set.
func (s *troubled) set(status int, header http.Header, down error) (runs, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs, watches = s.asked[""], s.asked["/watch"]
	s.asked, s.status, s.header, s.down = map[string]int{}, status, header, down
	return runs, watches
}

// watching is a kind whose jobs are also watched.
type watching struct{ requesting }

func (w watching) Identify(d *jobs.Document) jobs.Identity {
	i := w.requesting.Identify(d)
	i.Watch = jobs.Watch{Type: "polled", Server: d.Source, Name: d.Name}
	return i
}

// A polled source sends a request each second.
type polled struct{ transport http.RoundTripper }

func (p polled) Watch(ctx context.Context, w *watch.Watched) error {
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.Server+"/watch", nil)
		if err != nil {
			return err
		}
		response, err := p.transport.RoundTrip(r)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %w", response.Status, err)
		}
		w.Jobs.Checked("")
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestServerInTrouble: watches send no request to a server that is down, which only a job probes, or to
// a server that has asked a job to wait. They continue when the server works again.
func TestServerInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inBubble(t, jobs.Kinds{"fake": watching{}})
		server := &troubled{status: http.StatusOK, asked: map[string]int{}}
		watched := watch.Hold(store.Held, server)
		ctx, stop := context.WithCancel(t.Context())
		var node sync.WaitGroup
		node.Go(func() {
			sources := map[string]watch.Source{"polled": polled{watched}}
			c := jobs.WorkerConfig{Name: "node", Transport: server, Watcher: watch.NewManager(store, sources, slog.New(slog.DiscardHandler))}
			if err := store.Work(ctx, c); err != nil {
				t.Error(err)
			}
		})
		var documents []jobs.Document
		var ids []string
		for n := range 5 {
			d := jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "fake", Source: "https://server.test", Follow: true}
			documents, ids = append(documents, d), append(ids, d.ID())
		}
		time.Sleep(time.Second)
		if _, err := store.Apply(ctx, documents, jobs.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		run := func(ids ...string) { // pauses and resumes, since the jobs may have a slot and wait for changes
			t.Helper()
			if _, err := store.Pause(ctx, ids...); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if _, err := store.Resume(ctx, ids...); err != nil {
				t.Fatal(err)
			}
		}
		works := func(after string) {
			t.Helper()
			time.Sleep(time.Minute)
			server.set(http.StatusOK, nil, nil)
			time.Sleep(time.Minute)
			if _, watches := server.set(http.StatusOK, nil, nil); watches < 50 {
				t.Errorf("%s: %d requests of the watch in a minute, want one each second", after, watches)
			}
		}
		works("at first")

		server.set(0, nil, errors.New("connection refused"))
		run(ids...)
		time.Sleep(2 * time.Minute)
		server.set(0, nil, errors.New("connection refused"))
		const minutes = 30
		time.Sleep(minutes * time.Minute)
		runs, watches := server.set(http.StatusOK, nil, nil)
		if watches != 0 || runs < minutes*2/3 || runs > minutes*60/48+2 {
			t.Errorf("in %d minutes without the server there were %d requests of the watch, and %d of jobs, want none, and about one a minute", minutes, watches, runs)
		}
		works("after it was down")

		server.set(http.StatusServiceUnavailable, http.Header{"Retry-After": {"300"}}, nil)
		run(ids[0])
		time.Sleep(10 * time.Second)
		if runs, _ := server.set(http.StatusOK, nil, nil); runs == 0 {
			t.Error("no job was told to wait")
		}
		time.Sleep(4 * time.Minute)
		if runs, watches := server.set(http.StatusOK, nil, nil); runs+watches != 0 {
			t.Errorf("%d requests of jobs and %d of the watch while the server asks to wait", runs, watches)
		}
		works("after it has asked to wait")
		stop()
		node.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
