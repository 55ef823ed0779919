package kinds_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/memnet"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/kinds"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// A slow is a test in fake time with a slow store and a slow server.
type slow struct {
	*testing.T
	dir      string
	database string // of PostgreSQL
	store    storage.Store
	pause    func(fault.Op) time.Duration // of the store, while a job runs
	couch    *couchtest.Fake
	handler  http.Handler // of all servers
}

func inSlow(t *testing.T, test func(s *slow)) {
	dir, database := t.TempDir(), pgtest.Start(t).URL("slow")
	synctest.Test(t, func(t *testing.T) {
		s := &slow{T: t, dir: dir, database: database, store: memory.New(), couch: couchtest.NewHandler()}
		s.handler = s.couch
		s.pause = func(fault.Op) time.Duration { return 0 }
		test(s)
	})
}

// open opens the store, with pauses.
func (s *slow) open() storage.Store {
	return kept{fault.Wrap(s.store, func(o fault.Op) fault.Outcome {
		time.Sleep(s.pause(o))
		return fault.Pass
	})}
}

// A kept store stays open when a run calls Close.
type kept struct{ storage.Store }

func (k kept) Unwrap() storage.Store { return k.Store }
func (kept) Close() error            { return nil }

// publish publishes entities, each on a page of its own, with random text that compression does not
// make shorter.
func (s *slow) publish(entities, size int) {
	s.Helper()
	f, err := producer.Open(s.Context(), s.store, "zones", producer.Config{MaxPageEntities: 1})
	if err != nil {
		s.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{})
	text := make([]byte, size)
	for n := range entities {
		_, _ = random.Read(text) // it never fails
		body := fmt.Appendf(nil, `{"n":%d,"text":%q}`, n, base64.StdEncoding.EncodeToString(text))
		if _, err := f.Publish(s.Context(), &producer.Entity{Operation: feed.Put, ContentType: "application/json", ContentLocation: fmt.Sprint(n), Body: body}); err != nil {
			s.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		s.Fatal(err)
	}
}

// serve serves the store, with slow responses.
func (s *slow) serve() {
	s.Helper()
	feeds, err := server.New(s.store, server.Config{PublicURL: "http://feeds.example.org"})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { feeds.Close(context.Background()) })
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { feeds.ServeHTTP(slowWriter{w}, r) })
}

// A slowWriter sends 64 KiB every 15 seconds.
type slowWriter struct{ http.ResponseWriter }

func (w slowWriter) Write(p []byte) (written int, err error) {
	for piece := range slices.Chunk(p, 64<<10) {
		n, err := w.ResponseWriter.Write(piece)
		written += n
		if err == nil {
			err = http.NewResponseController(w.ResponseWriter).Flush()
		}
		if err != nil {
			return written, err
		}
		time.Sleep(15 * time.Second)
	}
	return written, nil
}

// run runs a job to its end, and checks that the run takes longer than a run may go without progress.
func (s *slow) run(d jobs.Document) *jobs.Stats {
	s.Helper()
	began := time.Now()
	stats := s.once(d)
	if took := time.Since(began); took < jobs.Defaults().StuckAfter+2*time.Minute {
		s.Errorf("the job took only %v", took)
	}
	return stats
}

// once runs a job to its end.
func (s *slow) once(d jobs.Document) *jobs.Stats {
	s.Helper()
	d.Namespace, d.Name, d.Placement.Node = "test", "job", "node"
	scheduler, err := jobs.Open(s.Context(), "sqlite::memory:", kinds.On(s.open), jobs.Defaults())
	if err != nil {
		s.Fatal(err)
	}
	network := memnet.New(s, s.handler)
	ctx, stop := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() {
		done <- scheduler.Work(ctx, jobs.WorkerConfig{Name: "node", Transport: network.Client().Transport})
	}()
	time.Sleep(time.Second) // until the node has joined
	if _, err := scheduler.Apply(s.Context(), []jobs.Document{d}, jobs.ApplyOptions{}); err != nil {
		s.Error(err)
	}
	var j *jobs.Job
	for j == nil || j.State == jobs.Pending && j.Errors == 0 || j.State == jobs.Running {
		time.Sleep(time.Second)
		if j, err = scheduler.Get(s.Context(), "test/job"); err != nil {
			s.Fatal(err)
		}
	}
	if j.State != jobs.Completed {
		s.Errorf("job is %s: %s", j.Shown(), j.Reason)
	}
	stats, err := scheduler.Stats(s.Context(), "test/job")
	if err != nil {
		s.Error(err)
	}
	stop()
	if err := <-done; err != nil {
		s.Error(err)
	}
	if err := scheduler.Close(); err != nil {
		s.Error(err)
	}
	time.Sleep(time.Minute) // until the server has noticed that the client is gone
	return stats
}

