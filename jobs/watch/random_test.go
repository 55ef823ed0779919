package watch_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/jobs/watch"
	"github.com/feedctl/feedctl/server"
)

// A walk makes random changes to names, jobs and the database of jobs, and then checks that each job was woken
// after the last change of its name.
type walk struct {
	*rand.Rand
	jobs  *waiting
	names []string
	last  map[string]int // how many times the job of each changed name had been woken before the last change
}

func newWalk(seed uint64, jobs *waiting) *walk {
	return &walk{rand.New(rand.NewPCG(seed, 0)), jobs, slices.Sorted(maps.Keys(jobs.states)), map[string]int{}}
}

// change chooses a name, calls changes with it, and returns it.
func (w *walk) change() string {
	name := w.names[w.IntN(len(w.names))]
	w.changes(name)
	return name
}

// changes records that a name is about to change.
func (w *walk) changes(name string) {
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	if _, ok := w.jobs.states[name]; ok {
		w.last[name] = w.jobs.total[name]
	}
}

// knows forgets the change of a name if the job of the name already has the new state: the state in between was
// not noticed, or the broken server sent the new state before the change.
func (w *walk) knows(name, state string) {
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	if w.jobs.states[name] == state {
		delete(w.last, name)
	}
}

// apply creates the job of a name, or deletes it. A new job is assumed to have read all earlier changes.
func (w *walk) apply() {
	name := w.names[w.IntN(len(w.names))]
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	if _, ok := w.jobs.states[name]; ok {
		delete(w.jobs.states, name)
		delete(w.last, name)
	} else {
		w.jobs.states[name] = ""
	}
}

// fail makes the database of jobs fail with the given error, or work again if the error is nil.
func (w *walk) fail(fails error) {
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	w.jobs.fails = fails
}

func (w *walk) check(t *testing.T, what string) {
	t.Helper()
	for name, before := range w.last {
		if w.jobs.wakings(name) == before {
			t.Errorf("%s: job of %s was not woken after the last change", what, name)
		}
	}
}

// walks is the number of random walks for each type of source.
var walks = flag.Uint64("walks", 6, "random `walks` of each kind")

func seeds() uint64 {
	if testing.Short() {
		return min(*walks, 2)
	}
	return *walks
}

// many returns the number of names to watch, and the factor by which it is smaller than a thousand.
func many() (n, less int) {
	if testing.Short() {
		return 100, 10
	}
	return 1000, 1
}

// TestCouchDBRandom: no change is lost, whatever else happens.
func TestCouchDBRandom(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name      string
		configure []func(*couchtest.Fake)
	}{
		{"updates", []func(*couchtest.Fake){reporting}}, {"updates of a cluster", []func(*couchtest.Fake){cluster, reporting}},
		{"infos", []func(*couchtest.Fake){silent}}, {"each", []func(*couchtest.Fake){noAdmin}},
	} {
		for seed := range seeds() {
			inCouchWorld(t, 8, func(t *testing.T, w *couchWorld) {
				random, stop := newWalk(seed, w.jobs), w.watch(t)
				exists := map[string]bool{}
				for n := range 60 {
					switch random.IntN(15) {
					case 9:
						random.apply()
					case 0:
						stop()
						stop = w.watch(t)
					case 1:
						w.restart()
					case 2:
						w.LoseUpdates(random.IntN(3))
					case 3:
						w.Inject(random.IntN(30)+1, func(*http.Request) bool { return true }, couchtest.Refuse(500, "internal_server_error", ""))
					case 4:
						w.Inject(random.IntN(5)+1, couchtest.On("GET", "continuous"), couchtest.Cut(random.IntN(300)))
					case 5:
						w.Inject(random.IntN(5)+1, func(*http.Request) bool { return true }, couchtest.Cut(random.IntN(300)))
					case 6:
						w.Inject(1, func(*http.Request) bool { return true }, couchtest.TooManyRequests(random.IntN(60)))
					case 7:
						random.fail(errors.New("database of jobs is unavailable"))
					case 8:
						random.fail(nil)
					default:
						if name := random.change(); !exists[name] || random.IntN(8) > 0 {
							w.AddDoc(name, fmt.Sprint("x", n), "{}")
							exists[name] = true
						} else {
							w.Delete(name)
							w.Create(name)
						}
					}
					time.Sleep(time.Duration(random.ExpFloat64() * 20 * float64(time.Second)))
				}
				w.Heal()
				random.fail(nil)
				time.Sleep(20 * time.Minute)
				random.check(t, fmt.Sprintf("%s, seed %d", mode.name, seed))
				stop()
			}, mode.configure...)
		}
	}
}

