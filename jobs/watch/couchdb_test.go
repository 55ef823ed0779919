package watch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/memnet"
	"github.com/feedctl/feedctl/jobs/watch"
)

// A couchWorld is a CouchDB server with databases, and a job for each database, in fake time.
type couchWorld struct {
	*couchtest.Fake
	net  *memnet.Net
	jobs *waiting

	mu      sync.Mutex
	dropped context.Context // done when connections are dropped
	drop    context.CancelFunc
}

// ServeHTTP ends a response when connections are dropped.
func (w *couchWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	w.mu.Lock()
	dropped := w.dropped
	w.mu.Unlock()
	defer context.AfterFunc(dropped, cancel)()
	w.Fake.ServeHTTP(rw, r.WithContext(ctx))
	if dropped.Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

// restart drops all connections, as a restart of the server does.
func (w *couchWorld) restart() {
	w.mu.Lock()
	drop := w.drop
	w.dropped, w.drop = context.WithCancel(context.Background())
	w.mu.Unlock()
	drop()
	synctest.Wait()
}

func (w *couchWorld) watch(t *testing.T) (stop func()) {
	return w.jobs.watching(t, watch.CouchDB{Transport: w.net.Client().Transport}, "http://couch.test")
}

// requests returns the number of requests of each kind since the last call.
func (w *couchWorld) requests() string {
	counts := map[string]int{}
	for _, r := range w.net.Requests() {
		r, _, _ = strings.Cut(r, "?")
		if strings.HasPrefix(r, "GET /db") {
			r = "GET each"
		}
		counts[r]++
	}
	return strings.TrimPrefix(fmt.Sprint(counts), "map")
}

func inCouchWorld(t *testing.T, databases int, test func(t *testing.T, w *couchWorld), configure ...func(*couchtest.Fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := couchtest.NewHandler()
		for _, f := range configure {
			f(fake)
		}
		names := numbered("db", databases)
		for _, name := range names {
			fake.Create(name)
		}
		w := &couchWorld{Fake: fake, jobs: waitFor(names...)}
		w.dropped, w.drop = context.WithCancel(context.Background())
		w.net = memnet.New(t, w)
		test(t, w)
		w.drop()
	})
}

func reporting(f *couchtest.Fake) { f.GlobalChanges() }
func noAdmin(f *couchtest.Fake)   { f.NoAdmin = true }
func cluster(f *couchtest.Fake)   { f.Copies = 3 }
func silent(*couchtest.Fake)      {}

// TestCouchDBAtRest counts the requests for watching a thousand databases in which nothing happens.
func TestCouchDBAtRest(t *testing.T) {
	t.Parallel()
	databases, less := many()
	for _, test := range []struct {
		name      string
		configure func(*couchtest.Fake)
		within    map[string][2]int // the expected range of requests in 20 minutes; those above 10 are for a thousand databases
	}{
		{"updates", reporting, map[string][2]int{"POST /_dbs_info": {20, 20}}},
		{"infos", silent, map[string][2]int{"POST /_dbs_info": {200, 600}, "GET /_db_updates": {2, 2}}},
		{"each", noAdmin, map[string][2]int{"GET each": {19_500, 23_000}, "GET /_db_updates": {2, 2}, "POST /_dbs_info": {2, 2}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inCouchWorld(t, databases, func(t *testing.T, w *couchWorld) {
				stop := w.watch(t)
				time.Sleep(9 * time.Minute)
				if n := len(strings.Fields(w.jobs.take())); n != databases {
					t.Errorf("%d jobs were woken by the first comparison", n)
				}
				w.requests()
				w.jobs.confirmed()
				time.Sleep(20 * time.Minute)
				got := w.requests()
				t.Logf("%d databases at rest, in 20 minutes: %s", databases, got)
				for what, want := range test.within {
					n := 0
					if _, rest, ok := strings.Cut(got, what+":"); ok {
						_, _ = fmt.Sscan(rest, &n)
					}
					if want[0] >= 10 {
						want[0] /= less
					}
					if n < want[0] || n > want[1] {
						t.Errorf("%d requests %s, want %d to %d", n, what, want[0], want[1])
					}
				}
				if names := strings.Count(got, ":"); names != len(test.within) {
					t.Errorf("unexpected requests: %s", got)
				}
				if woken := w.jobs.take(); woken != "" {
					t.Errorf("woken at rest: %.100s", woken)
				}
				if n := w.jobs.confirmed(); n < 4 {
					t.Errorf("%d confirmations", n)
				}
				stop()
			}, test.configure)
		})
	}
}

