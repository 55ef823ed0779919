package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// turns is a kind that records when runs begin. Jobs that follow have more to do until they are ended,
// except that jobs named "idle" catch up at once. Other jobs take some time.
type turns struct {
	originKind
	takes time.Duration

	mu    *sync.Mutex
	began map[string][]time.Time // by ID
	cut   map[string]int         // runs ended before they were done, by ID
}

func newTurns(takes time.Duration) *turns {
	return &turns{takes: takes, mu: &sync.Mutex{}, began: map[string][]time.Time{}, cut: map[string]int{}}
}

func (k *turns) Run(ctx context.Context, s *jobs.Session) error {
	id := s.Document.ID()
	k.mu.Lock()
	k.began[id] = append(k.began[id], time.Now())
	k.mu.Unlock()
	var done <-chan time.Time
	if s.Document.Name == "idle" {
		if !s.Linger {
			return nil
		}
		s.CaughtUp()
	} else if !s.Document.Follow {
		done = time.After(k.takes)
	}
	for entities := int64(1); ; entities++ {
		select {
		case <-done:
			return nil
		case <-time.After(time.Minute):
			s.Report(jobs.Stats{Entities: entities})
		case <-ctx.Done():
			k.mu.Lock()
			k.cut[id]++
			k.mu.Unlock()
			return ctx.Err()
		}
	}
}

// runs returns when the runs of a job began.
func (k *turns) runs(id string) []time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.began[id]
}

// cuts returns how many runs of a job were ended before they were done.
func (k *turns) cuts(id string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cut[id]
}

