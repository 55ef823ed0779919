package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/kinds"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/stores"
)

// A scene consists of a store in a directory, and schedulers whose jobs use the store.
type scene struct {
	*testing.T
	dir   string
	store storage.Store
	next  int
}

func newScene(t *testing.T) *scene {
	s := &scene{T: t, dir: t.TempDir()}
	var err error
	if s.store, err = stores.Open(t.Context(), s.url(), stores.Options{Create: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.store.Close() })
	return s
}

func (s *scene) url() string             { return "file:" + filepath.Join(s.dir, "store") }
func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }
func (s *scene) read(name string) string {
	text, err := os.ReadFile(s.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Error(err)
	}
	return string(text)
}

// key returns the key of the nth entity.
func key(n int) string { return fmt.Sprint("key-", n%7) }

// publish publishes n entities to a feed.
func (s *scene) publish(name string, n int) {
	s.Helper()
	f, err := producer.Open(s.Context(), s.store, name, producer.Config{MaxPageEntities: 20})
	if err != nil {
		s.Fatal(err)
	}
	var entities []*producer.Entity
	for range n {
		s.next++
		entities = append(entities, &producer.Entity{Operation: feed.Put, ContentType: "application/json", ContentLocation: key(s.next), Body: fmt.Appendf(nil, `{"n":%d}`, s.next)})
	}
	if _, err := f.Publish(s.Context(), entities...); err != nil {
		s.Fatal(err)
	}
	if err := f.Close(); err != nil {
		s.Fatal(err)
	}
}

// schedule runs the jobs of documents on a new node, until the test ends or stop is called.
func (s *scene) schedule(documents ...jobs.Document) (scheduler *jobs.Scheduler, stop func()) {
	s.Helper()
	return s.scheduleAs(kinds.All(), documents...)
}