// TestCouchDBWakes: a change, a deletion, and the creation of a database of the same name each wake a job. If the
// server reports changes, this happens soon.
func TestCouchDBWakes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		configure []func(*couchtest.Fake)
		within    time.Duration
	}{
		{"updates", []func(*couchtest.Fake){reporting}, time.Second},
		{"updates of a cluster", []func(*couchtest.Fake){cluster, reporting}, time.Second},
		{"infos", []func(*couchtest.Fake){silent}, 66 * time.Second},
		{"infos of a cluster", []func(*couchtest.Fake){cluster}, 66 * time.Second},
		{"each", []func(*couchtest.Fake){noAdmin}, 66 * time.Second},
		{"each of a cluster", []func(*couchtest.Fake){noAdmin, cluster}, 66 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			inCouchWorld(t, 20, func(t *testing.T, w *couchWorld) {
				stop := w.watch(t)
				rest := 10 * time.Minute
				if w.Copies > 1 { // until the states of all copies are known
					rest = 4 * time.Hour
				}
				time.Sleep(rest)
				w.jobs.take()
				for what, change := range map[string]func(db string){
					"document": func(db string) { w.AddDoc(db, "x", "{}") },
					"another":  func(db string) { w.Delete(db); w.Create(db) },
					"deletion": w.Delete,
				} {
					change("db010")
					time.Sleep(test.within)
					if got := w.jobs.take(); got != "db010" {
						t.Errorf("%s: woken: %q", what, got)
					}
					if what == "deletion" {
						w.Create("db010")
						time.Sleep(test.within)
						if got := w.jobs.take(); got != "db010" {
							t.Errorf("created again: woken: %q", got)
						}
					}
				}
				stop()
			}, test.configure...)
		})
	}
}

// TestCouchDBLosesUpdates: changes that the server does not report are found when all databases are compared.
func TestCouchDBLosesUpdates(t *testing.T) {
	inCouchWorld(t, 20, func(t *testing.T, w *couchWorld) {
		stop := w.watch(t)
		time.Sleep(time.Minute)
		w.jobs.take()
		w.LoseUpdates(2)
		w.AddDoc("db007", "x", "{}")
		w.AddDoc("db008", "x", "{}")
		w.AddDoc("db009", "x", "{}")
		time.Sleep(time.Second)
		if got := w.jobs.take(); got != "db009" {
			t.Errorf("woken by reports: %q", got)
		}
		time.Sleep(10 * time.Minute)
		if got := w.jobs.take(); got != "db007 db008 db009" { // db009 may have changed after the report
			t.Errorf("woken by the comparison: %q", got)
		}
		stop()
	}, reporting)
}

// TestCouchDBRestart: a source that starts with saved states wakes the jobs of databases that have changed since.
func TestCouchDBRestart(t *testing.T) {
	for _, test := range []struct {
		name      string
		configure func(*couchtest.Fake)
	}{{"updates", reporting}, {"infos", silent}, {"each", noAdmin}} {
		t.Run(test.name, func(t *testing.T) {
			inCouchWorld(t, 20, func(t *testing.T, w *couchWorld) {
				stop := w.watch(t)
				time.Sleep(5 * time.Minute)
				stop()
				w.jobs.take()
				w.AddDoc("db012", "x", "{}")
				w.Delete("db014")
				w.Create("db014")
				stop = w.watch(t)
				time.Sleep(5 * time.Minute)
				if got := w.jobs.take(); got != "db012 db014" {
					t.Errorf("woken: %q", got)
				}
				stop()
			}, test.configure)
		})
	}
}

// TestCouchDBContinues: changes made while the server cannot report them are reported later.
func TestCouchDBContinues(t *testing.T) {
	inCouchWorld(t, 20, func(t *testing.T, w *couchWorld) {
		stop := w.watch(t)
		time.Sleep(time.Minute)
		for n := range 20 {
			w.jobs.take()
			w.Inject(n, couchtest.On("GET", "continuous"), couchtest.Cut(n))
			w.restart()
			w.AddDoc("db003", fmt.Sprint("x", n), "{}")
			time.Sleep(10 * time.Second)
			w.Heal()
			w.restart()
			time.Sleep(20 * time.Second)
			if got := w.jobs.take(); got != "db003" {
				t.Errorf("woken: %q", got)
			}
		}
		stop()
	}, reporting)
}