// inTurns runs a node in a bubble while do runs.
func inTurns(t *testing.T, k *turns, settings jobs.Settings, slots int, do func(t *testing.T, s *jobs.Scheduler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock()})
		if err != nil {
			t.Fatal(err)
		}
		s := jobs.NewScheduler(db, jobs.Kinds{"turns": k}, settings)
		ctx, stop := context.WithCancel(t.Context())
		var node sync.WaitGroup
		node.Go(func() {
			if err := s.Work(ctx, jobs.WorkerConfig{Name: "node", Slots: slots}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second) // by now, the node has joined
		do(t, s)
		stop()
		node.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

func turning(namespace, name string, follow bool) jobs.Document {
	return jobs.Document{Namespace: namespace, Name: name, Kind: "turns", Source: "https://" + namespace + name + ".test", Follow: follow}
}

// TestTurns runs four times as many jobs that always have more to do as there are slots, and some
// jobs that end. Each job of the first kind gets its turn within one round of turns, and none of the others
// is ended early.
func TestTurns(t *testing.T) {
	t.Parallel()
	scale := size(2, 1)
	settings := jobs.Defaults()
	settings.MaxChurn = 4 * scale
	slots, followers := 20*scale, 80*scale
	k := newTurns(3 * time.Minute)
	var follow, once []jobs.Document
	for n := range followers {
		follow = append(follow, turning("n", fmt.Sprint("f", n), true))
	}
	for n := range scale {
		once = append(once, turning("n", fmt.Sprint("a", n), false))
	}
	inTurns(t, k, settings, slots, func(t *testing.T, s *jobs.Scheduler) {
		apply(t, s, append(once, follow...)...)
		time.Sleep(settings.MinRunTime + settings.Interval*time.Duration(followers/settings.MaxChurn+1)) // one turn of all jobs
		for _, d := range follow {
			if len(k.runs(d.ID())) == 0 {
				t.Errorf("job %s has not run", d.ID())
			}
		}
		for _, d := range once {
			j, err := s.Get(t.Context(), d.ID())
			if err != nil {
				t.Fatal(err)
			}
			if runs, cut := len(k.runs(d.ID())), k.cuts(d.ID()); j.State != jobs.Completed || runs != 1 || cut != 0 {
				t.Errorf("job %s is %s, and %d of %d runs were ended early, want one run that is not ended early", d.ID(), j.State, cut, runs)
			}
		}
	})
}

// TestStartDelay: a namespace has many more jobs than there are slots, all of which always have more to
// do. Jobs of another namespace nevertheless start within an interval, at any time.
func TestStartDelay(t *testing.T) {
	t.Parallel()
	settings := jobs.Defaults()
	settings.MaxChurn = 4
	var many []jobs.Document
	for n := range 200 {
		many = append(many, turning("a", fmt.Sprint(n), true))
	}
	k := newTurns(0)
	inTurns(t, k, settings, 20, func(t *testing.T, s *jobs.Scheduler) {
		apply(t, s, many...)
		time.Sleep(3 * time.Minute)
		for n := range 4 {
			d := turning("b", fmt.Sprint(n), true)
			asked := time.Now()
			apply(t, s, d)
			time.Sleep(settings.Interval + 3*time.Second) // the node checks each second
			if began := k.runs(d.ID()); len(began) == 0 {
				t.Errorf("job %s has not begun %v after it was due", d.ID(), time.Since(asked))
			}
			time.Sleep(time.Duration(n) * 7 * time.Second)
		}
	})
}

// TestStartGap: jobs that are due at the same time begin one after another, over a part of the jitter
// that is in proportion to their number.
func TestStartGap(t *testing.T) {
	t.Parallel()
	const many = 100
	for _, test := range []struct{ jitter, least, most time.Duration }{
		{0, 0, 0},
		{jobs.Defaults().StartupJitter, 900 * time.Millisecond, time.Second},
		{time.Minute, 11 * time.Second, 12 * time.Second},
	} {
		t.Run(test.jitter.String(), func(t *testing.T) {
			settings := jobs.Defaults()
			settings.StartupJitter = test.jitter
			k := newTurns(0)
			inTurns(t, k, settings, many, func(t *testing.T, s *jobs.Scheduler) {
				var documents []jobs.Document
				for n := range many {
					documents = append(documents, turning("n", fmt.Sprint(n), true))
				}
				apply(t, s, documents...)
				time.Sleep(time.Minute)
				var began []time.Time
				for _, d := range documents {
					began = append(began, k.runs(d.ID())...)
				}
				if len(began) != many {
					t.Fatalf("%d runs, want %d", len(began), many)
				}
				slices.SortFunc(began, time.Time.Compare)
				if took := began[many-1].Sub(began[0]); took < test.least || took > test.most {
					t.Errorf("%d jobs began within %v, want %v to %v", many, took, test.least, test.most)
				}
				for n, at := range began[1:] {
					if gap, most := at.Sub(began[n]), 2*test.most/many; gap > most {
						t.Errorf("after %d jobs none began for %v, want one every %v", n+1, gap, most)
					}
				}
			})
		})
	}
}

// TestGivingWay: one of two slots has a run that has more to do and has lasted longer than the minimum, and the other
// has a run that has caught up. For a job that is due, only the latter ends, and at once.
func TestGivingWay(t *testing.T) {
	t.Parallel()
	k := newTurns(0)
	inTurns(t, k, jobs.Defaults(), 3, func(t *testing.T, s *jobs.Scheduler) {
		active, idle, second := turning("n", "active", true), turning("n", "idle", true), turning("n", "second", true)
		apply(t, s, active, idle)
		time.Sleep(5 * time.Minute)
		apply(t, s, second) // the last free slot
		time.Sleep(3 * time.Second)
		if n := k.cuts(idle.ID()); n != 0 {
			t.Errorf("the run that has caught up was ended %d times while slots were free", n)
		}
		due := turning("n", "due", true)
		apply(t, s, due)
		time.Sleep(3 * time.Second)
		if len(k.runs(due.ID())) != 1 {
			t.Error("the job that is due does not run")
		}
		for d, want := range map[*jobs.Document]int{&active: 0, &second: 0, &idle: 1} {
			if n := k.cuts(d.ID()); n != want {
				t.Errorf("%d runs of job %s were ended, want %d", n, d.ID(), want)
			}
		}
		if j, err := s.Get(t.Context(), idle.ID()); err != nil || j.State != jobs.Idle {
			t.Errorf("job %s is %s (%v), want idle", idle.ID(), j.State, err)
		}
	})
}
