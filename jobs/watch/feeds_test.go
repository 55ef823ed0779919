package watch_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/memnet"
	"github.com/feedctl/feedctl/jobs/watch"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A feedsWorld is a site with feeds, and a job for each feed, in fake time. The requests to the site go to each of its
// servers in turn.
type feedsWorld struct {
	store  storage.Store
	config server.Config
	net    *memnet.Net
	jobs   *waiting

	mu      sync.Mutex
	servers []*server.Server
	turn    int
	broken  http.HandlerFunc // responds instead of the servers, if it is not nil
}

func (w *feedsWorld) watch(t *testing.T) (stop func()) {
	return w.jobs.watching(t, watch.Feeds{Transport: w.net.Client().Transport}, "http://feeds.test/base/")
}

// breakIt makes the given handler respond instead of the servers. If it is nil, the servers respond again.
func (w *feedsWorld) breakIt(how http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = how
}

// restart replaces all servers.
func (w *feedsWorld) restart(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	before := w.servers
	w.servers = nil
	for range before {
		s, err := server.New(w.store, w.config)
		if err != nil {
			t.Fatal(err)
		}
		w.servers = append(w.servers, s)
	}
	w.mu.Unlock()
	for _, s := range before {
		if s != nil {
			s.Close(context.Background())
		}
	}
}

func (w *feedsWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	var handler http.Handler = w.servers[w.turn%len(w.servers)]
	w.turn++
	if w.broken != nil {
		handler = w.broken
	}
	w.mu.Unlock()
	handler.ServeHTTP(rw, r)
}

// requests returns the numbers of requests since the last call: for lists of changes, and for single feeds.
func (w *feedsWorld) requests() (changes, feeds int) {
	for _, r := range w.net.Requests() {
		if strings.HasPrefix(r, "GET /base/changes") {
			changes++
		} else {
			feeds++
		}
	}
	return changes, feeds
}

var (
	listed   = server.Config{}                // lists the feeds that have changed
	unlisted = server.Config{NoListing: true} // does not list them
)

func inFeedsWorld(t *testing.T, feeds, servers int, config server.Config, test func(t *testing.T, w *feedsWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &feedsWorld{store: memory.New(), config: config, servers: make([]*server.Server, servers)}
		w.restart(t)
		w.net = memnet.New(t, http.StripPrefix("/base", w))
		names := numbered("f", feeds)
		for _, name := range names {
			publish(t, w.store, name)
		}
		w.jobs = waitFor(names...)
		test(t, w)
		for _, s := range w.servers {
			s.Close(context.Background())
		}
	})
}

// TestFeedsAtRest counts the requests for feeds in which nothing happens.
func TestFeedsAtRest(t *testing.T) {
	t.Parallel()
	feeds, less := many()
	for _, test := range []struct {
		name           string
		config         server.Config
		feeds          int
		soon           time.Duration // from the start until requests have become rare
		changes, heads [2]int        // requests in 10 minutes
	}{
		{"listed", listed, feeds, time.Minute, [2]int{10, 12}, [2]int{0, 0}},
		{"unlisted", unlisted, 300 / less, 9 * time.Minute, [2]int{1, 2}, [2]int{3000 / less, 3500 / less}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inFeedsWorld(t, test.feeds, 1, test.config, func(t *testing.T, w *feedsWorld) {
				stop := w.watch(t)
				time.Sleep(test.soon)
				if n := len(strings.Fields(w.jobs.take())); n != test.feeds {
					t.Errorf("%d jobs were woken by the first comparison", n)
				}
				w.requests()
				w.jobs.confirmed()
				time.Sleep(10 * time.Minute)
				changes, heads := w.requests()
				t.Logf("%d feeds at rest, in 10 minutes: %d requests for changes, %d for feeds", test.feeds, changes, heads)
				if changes < test.changes[0] || changes > test.changes[1] || heads < test.heads[0] || heads > test.heads[1] {
					t.Errorf("want %v and %v requests", test.changes, test.heads)
				}
				if woken := w.jobs.take(); woken != "" {
					t.Errorf("woken at rest: %.100s", woken)
				}
				if n := w.jobs.confirmed(); n < 8 {
					t.Errorf("%d confirmations", n)
				}
				stop()
			})
		})
	}
}

// TestFeedsWake: a change, a new feed and a deletion wake a job at once. If the server does not list changes, the first
// change wakes the job within a minute, and a further change within 3 s.
func TestFeedsWake(t *testing.T) {
	for name, test := range map[string]struct {
		config      server.Config
		first, next int // seconds
	}{"listed": {listed, 1, 1}, "unlisted": {unlisted, 62, 4}} {
		t.Run(name, func(t *testing.T) {
			inFeedsWorld(t, 5, 1, test.config, func(t *testing.T, w *feedsWorld) {
				w.jobs.states["new"] = ""
				stop := w.watch(t)
				time.Sleep(9 * time.Minute)
				w.jobs.take()
				wakes := func(name string, within int) {
					t.Helper()
					got, waited := "", 0
					for ; got == "" && waited < within; waited++ {
						time.Sleep(time.Second)
						got = w.jobs.take()
					}
					if got != name {
						t.Errorf("woken in %d s: %q, want %q", waited, got, name)
					}
				}
				within := test.first
				for range 6 {
					publish(t, w.store, "f002")
					wakes("f002", within)
					within = test.next
				}
				publish(t, w.store, "new")
				wakes("new", test.first)
				if _, err := chain.Delete(t.Context(), w.store, "f001"); err != nil {
					t.Fatal(err)
				}
				wakes("f001", test.first)
				stop()
			})
		})
	}
}

