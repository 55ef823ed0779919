package watch_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/httpfault"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/memnet"
	"github.com/feedctl/feedctl/jobs/watch"
)

// A kintoWorld is a Kinto server with collections, and a job for each collection, in fake time.
type kintoWorld struct {
	*kintotest.Fake
	httpfault.Faults // for the requests of the watch
	net              *memnet.Net
	jobs             *waiting
	records          atomic.Int64
}

func (w *kintoWorld) watch(t *testing.T) (stop func()) {
	return w.jobs.watching(t, watch.Kinto{Transport: w.net.Client().Transport}, "http://kinto.test/v1/")
}

func (w *kintoWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if fault := w.For(r); fault != nil {
		fault(rw, r, w.Fake.ServeHTTP)
		return
	}
	w.Fake.ServeHTTP(rw, r)
}

// do makes a request that is not counted and not made to fail.
func (w *kintoWorld) do(method, path, body string) *httptest.ResponseRecorder {
	response := httptest.NewRecorder()
	r := httptest.NewRequest(method, "/v1/buckets/"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w.Fake.ServeHTTP(response, r)
	return response
}

func collectionPath(name string) string {
	return strings.Replace(name, "/", "/collections/", 1)
}

// put changes a collection by adding a record.
func (w *kintoWorld) put(name string) {
	w.do(http.MethodPut, fmt.Sprint(collectionPath(name), "/records/r", w.records.Add(1)), `{"data":{}}`)
}

// stampOf returns the stamp of a collection.
func (w *kintoWorld) stampOf(name string) string {
	return w.do(http.MethodGet, collectionPath(name)+"/records", "").Header().Get("ETag")
}

// requests returns the numbers of requests since the last call: for the list of all collections, and for single
// collections.
func (w *kintoWorld) requests() (lists, heads int) {
	for _, r := range w.net.Requests() {
		if strings.HasPrefix(r, "HEAD /v1/buckets/b/collections/") {
			heads++
		} else {
			lists++
		}
	}
	return lists, heads
}

func inKintoWorld(t *testing.T, collections int, test func(t *testing.T, w *kintoWorld), configure ...func(*kintotest.Fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &kintoWorld{Fake: kintotest.NewHandler()}
		for _, f := range configure {
			f(w.Fake)
		}
		w.do(http.MethodPut, "b", "")
		names := numbered("b/c", collections)
		for _, name := range names {
			w.do(http.MethodPut, collectionPath(name), "")
			w.put(name)
		}
		w.jobs = waitFor(names...)
		w.net = memnet.New(t, w)
		test(t, w)
	})
}

var kintoModes = map[string]func(*kintotest.Fake){"listed": func(f *kintotest.Fake) { f.Changes = true }, "each": func(*kintotest.Fake) {}}

// TestKintoAtRest counts the requests for collections in which nothing happens. The jobs are woken at the start, a
// minute later, and then every 6 h.
func TestKintoAtRest(t *testing.T) {
	t.Parallel()
	_, less := many()
	collections := 200 / less
	for mode, within := range map[string][4]int{"listed": {2150, 2162, 0, 0}, "each": {35, 37, 72, 85}} {
		t.Run(mode, func(t *testing.T) {
			inKintoWorld(t, collections, func(t *testing.T, w *kintoWorld) {
				stop := w.watch(t)
				time.Sleep(time.Hour + 5*time.Second) // between two requests
				w.jobs.take()
				before := map[string]int{}
				for name := range w.jobs.states {
					if before[name] = w.jobs.wakings(name); before[name] < 2 || before[name] > 3 {
						t.Errorf("job of %s was woken %d times in the first hour", name, before[name])
					}
				}
				w.requests()
				w.jobs.confirmed()
				time.Sleep(6 * time.Hour)
				lists, heads := w.requests()
				t.Logf("%d collections at rest, in 6 h: %d requests for changes, %d for collections", collections, lists, heads)
				if lists < within[0] || lists > within[1] || heads < within[2]*collections || heads > within[3]*collections {
					t.Errorf("want %d to %d, and %d to %d for each", within[0], within[1], within[2], within[3])
				}
				time.Sleep(6 * time.Minute) // jobs may be woken 5 min late
				for name, n := range before {
					if n = w.jobs.wakings(name) - n; n < 1 || n > 2 {
						t.Errorf("job of %s was woken %d times in 6 h at rest", name, n)
					}
				}
				if n := w.jobs.confirmed(); n < 6*11 {
					t.Errorf("%d confirmations", n)
				}
				stop()
			}, kintoModes[mode])
		})
	}
}

