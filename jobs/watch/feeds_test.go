package watch_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/memnet"
	"github.com/feedctl/feedctl/jobs/watch"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A feedsWorld is a server with feeds in fake time, and a job for each.
type feedsWorld struct {
	store  storage.Store
	net    *memnet.Net
	jobs   *waiting
	broken atomic.Pointer[http.HandlerFunc] // responds instead of the server
}

func (w *feedsWorld) watch(t *testing.T) (stop func()) {
	return w.jobs.watching(t, watch.Feeds{Transport: w.net.Client().Transport}, "http://feeds.test/base/")
}

func (w *feedsWorld) breakIt(how http.HandlerFunc) { w.broken.Store(&how) }

func inFeedsWorld(t *testing.T, feeds int, test func(t *testing.T, w *feedsWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &feedsWorld{store: memory.New()}
		handler, err := server.New(w.store, server.Config{})
		if err != nil {
			t.Fatal(err)
		}
		w.net = memnet.New(t, http.StripPrefix("/base", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if broken := w.broken.Load(); broken != nil {
				(*broken)(rw, r)
				return
			}
			handler.ServeHTTP(rw, r)
		})))
		var names []string
		for n := range feeds {
			names = append(names, fmt.Sprintf("f%03d", n))
			publish(t, w.store, names[n])
		}
		w.jobs = waitFor(names...)
		test(t, w)
		handler.Close(context.Background())
	})
}

// TestFeedsAtRest counts the requests for feeds in which nothing happens.
func TestFeedsAtRest(t *testing.T) {
	inFeedsWorld(t, 300, func(t *testing.T, w *feedsWorld) {
		stop := w.watch(t)
		time.Sleep(10 * time.Minute)
		if n := len(strings.Fields(w.jobs.take())); n != 300 {
			t.Errorf("%d jobs were woken by the first comparison", n)
		}
		w.net.Requests()
		w.jobs.confirmed()
		time.Sleep(10 * time.Minute)
		if n := len(w.net.Requests()); n < 3000 || n > 3500 {
			t.Errorf("%d requests in 10 minutes", n)
		}
		if woken := w.jobs.take(); woken != "" {
			t.Errorf("woken at rest: %.100s", woken)
		}
		if n := w.jobs.confirmed(); n < 8 {
			t.Errorf("%d confirmations", n)
		}
		stop()
	})
}

// TestFeedsWake: a change wakes a job within a minute, and a further one within 3 s; so does a new feed. A source that
// begins with saved states wakes the jobs of feeds that have changed.
func TestFeedsWake(t *testing.T) {
	inFeedsWorld(t, 5, func(t *testing.T, w *feedsWorld) {
		w.jobs.states["new"] = ""
		stop := w.watch(t)
		time.Sleep(10 * time.Minute)
		w.jobs.take()
		for i := range 6 {
			publish(t, w.store, "f002")
			got, waited := "", 0
			for ; got == "" && waited < 62; waited++ {
				time.Sleep(time.Second)
				got = w.jobs.take()
			}
			if got != "f002" || i > 0 && waited > 3 {
				t.Errorf("change %d: woken in %d s: %q", i, waited, got)
			}
		}
		publish(t, w.store, "new")
		time.Sleep(62 * time.Second)
		if got := w.jobs.take(); got != "new" {
			t.Errorf("woken: %q", got)
		}
		stop()
		publish(t, w.store, "f003")
		stop = w.watch(t)
		time.Sleep(time.Minute)
		if got := w.jobs.take(); got != "f003" {
			t.Errorf("woken after a restart: %q", got)
		}
		stop()
	})
}

// TestFeedsFaults: what changes while the server fails wakes jobs when it works again, and it is left alone for as long
// as it asks.
func TestFeedsFaults(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{
		"500":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"lost": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	} {
		inFeedsWorld(t, 5, func(t *testing.T, w *feedsWorld) {
			stop := w.watch(t)
			time.Sleep(10 * time.Minute)
			w.jobs.take()
			w.breakIt(fault)
			publish(t, w.store, "f001")
			time.Sleep(2 * time.Minute)
			w.net.Requests()
			time.Sleep(10 * time.Minute)
			if n := len(w.net.Requests()); name == "429" && n > 30 {
				t.Errorf("%s: %d requests", name, n)
			}
			if got := w.jobs.take(); got != "" {
				t.Errorf("%s: woken: %q", name, got)
			}
			w.broken.Store(nil)
			time.Sleep(4 * time.Minute)
			if got := w.jobs.take(); got != "f001" {
				t.Errorf("%s: woken afterwards: %q", name, got)
			}
			stop()
		})
	}
}

// TestFeedsCredential: the credential is read where the job says.
func TestFeedsCredential(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(file, []byte("bearer s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inFeedsWorld(t, 1, func(t *testing.T, w *feedsWorld) {
		w.breakIt(func(rw http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != "Bearer s3cret" || r.URL.Path != "/feeds/f000" {
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