// TestCouchDBFaults: whatever happens to the server, no change is lost.
func TestCouchDBFaults(t *testing.T) {
	t.Parallel()
	databases := 20
	if testing.Short() {
		databases = 5
	}
	any := func(*http.Request) bool { return true }
	faults := map[string]func(w *couchWorld){
		"refuses all":      func(w *couchWorld) { w.Inject(200, any, couchtest.Refuse(500, "internal_server_error", "")) },
		"drops all":        func(w *couchWorld) { w.Inject(200, any, couchtest.Cut(0)) },
		"too many":         func(w *couchWorld) { w.Inject(20, any, couchtest.TooManyRequests(30)) },
		"truncated stream": func(w *couchWorld) { w.Inject(20, couchtest.On("GET", "continuous"), couchtest.Cut(30)) },
		"truncated infos":  func(w *couchWorld) { w.Inject(20, couchtest.On("POST", "_dbs_info"), couchtest.Cut(100)) },
		"no admin for a while": func(w *couchWorld) {
			w.Inject(3, any, couchtest.Refuse(401, "unauthorized", "You are not a server admin."))
		},
		"position unknown": func(w *couchWorld) {
			w.Inject(1, couchtest.On("GET", "continuous"), couchtest.Refuse(400, "bad_request", "Malformed sequence supplied in 'since' parameter."))
		},
		"no reports any more": func(w *couchWorld) { w.Delete("_global_changes") },
		"jobs unavailable": func(w *couchWorld) {
			w.jobs.mu.Lock()
			w.jobs.fails = errors.New("database of jobs is unavailable")
			w.jobs.mu.Unlock()
			time.AfterFunc(time.Minute, func() {
				w.jobs.mu.Lock()
				defer w.jobs.mu.Unlock()
				w.jobs.fails = nil
			})
		},
	}
	for _, mode := range []struct {
		name      string
		configure func(*couchtest.Fake)
	}{{"updates", reporting}, {"each", noAdmin}} {
		for name, fault := range faults {
			t.Run(mode.name+"/"+name, func(t *testing.T) {
				if mode.name == "each" && name == "no reports any more" {
					return // in this mode, there are no reports anyway
				}
				inCouchWorld(t, databases, func(t *testing.T, w *couchWorld) {
					stop := w.watch(t)
					time.Sleep(5 * time.Minute)
					w.jobs.take()
					fault(w)
					w.restart()
					w.AddDoc("db001", "x", "{}")
					time.Sleep(20 * time.Second)
					w.AddDoc("db002", "x", "{}")
					time.Sleep(20 * time.Minute)
					got := " " + w.jobs.take() + " "
					if !strings.Contains(got, " db001 db002 ") || len(got) > 200 {
						t.Errorf("woken: %.200q", got)
					}
					w.AddDoc("db003", "x", "{}")
					time.Sleep(70 * time.Second)
					if got := w.jobs.take(); !strings.Contains(got, "db003") {
						t.Errorf("woken after the fault: %q", got)
					}
					stop()
				}, mode.configure)
			})
		}
	}
}

// TestCouchDBCredential: the credential is read from the environment variable or file that the job names.
func TestCouchDBCredential(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(file, []byte("basic user:s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for credential, want := range map[string]string{"file:" + file: "db000 db001 db002", "": ""} {
		inCouchWorld(t, 3, func(t *testing.T, w *couchWorld) {
			w.Require(couchtest.Credentials{User: "user", Password: "s3cret"})
			w.jobs.credential = credential
			stop := w.watch(t)
			time.Sleep(time.Minute)
			if got := w.jobs.take(); got != want {
				t.Errorf("with credential %q: woken: %q", credential, got)
			}
			stop()
		}, reporting)
	}
}

// TestCouchDBServer watches a real server, which is restarted.
func TestCouchDBServer(t *testing.T) {
	t.Parallel()
	server := couchtest.StartOwn(t)
	names := make([]string, 5)
	for n := range names {
		url := server.NewDB(t)
		names[n] = url[strings.LastIndexByte(url, '/')+1:]
	}
	jobs := waitFor(names...)
	jobs.watching(t, watch.CouchDB{}, server.URL())
	for _, name := range names {
		jobs.wakes(t, name)
	}
	couchtest.Send(t, http.MethodPut, server.URL()+"/"+names[2]+"/a", "{}")
	jobs.wakes(t, names[2])
	server.Kill()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	couchtest.Send(t, http.MethodPut, server.URL()+"/"+names[3]+"/a", "{}")
	jobs.wakes(t, names[3])
}