// TestFeedsRandom: no change is lost, whatever else happens, even if requests go to several servers of the store
// in turn, and some of these do not list changes.
func TestFeedsRandom(t *testing.T) {
	t.Parallel()
	for servers := 1; servers <= 2; servers++ {
		for seed := range seeds() {
			inFeedsWorld(t, 8, servers, listed, func(t *testing.T, w *feedsWorld) {
				random, stop := newWalk(seed, w.jobs), w.watch(t)
				for range 60 {
					switch random.IntN(13) {
					case 0:
						stop()
						stop = w.watch(t)
					case 1:
						w.restart(t)
					case 2:
						status := []int{400, 403, 404, 408, 410, 429, 500, 503}[random.IntN(8)]
						w.breakIt(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) })
					case 3:
						w.breakIt(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
					case 4:
						random.fail(errors.New("database of jobs is unavailable"))
					case 5:
						random.fail(nil)
					case 6:
						random.apply()
					case 7:
						w.config = []server.Config{listed, unlisted}[random.IntN(2)]
						w.restart(t)
					default:
						w.breakIt(nil)
						name, delete := random.change(), random.IntN(8) == 0
						if delete { // the pages are left, as after an interrupted deletion
							_, err := chain.NewReader(w.store, name).Newest(t.Context())
							if delete = err == nil; delete {
								_, err = chain.Delete(t.Context(), w.store, name)
								delete = err == nil
								random.knows(name, "missing")
							}
						}
						if !delete {
							publish(t, w.store, name)
						}
					}
					time.Sleep(time.Duration(random.ExpFloat64() * 20 * float64(time.Second)))
				}
				w.breakIt(nil)
				random.fail(nil)
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				random.check(t, fmt.Sprintf("%d servers, seed %d", servers, seed))
				stop()
			})
		}
	}
}

// TestS3Random: no change is lost, whatever else happens.
func TestS3Random(t *testing.T) { storeRandom(t, s3Source) }

// TestFilesRandom: no change is lost, whatever else happens.
func TestFilesRandom(t *testing.T) { storeRandom(t, filesSource) }

func storeRandom(t *testing.T, source func(openStore) watch.Source) {
	for seed := range seeds() {
		inStoreWorld(t, 8, func(t *testing.T, w *storeWorld) {
			w.source = source
			random, stop := newWalk(seed, w.jobs), w.watch(t)
			for range 60 {
				switch random.IntN(11) {
				case 5:
					random.apply()
				case 0:
					stop()
					stop = w.watch(t)
				case 1:
					w.breakFeeds("")
				case 2:
					w.breakFeeds(random.names[random.IntN(len(random.names))])
				case 3:
					random.fail(errors.New("database of jobs is unavailable"))
				case 4:
					random.fail(nil)
				default:
					w.breakFeeds()
					name := random.change()
					if random.IntN(8) == 0 {
						if _, err := chain.Delete(t.Context(), w, name); err != nil {
							t.Fatal(err)
						}
					}
					publish(t, w, name)
				}
				time.Sleep(time.Duration(random.ExpFloat64() * float64(time.Minute)))
			}
			w.breakFeeds()
			random.fail(nil)
			time.Sleep(20 * time.Minute)
			synctest.Wait()
			random.check(t, fmt.Sprint("seed ", seed))
			stop()
		})
	}
}
