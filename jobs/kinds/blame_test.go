package kinds_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/internal/disktest"
	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/kinds"
	"github.com/feedctl/feedctl/server"
)

// serve serves the feeds of the scene with the handler that change returns.
func (s *scene) serve(change func(http.Handler) http.Handler) (base string) {
	s.Helper()
	handler, err := server.New(s.store, server.Config{})
	if err != nil {
		s.Fatal(err)
	}
	web := httptest.NewServer(change(handler))
	s.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		if err := handler.Close(s.Context()); err != nil {
			s.Error(err)
		}
	})
	return web.URL
}

func unchanged(h http.Handler) http.Handler { return h }

// cut ends each response to a GET in the middle of its body.
func cut(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whole := httptest.NewRecorder()
		h.ServeHTTP(whole, r)
		for name, values := range whole.Header() {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Length", strconv.Itoa(whole.Body.Len()))
		w.WriteHeader(whole.Code)
		_, _ = io.CopyN(w, whole.Body, int64(whole.Body.Len()/2))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

// database returns the URL of an empty database that is reached over TCP, like a database on another
// host.
func (s *scene) database() string {
	s.Helper()
	url, down := proxied(s.T)
	s.Cleanup(down)
	return url
}

// proxied returns the URL of an empty database, and a function that closes all connections to it and
// makes it refuse new ones.
func proxied(s *testing.T) (url string, down func()) {
	s.Helper()
	config, err := pgconn.ParseConfig(pgtest.Start(s).URL("blame"))
	if err != nil {
		s.Fatal(err)
	}
	_, socket := pgconn.NetworkAddress(config.Host, config.Port)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	closed := false
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", socket)
			if err != nil {
				client.Close()
				continue
			}
			mu.Lock()
			if open = append(open, client, server); closed {
				client.Close()
			}
			mu.Unlock()
			for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					way[0].Close()
				}()
			}
		}
	}()
	return fmt.Sprintf("postgres://%s@%s/%s", config.User, listener.Addr(), config.Database), func() {
		listener.Close()
		mu.Lock()
		defer mu.Unlock()
		closed = true
		for _, c := range open {
			c.Close()
		}
	}
}

func originOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return origins.Of(u)
}

// TestBlame runs jobs that fail because of a server or of something on the node, three jobs for each
// cause. A server is taken to be down only if it is the cause.
func TestBlame(t *testing.T) {
	t.Parallel()
	const nowhere = "http://127.0.0.1:1"
	for _, test := range []struct {
		name   string
		job    func(s *scene, n int) jobs.Document
		down   func(d *jobs.Document) string
		reason string
	}{
		{"credential", func(s *scene, n int) jobs.Document {
			target := s.database() + fmt.Sprintf("?table=t%d", n)
			return jobs.Document{Source: s.serve(unchanged) + "/feeds/zones", Target: target, Credentials: map[string]string{"target": "file:" + s.path("none")}}
		}, func(*jobs.Document) string { return "" }, "no such file"},
		{"disk", func(s *scene, n int) jobs.Document {
			disk := disktest.Mount(s, "64k")
			disktest.Fill(s, disk)
			return jobs.Document{Source: s.serve(unchanged) + "/feeds/zones", Target: fmt.Sprintf("jsonl:%s/%d.jsonl", disk, n)}
		}, func(*jobs.Document) string { return "" }, "no space left"},
		{"source", func(s *scene, n int) jobs.Document {
			return jobs.Document{Source: nowhere + "/feeds/zones", Target: s.database() + fmt.Sprintf("?table=t%d", n)}
		}, func(d *jobs.Document) string { return d.Source }, "connection refused"},
		{"cut", func(s *scene, n int) jobs.Document {
			return jobs.Document{Source: s.serve(cut) + "/feeds/zones", Target: s.database() + fmt.Sprintf("?table=t%d", n)}
		}, func(d *jobs.Document) string { return d.Source }, "unexpected EOF"},
		{"target", func(s *scene, n int) jobs.Document {
			return jobs.Document{Source: s.serve(unchanged) + "/feeds/zones", Target: fmt.Sprintf("couchdb:%s/t%d", nowhere, n)}
		}, func(d *jobs.Document) string { return strings.TrimPrefix(d.Target, "couchdb:") }, "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.publish("zones", 30)
			var documents []jobs.Document
			for n := range 3 {
				d := test.job(s, n)
				d.Name, d.Kind, d.Options = fmt.Sprint(n), "consume", map[string]jobs.Values{"retries": {"1"}}
				documents = append(documents, d)
			}
			scheduler, _ := s.schedule(documents...)
			for n := range documents {
				s.await(scheduler, fmt.Sprint(n), func(j *jobs.Job) bool {
					return j.Shown() == jobs.Crashing && strings.Contains(j.Reason, test.reason)
				})
			}
			want := []string(nil)
			for _, d := range documents {
				if raw := test.down(&d); raw != "" && !slices.Contains(want, originOf(t, raw)) {
					want = append(want, originOf(t, raw))
				}
			}
			var got []string
			list, err := scheduler.Origins(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range list {
				if o.Failures > 0 {
					got = append(got, o.Origin)
				}
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("blamed: %v, want %v", got, want)
			}
		})
	}
}

// TestBlameLingering: the database of an outbox goes down while a run waits for rows. Within a minute,
// long before the run would be ended, the database is taken to be down.
func TestBlameLingering(t *testing.T) {
	t.Parallel()
	url, down := proxied(t)
	store := "file:" + t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		scheduler, err := jobs.Open(t.Context(), "sqlite::memory:", kinds.All(), jobs.Defaults())
		if err != nil {
			t.Fatal(err)
		}
		defer scheduler.Close()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- scheduler.Work(ctx, jobs.WorkerConfig{Name: "node"}) }()
		time.Sleep(time.Second) // until the node has joined
		d := jobs.Document{Namespace: "test", Name: "job", Kind: "outbox run", Source: url, Target: store, Follow: true, Options: map[string]jobs.Values{"feed": {"rows"}}}
		d.Placement.Node = "node"
		if _, err := scheduler.Apply(t.Context(), []jobs.Document{d}, jobs.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if j, err := scheduler.Get(t.Context(), "test/job"); err != nil || j.State != jobs.Running || j.Errors > 0 {
			t.Fatalf("the job does not wait for rows: %+v, %v", j, err)
		}
		down()
		time.Sleep(time.Minute)
		if list, err := scheduler.Origins(t.Context()); err != nil || len(list) != 1 || list[0].Failures == 0 || list[0].Origin != originOf(t, url) {
			t.Errorf("origins: %+v, %v", list, err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
