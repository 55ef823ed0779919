package watch_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/watch"
	"github.com/feedctl/feedctl/storage/stores"
)

// runs is a kind of job that waits for the name given by its source, on the server given by its target. It
// counts how often each job has run. A label gives the type of the server.
type runs struct {
	mu      sync.Mutex
	counts  map[string]int
	changed chan struct{} // holds a value after a run
}

func (*runs) Check(*jobs.Document) []jobs.Problem { return nil }

func (*runs) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.ID(), Watch: jobs.Watch{Type: d.Labels["type"], Server: d.Target, Name: d.Source, Credential: d.Credentials["source"]}}
}

func (r *runs) Run(_ context.Context, s *jobs.Session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[s.Document.Name]++
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return nil
}

func (r *runs) of(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[name]
}

// TestSources: on a node with all sources, a commit on a real server makes an idle job run.
func TestSources(t *testing.T) {
	t.Parallel()
	couch := couchtest.Start(t)
	database := couch.NewDB(t)
	collection := kintotest.Start(t, kintotest.Memory).NewCollection(t)
	root, bucket, _ := strings.Cut(strings.TrimSuffix(collection, "/collections/c"), "buckets/")
	server := pgtest.Start(t)
	outboxURL, storeURL := server.URL("outbox"), server.URL("store")
	db, err := openOutbox(t.Context(), outboxURL, "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := openPostgres(t.Context(), storeURL, "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	publish(t, store, "stored")
	filesURL := "file:" + filepath.ToSlash(t.TempDir()) + "/store"
	files, err := stores.Open(t.Context(), filesURL, stores.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	publish(t, files, "stored")
	conn := connect(t, outboxURL)
	commits := map[string]func(){
		"couchdb": func() {
			couchtest.Send(t, http.MethodPost, database, `{"n":1}`)
		},
		"kinto": func() {
			kintotest.Send(t, http.MethodPut, collection+"/records/r", `{"data":{"n":1}}`)
		},
		"outbox": func() { execute(t, conn, "INSERT INTO feedctl.outbox (feed) VALUES ('rows')") },
		"store":  func() { publish(t, store, "stored") },
		"files":  func() { publish(t, files, "stored") },
	}
	document := func(name, kind, source, target string) jobs.Document {
		return jobs.Document{Namespace: "test", Name: name, Kind: "runs", Source: source, Target: target, Follow: true, Labels: map[string]string{"type": kind}}
	}
	slash := strings.LastIndexByte(database, '/')
	documents := []jobs.Document{
		document("couchdb", "couchdb", database[slash+1:], database[:slash]),
		document("kinto", "kinto", bucket+"/c", root),
		document("outbox", "outbox", "rows", outboxURL),
		document("store", "store", "stored", storeURL),
		document("files", "store", "stored", filesURL),
	}
	kind := &runs{counts: map[string]int{}, changed: make(chan struct{}, 1)}
	scheduler, err := jobs.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), jobs.Kinds{"runs": kind}, jobs.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	defer scheduler.Close()
	if _, err := scheduler.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var node sync.WaitGroup
	logger := slog.New(slog.DiscardHandler)
	node.Go(func() {
		watcher := watch.NewManager(scheduler, watch.Sources(nil), logger)
		if err := scheduler.Work(ctx, jobs.WorkerConfig{Name: "node", Slots: 10, Watcher: watcher, Logger: logger}); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	defer node.Wait()
	defer stop()
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	await := func(what string, holds func() bool) {
		t.Helper()
		for !holds() {
			select {
			case <-ticks.C:
			case <-t.Context().Done():
				t.Fatalf("%s: the test ended first", what)
			}
		}
	}
	for _, name := range []string{"kinto", "files", "couchdb", "outbox", "store"} { // first the types of servers that are compared less and less often
		await(name+" is idle and watched", func() bool {
			job, err := scheduler.Get(t.Context(), "test/"+name)
			if err != nil {
				t.Fatal(err)
			}
			status, err := scheduler.Watch(t.Context(), "test/"+name)
			if err != nil || status.Error != "" {
				t.Fatalf("%s: %+v, %v", name, status, err)
			}
			return job.State == jobs.Idle && !status.Checked.IsZero()
		})
		before := kind.of(name)
		commits[name]()
		await(name+" runs again", func() bool { return kind.of(name) > before })
	}
}

// TestSourcesRefuse: servers that cannot be watched cause errors, and these contain no secrets.
func TestSourcesRefuse(t *testing.T) {
	t.Setenv("WATCH_TEST_PASSWORD", "s3cret")
	sources := watch.Sources(nil)
	refused := url.URL{Scheme: "postgres", Host: "127.0.0.1:1", Path: "/x", RawQuery: "connect_timeout=1"}
	for _, test := range []struct{ kind, server, credential, want string }{
		{"store", "gopher://example.org/", "", "cannot be watched"},
		{"store", "http://[s3cret", "", "malformed"},
		{"store", refused.String(), "env:WATCH_TEST_MISSING", "WATCH_TEST_MISSING"},
		{"store", refused.String(), "s3cret", "env:NAME or file:PATH"},
		{"store", refused.String(), "env:WATCH_TEST_PASSWORD", "connect"},
		{"outbox", refused.String(), "env:WATCH_TEST_PASSWORD", "connect"},
		{"outbox", refused.String(), "file:/missing", "/missing"},
		{"couchdb", "http://127.0.0.1:1", "env:WATCH_TEST_PASSWORD", "credentials"},
		{"kinto", "http://127.0.0.1:1/v1", "env:WATCH_TEST_PASSWORD", "credentials"},
		{"couchdb", "http://127.0.0.1:1", "env:WATCH_TEST_MISSING", "WATCH_TEST_MISSING"},
	} {
		err := sources[test.kind].Watch(t.Context(), &watch.Watched{Server: test.server, Credential: test.credential, Jobs: waitFor(), Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