// TestSlow runs a job of each kind with a step that does not show in the statistics and takes longer
// than a run may go without progress.
func TestSlow(t *testing.T) {
	const stored = "s3://bucket#zones"
	every := func(d time.Duration) func(fault.Op) time.Duration {
		return func(fault.Op) time.Duration { return d }
	}
	for name, test := range map[string]func(s *slow){
		"consume": func(s *slow) { // no part of the page can be committed before its end
			s.publish(1, 2<<20)
			s.serve()
			stats := s.run(jobs.Document{Kind: "consume", Source: "http://feeds.example.org/feeds/zones", Target: "jsonl:" + filepath.Join(s.dir, "out")})
			if stats == nil || stats.Entities != 1 {
				s.Errorf("statistics: %+v", stats)
			}
		},
		"verify": func(s *slow) {
			s.publish(1, 2<<20)
			s.serve()
			if stats := s.run(jobs.Document{Kind: "verify", Source: "http://feeds.example.org/feeds/zones"}); stats != nil {
				s.Errorf("statistics of a check: %+v", stats)
			}
		},
		"prune": func(s *slow) {
			s.publish(10, 10)
			s.pause = every(time.Minute)
			s.run(jobs.Document{Kind: "prune", Target: stored, Options: map[string]jobs.Values{"keep-pages": {"2"}}})
		},
		"snapshot from-feed": func(s *slow) { // the snapshot is written slowly, after the feed has been read
			s.publish(3, 10)
			s.pause = func(o fault.Op) time.Duration {
				if o.Verb.Writes() {
					return 4 * time.Minute
				}
				return 0
			}
			s.run(jobs.Document{Kind: "snapshot from-feed", Source: stored})
		},
		"outbox run": func(s *slow) {
			conn, err := pgx.Connect(s.Context(), s.database)
			if err != nil {
				s.Fatal(err)
			}
			d := jobs.Document{Kind: "outbox run", Source: s.database, Target: "s3://bucket", Options: map[string]jobs.Values{"feed": {"zones"}}}
			s.once(d) // creates the tables
			if _, err := conn.Exec(s.Context(), "SELECT feedctl.publish('zones', 'a', 'PUT', '{}'::text)"); err != nil {
				s.Fatal(err)
			}
			if err := conn.Close(s.Context()); err != nil {
				s.Fatal(err)
			}
			s.pause = func(o fault.Op) time.Duration { return 55 * time.Second }
			if stats := s.run(d); stats.Position == "0" || stats.Position != stats.SourcePosition {
				s.Errorf("statistics: %+v", stats)
			}
		},
		"bridge couchdb, index": func(s *slow) { // the index is filled from the feed
			d := s.bridge()
			s.once(d)
			d.Options["index"] = jobs.Values{filepath.Join(s.dir, "another")}
			s.pause = every(10 * time.Second)
			if stats := s.run(d); stats.Position == "" || stats.Position != stats.SourcePosition {
				s.Errorf("statistics: %+v", stats)
			}
		},
		"bridge couchdb, filter": func(s *slow) { // nothing passes the filter, and the server sends only heartbeats
			d := s.bridge()
			d.Options["filter"] = jobs.Values{"app/none"}
			s.couch.Filters["app/none"] = func([]byte, url.Values) bool { return false }
			s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for beats := 0; strings.HasSuffix(r.URL.Path, "/_changes") && beats < 200; beats++ {
					_, _ = w.Write([]byte("\n"))
					_ = http.NewResponseController(w).Flush()
					time.Sleep(5 * time.Second)
				}
				s.couch.ServeHTTP(w, r)
			})
			s.run(d)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inSlow(t, test)
		})
	}
}

// bridge returns a job for a database with 40 documents.
func (s *slow) bridge() jobs.Document {
	s.Helper()
	s.send("PUT", "/db", "")
	for n := range 40 {
		s.send("PUT", fmt.Sprint("/db/doc", n), `{}`)
	}
	return jobs.Document{Kind: "bridge couchdb", Source: "http://couch.example.org/db", Target: "s3://bucket#zones", Options: map[string]jobs.Values{
		"max-page-entities": {"1"}, "index": {filepath.Join(s.dir, "index")},
	}}
}

// send sends a request to the CouchDB server, without delay.
func (s *slow) send(method, path, body string) {
	s.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(s.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if s.couch.ServeHTTP(w, r); w.Code >= 300 {
		s.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
}