// TestKintoWakes: a change wakes a job within 5 min or, if the server lists changes, within 12 s. The job is woken a
// second time later, when transactions that began before the change have ended.
func TestKintoWakes(t *testing.T) {
	for mode, within := range map[string]int{"listed": 12, "each": 301} {
		t.Run(mode, func(t *testing.T) {
			inKintoWorld(t, 4, func(t *testing.T, w *kintoWorld) {
				w.jobs.states["b/new"] = ""
				stop := w.watch(t)
				time.Sleep(time.Hour)
				for _, what := range []string{"b/c001", "b/c002", "b/new"} {
					w.jobs.take()
					switch what {
					case "b/c002":
						w.do(http.MethodDelete, collectionPath(what), "")
					case "b/new":
						w.do(http.MethodPut, collectionPath(what), "")
					default:
						w.put(what)
					}
					got, waited := "", 0
					for ; got == "" && waited < within; waited++ {
						time.Sleep(time.Second)
						got = w.jobs.take()
					}
					if got != what {
						t.Errorf("%s: woken in %d s: %q", what, waited, got)
					}
					time.Sleep(59 * time.Second)
					if got := w.jobs.take(); got != "" {
						t.Errorf("%s: woken in a minute: %q", what, got)
					}
					time.Sleep(70 * time.Second)
					if got := w.jobs.take(); (got == what) == (what == "b/c002") {
						t.Errorf("%s: woken after a minute: %q", what, got)
					}
				}
				stop()
			}, kintoModes[mode])
		})
	}
}

// TestKintoBucket: a collection of a bucket that is changed, created or deleted wakes the job of the bucket, whether or
// not the server lists the collection.
func TestKintoBucket(t *testing.T) {
	for mode, within := range map[string]int{"listed": 12, "each": 301} {
		t.Run(mode, func(t *testing.T) {
			inKintoWorld(t, 3, func(t *testing.T, w *kintoWorld) {
				w.do(http.MethodPut, "other", "")
				w.do(http.MethodPut, "other/collections/c", "")
				w.jobs.states = map[string]string{"b/": "", "other/": "", "none/": ""}
				stop := w.watch(t)
				time.Sleep(30 * time.Minute) // jobs of unchanged collections are woken only later
				for what, change := range map[string]func(){
					"changed": func() { w.put("b/c002") },
					"new":     func() { w.do(http.MethodPut, "b/collections/new", "") },
					"deleted": func() { w.do(http.MethodDelete, "b/collections/c000", "") },
				} {
					w.jobs.take()
					change()
					got, waited := "", 0
					for ; got == "" && waited < within || mode == "listed" && what == "new" && got == "" && waited < 301; waited++ {
						time.Sleep(time.Second)
						got = w.jobs.take()
					}
					if got != "b/" {
						t.Errorf("%s: woken in %d s: %q", what, waited, got)
					}
					time.Sleep(59 * time.Second)
					if got := w.jobs.take(); got != "" {
						t.Errorf("%s: woken in a minute: %q", what, got)
					}
					time.Sleep(7 * time.Minute)
					if got := w.jobs.take(); got != "b/" {
						t.Errorf("%s: woken after a minute: %q", what, got)
					}
				}
				stop()
			}, kintoModes[mode])
		})
	}
}