// scheduleAs is like schedule, but with other kinds.
func (s *scene) scheduleAs(known jobs.Kinds, documents ...jobs.Document) (scheduler *jobs.Scheduler, stop func()) {
	s.Helper()
	settings := jobs.Defaults()
	settings.Backoff = jobs.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	scheduler, err := jobs.Open(s.Context(), "sqlite::memory:", known, settings)
	if err != nil {
		s.Fatal(err)
	}
	for n := range documents {
		documents[n].Namespace, documents[n].Placement.Node = "test", "node"
	}
	ctx, cancel := context.WithCancel(s.Context())
	var node sync.WaitGroup
	node.Go(func() {
		if err := scheduler.Work(ctx, jobs.WorkerConfig{Name: "node", Slots: 4}); err != nil {
			s.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		node.Wait()
	})
	s.Cleanup(func() {
		stop()
		scheduler.Close()
	})
	for ticks := time.Tick(20 * time.Millisecond); ; <-ticks { // until the node has joined
		if nodes, err := scheduler.Nodes(s.Context()); err != nil || len(nodes) > 0 {
			break
		}
	}
	if _, err := scheduler.Apply(s.Context(), documents, jobs.ApplyOptions{}); err != nil {
		s.Fatal(err)
	}
	return scheduler, stop
}

// await waits until the condition holds for a job.
func (s *scene) await(scheduler *jobs.Scheduler, name string, holds func(j *jobs.Job) bool) *jobs.Job {
	s.Helper()
	for ticks := time.Tick(20 * time.Millisecond); ; {
		j, err := scheduler.Get(s.Context(), "test/"+name)
		if err != nil {
			s.Fatal(err)
		}
		if holds(j) {
			return j
		}
		if j.State == jobs.Failed || j.Shown() == jobs.Crashing {
			s.Fatalf("job %s is %s: %s", name, j.Shown(), j.Reason)
		}
		<-ticks
	}
}

func completed(j *jobs.Job) bool { return j.State == jobs.Completed }

// TestConsume: a job that follows copies what is published while it waits, and two schedulers that run
// the same job copy each entity once.
func TestConsume(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.publish("zones", 50)
	document := func(into string, follow bool) jobs.Document {
		return jobs.Document{Name: "copy", Kind: "consume", Source: s.url() + "#zones", Target: "jsonl:" + s.path(into), Follow: follow}
	}
	a, stopA := s.schedule(document("out", true))
	count := func(want int) func(*jobs.Job) bool {
		return func(*jobs.Job) bool { return strings.Count(s.read("out"), "\n") == want }
	}
	s.await(a, "copy", count(50))
	s.publish("zones", 1) // the job lingers
	s.await(a, "copy", count(51))
	b, _ := s.schedule(document("out", true)) // as if a node had been frozen
	s.await(b, "copy", func(j *jobs.Job) bool {
		return j.State == jobs.Pending && strings.Contains(j.Reason, jobs.ErrDuplicate.Error()) && j.Errors == 0
	})
	s.publish("zones", 49)
	s.await(a, "copy", count(100))
	stopA()
	s.publish("zones", 20)
	s.await(b, "copy", count(120)) // b has taken over
	c, _ := s.schedule(document("undisturbed", false))
	s.await(c, "copy", completed)
	if got, want := lines(s.read("out")), lines(s.read("undisturbed")); !slices.Equal(got, want) {
		t.Errorf("the %d lines differ from the %d of an undisturbed run", len(got), len(want))
	}
}

func lines(text string) []string { return strings.Split(text, "\n") }

// TestMissingCredential: if the credential of a job is not on the node, the job is tried again, and its
// reason names the credential.
func TestMissingCredential(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	d := jobs.Document{Name: "copy", Kind: "consume", Source: "http://127.0.0.1:1/feeds/a", Target: "jsonl:" + s.path("out"), Credentials: map[string]string{"source": "env:KINDS_TEST_MISSING"}}
	scheduler, _ := s.schedule(d)
	s.await(scheduler, "copy", func(j *jobs.Job) bool {
		return j.Shown() == jobs.Crashing && strings.Contains(j.Reason, "credentials.source: read credentials: variable KINDS_TEST_MISSING is not set")
	})
}

// TestVerifyFindings: violations are reported, and the job waits for its next scheduled time; it is not
// tried again as after a crash.
func TestVerifyFindings(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.publish("zones", 50)
	var pages []string
	err := filepath.WalkDir(s.path("store"), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.Contains(name, "zones") {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{"damage": s.url() + "#zones", "violation": notFeed(t)}
	damaged := 0
	for _, name := range pages {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if changed := strings.Replace(string(text), `{"n":7}`, `{"n":8`, 1); changed != string(text) {
			damaged++
			if err := os.WriteFile(name, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if damaged == 0 {
		t.Fatalf("no page was damaged: %q", pages)
	}
	var documents []jobs.Document
	for name, source := range sources {
		documents = append(documents, jobs.Document{Name: name, Kind: "verify", Source: source, Schedule: "0 0 1 1 *"})
	}
	a, _ := s.schedule(documents...)
	for name := range sources {
		if _, err := a.Restart(t.Context(), "test/"+name); err != nil {
			t.Fatal(err)
		}
		j := s.await(a, name, func(j *jobs.Job) bool { return !j.Stopped.IsZero() && j.State != jobs.Running })
		if j.State != jobs.Pending || j.Errors != 0 || j.NotBefore.Month() != time.January || !strings.Contains(j.Reason, jobs.ErrFindings.Error()) {
			t.Errorf("after the check, the job is %s until %v with %d errors: %s", j.State, j.NotBefore, j.Errors, j.Reason)
		}
		events, err := a.History(t.Context(), "test/"+name)
		if err != nil || events[0].Type != jobs.EventFailed || events[0].Reason != j.Reason {
			t.Errorf("events: %+v, %v", events, err)
		}
	}
}

// notFeed returns the URL of a web page that is not part of a feed.
func notFeed(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>hello</p>")
	}))
	t.Cleanup(server.Close)
	return server.URL + "/feeds/zones"
}