// TestFeedsRestart: a source that starts with saved states wakes the jobs of feeds that have changed or been deleted,
// and no others, even if the server was restarted in the meantime.
func TestFeedsRestart(t *testing.T) {
	for name, config := range map[string]server.Config{"listed": listed, "unlisted": unlisted} {
		for what, restart := range map[string]func(t *testing.T, w *feedsWorld){
			"watch":  func(*testing.T, *feedsWorld) {},
			"server": func(t *testing.T, w *feedsWorld) { w.restart(t) },
			"late":   func(*testing.T, *feedsWorld) { time.Sleep(time.Hour) },
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				inFeedsWorld(t, 5, 1, config, func(t *testing.T, w *feedsWorld) {
					stop := w.watch(t)
					time.Sleep(5 * time.Minute)
					stop()
					w.jobs.take()
					publish(t, w.store, "f003")
					if _, err := chain.Delete(t.Context(), w.store, "f004"); err != nil {
						t.Fatal(err)
					}
					restart(t, w)
					w.requests()
					stop = w.watch(t)
					time.Sleep(time.Minute)
					if got := w.jobs.take(); got != "f003 f004" {
						t.Errorf("woken: %q", got)
					}
					if changes, _ := w.requests(); changes > 10 {
						t.Errorf("%d requests for changes", changes)
					}
					stop()
				})
			})
		}
	}
}

// TestFeedsServers: if several servers behind one URL each know only their own tokens, no change is lost, and there are
// few requests.
func TestFeedsServers(t *testing.T) {
	t.Parallel()
	inFeedsWorld(t, 5, 3, listed, func(t *testing.T, w *feedsWorld) {
		stop := w.watch(t)
		time.Sleep(time.Hour)
		w.jobs.take()
		w.requests()
		time.Sleep(time.Hour)
		if changes, _ := w.requests(); changes > 4*60 {
			t.Errorf("%d requests in an hour at rest", changes)
		}
		if got := w.jobs.take(); got != "" {
			t.Errorf("woken at rest: %q", got)
		}
		publish(t, w.store, "f003")
		time.Sleep(2 * time.Minute)
		if got := w.jobs.take(); got != "f003" {
			t.Errorf("woken: %q", got)
		}
		stop()
	})
}

// TestFeedsFaults: changes made while the server fails wake jobs when the server works again. If it asks its clients to
// wait, it gets no requests until then.
func TestFeedsFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]http.HandlerFunc{
		"500":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"403":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"lost": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"truncated": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"feeds"`)
			panic(http.ErrAbortHandler)
		},
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	} {
		for mode, config := range map[string]server.Config{"listed": listed, "unlisted": unlisted} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				inFeedsWorld(t, 5, 1, config, func(t *testing.T, w *feedsWorld) {
					stop := w.watch(t)
					time.Sleep(9 * time.Minute)
					w.jobs.take()
					w.breakIt(fault)
					publish(t, w.store, "f001")
					time.Sleep(2 * time.Minute)
					w.requests()
					time.Sleep(10 * time.Minute)
					if changes, heads := w.requests(); name == "429" && changes+heads > 30 {
						t.Errorf("%d requests for changes, %d for feeds", changes, heads)
					}
					if got := w.jobs.take(); got != "" && got != "f001" { // f001 may be in the response to a request that waited for changes
						t.Errorf("woken: %q", got)
					}
					publish(t, w.store, "f002")
					w.breakIt(nil)
					time.Sleep(4 * time.Minute)
					if got := w.jobs.take(); !strings.HasSuffix(got, "f002") {
						t.Errorf("woken afterwards: %q", got)
					}
					if w.jobs.wakings("f001") < 2 {
						t.Error("f001 was not woken")
					}
					stop()
				})
			})
		}
	}
}

// TestFeedsOther: if a server responds to every request, but not with a list of changes, its feeds are compared.
func TestFeedsOther(t *testing.T) {
	for name, body := range map[string]string{
		"page": "<!DOCTYPE html>", "nothing": "", "null": "null", "list": "[]", "object": `{"feeds": [], "complete": true}`, "large": strings.Repeat(" ", 5<<20),
	} {
		t.Run(name, func(t *testing.T) {
			inFeedsWorld(t, 3, 1, listed, func(t *testing.T, w *feedsWorld) {
				w.breakIt(func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/changes" {
						_, _ = io.WriteString(rw, body)
					} else {
						w.servers[0].ServeHTTP(rw, r)
					}
				})
				stop := w.watch(t)
				time.Sleep(5 * time.Minute)
				if got := w.jobs.take(); got != "f000 f001 f002" {
					t.Errorf("woken: %q", got)
				}
				if w.jobs.confirmed() == 0 {
					t.Error("no confirmation")
				}
				stop()
			})
		})
	}
}

// TestFeedsCredential: the credential is read from the environment variable or file that the job names.
func TestFeedsCredential(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(file, []byte("bearer s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inFeedsWorld(t, 1, 1, listed, func(t *testing.T, w *feedsWorld) {
		w.breakIt(func(rw http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != "Bearer s3cret" || r.URL.Path != "/feeds/f000" && r.URL.Path != "/changes" {
				t.Errorf("%s with authorization %q", r.URL, got)
			}
		})
		w.jobs.credential = "file:" + file
		stop := w.watch(t)
		time.Sleep(time.Minute)
		if got := w.jobs.take(); got != "f000" {
			t.Errorf("woken: %q", got)
		}
		stop()
	})
}