// TestKintoAgain: if another watch takes over before a job is woken for the second time, the new watch waits for the
// full time again and then wakes the job.
func TestKintoAgain(t *testing.T) {
	for mode, configure := range kintoModes {
		t.Run(mode, func(t *testing.T) {
			inKintoWorld(t, 1, func(t *testing.T, w *kintoWorld) {
				stop := w.watch(t)
				time.Sleep(time.Hour)
				w.jobs.take()
				w.put("b/c000")
				for w.jobs.take() == "" {
					time.Sleep(time.Second)
				}
				stop()
				time.Sleep(30 * time.Second)
				stop = w.watch(t)
				time.Sleep(59 * time.Second)
				if got := w.jobs.take(); got != "" {
					t.Errorf("woken too soon: %q", got)
				}
				time.Sleep(5 * time.Minute)
				if got := w.jobs.take(); got != "b/c000" {
					t.Errorf("woken after a minute: %q", got)
				}
				stop()
			}, configure)
		})
	}
}

// TestKintoFaults: changes made while the server fails wake jobs when the server works again. If it asks its clients to
// wait, it gets no requests until then.
func TestKintoFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]httpfault.Fault{
		"503":    kintotest.Refuse(503, 201, "later", "Retry-After", "120"),
		"403":    kintotest.Refuse(403, 121, "forbidden"),
		"lost":   kintotest.Lose(),
		"stalls": kintotest.Hold(make(chan struct{}, 1000), nil),
		"page": func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			_, _ = io.WriteString(w, "<!DOCTYPE html>")
		},
	} {
		for mode, configure := range kintoModes {
			for part, spoiled := range map[string]string{"all": "", "changes": "/monitor/"} {
				t.Run(name+"/"+mode+"/"+part, func(t *testing.T) {
					inKintoWorld(t, 3, func(t *testing.T, w *kintoWorld) {
						stop := w.watch(t)
						time.Sleep(time.Hour)
						w.jobs.take()
						before := w.jobs.wakings("b/c001")
						w.Inject(0, httpfault.On("", spoiled), fault)
						w.put("b/c001")
						time.Sleep(11 * time.Minute)
						w.requests()
						time.Sleep(10 * time.Minute)
						if lists, heads := w.requests(); name == "503" && part == "all" && lists+heads > 30 {
							t.Errorf("%d requests for changes, %d for collections", lists, heads)
						}
						if part == "changes" && w.jobs.wakings("b/c001") < before+2 {
							t.Error("not woken without the list of changes")
						}
						w.put("b/c002")
						w.Heal()
						w.jobs.take()
						time.Sleep(12 * time.Minute)
						if got := w.jobs.take(); !strings.Contains(got, "b/c002") {
							t.Errorf("woken afterwards: %q", got)
						}
						if w.jobs.wakings("b/c001") < before+2 {
							t.Error("b/c001 was not woken")
						}
						stop()
					}, configure)
				})
			}
		}
	}
}

// TestKintoUnlisted: a collection that the server does not list is requested on its own.
func TestKintoUnlisted(t *testing.T) {
	inKintoWorld(t, 2, func(t *testing.T, w *kintoWorld) {
		w.Inject(0, httpfault.On("", "/monitor/"), func(rw http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			_, _ = fmt.Fprintf(rw, `{"timestamp":1,"changes":[{"bucket":"b","collection":"c000","last_modified":%s}]}`, strings.Trim(w.stampOf("b/c000"), `"`))
		})
		stop := w.watch(t)
		time.Sleep(time.Hour)
		w.jobs.take()
		w.put("b/c001")
		time.Sleep(5 * time.Minute)
		if got := w.jobs.take(); got != "b/c001" {
			t.Errorf("woken: %q", got)
		}
		for _, r := range w.net.Requests() {
			if strings.Contains(r, "c000") {
				t.Errorf("%s, although it is listed", r)
			}
		}
		stop()
	})
}

// TestKintoStalls: while the request for the list stalls, the previous list soon becomes invalid, and collections are
// requested one by one.
func TestKintoStalls(t *testing.T) {
	inKintoWorld(t, 60, func(t *testing.T, w *kintoWorld) {
		stop := w.watch(t)
		time.Sleep(6 * time.Hour) // by now, the comparisons are spread over time
		if _, heads := w.requests(); heads != 0 {
			t.Errorf("%d requests for collections", heads)
		}
		w.Inject(0, httpfault.On("", "/monitor/"), kintotest.Hold(make(chan struct{}, 1000), nil))
		time.Sleep(2 * time.Minute) // the request has not yet failed
		if _, heads := w.requests(); heads == 0 {
			t.Error("no collection was requested")
		}
		stop()
	}, kintoModes["listed"])
}

// TestKintoRandom: no change is lost, not even one made in a long transaction, whatever else happens.
func TestKintoRandom(t *testing.T) {
	t.Parallel()
	for mode, configure := range kintoModes {
		for seed := range seeds() {
			inKintoWorld(t, 8, func(t *testing.T, w *kintoWorld) {
				random, stop := newWalk(seed, w.jobs), w.watch(t)
				all := httpfault.On("", "")
				exists := func(name string) bool { return w.do(http.MethodGet, collectionPath(name), "").Code == http.StatusOK }
				for range 60 {
					switch random.IntN(14) {
					case 0:
						stop()
						stop = w.watch(t)
					case 1:
						w.Inject(random.IntN(30)+1, all, kintotest.Refuse(500, 999, ""))
					case 2:
						w.Inject(random.IntN(30)+1, httpfault.On("", "/monitor/"), kintotest.Refuse(404, 111, ""))
					case 3:
						w.Inject(random.IntN(5)+1, all, kintotest.Lose())
					case 4:
						w.Inject(1, all, kintotest.Refuse(503, 201, "", "Retry-After", fmt.Sprint(random.IntN(60))))
					case 5:
						random.fail(errors.New("database of jobs is unavailable"))
					case 6:
						random.fail(nil)
					case 7:
						random.apply()
					case 8, 9:
						name := random.names[random.IntN(len(random.names))]
						if !exists(name) {
							break
						}
						commit := w.LateCommit("/v1/buckets/"+collectionPath(name), fmt.Sprint("late", w.records.Load()), "{}")
						time.Sleep(time.Millisecond)
						w.put(name)
						time.Sleep(time.Duration(random.IntN(59)) * time.Second)
						random.changes(name)
						commit()
					default:
						name := random.change()
						if random.IntN(8) == 0 && exists(name) {
							w.do(http.MethodDelete, collectionPath(name), "")
							random.knows(name, "missing")
						} else {
							w.do(http.MethodPut, collectionPath(name), "")
							w.put(name)
						}
					}
					time.Sleep(time.Duration(random.ExpFloat64() * 20 * float64(time.Second)))
				}
				w.Heal()
				random.fail(nil)
				time.Sleep(20 * time.Minute)
				random.check(t, fmt.Sprintf("%s, seed %d", mode, seed))
				stop()
			}, configure)
		}
	}
}

// TestKintoCredential: the credential is read from the environment variable or file that the job names.
func TestKintoCredential(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(file, []byte("bearer s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inKintoWorld(t, 1, func(t *testing.T, w *kintoWorld) {
		w.Inject(0, httpfault.On("", ""), func(rw http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
			if got := r.Header.Get("Authorization"); got != "Bearer s3cret" {
				t.Errorf("%s with authorization %q", r.URL, got)
			}
			healthy(rw, r)
		})
		w.jobs.credential = "file:" + file
		stop := w.watch(t)
		time.Sleep(time.Minute)
		if got := w.jobs.take(); got != "b/c000" {
			t.Errorf("woken: %q", got)
		}
		stop()
	})
}
