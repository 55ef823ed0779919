package watch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/jobs"
)

const (
	takeEvery = 3 * time.Second  // how often a manager looks for servers to watch
	saveEvery = 30 * time.Second // how often positions are saved
	// failuresToGiveUp is how many times in a row a watch must fail before another node may try it.
	failuresToGiveUp = 3

	sweepEvery = 30 * time.Second
	sweepIdle  = time.Minute // how long a job must be idle to be swept
	sweepMost  = 100         // jobs at a time
)

var pauses = backoff.Backoff{Min: time.Second, Max: time.Minute}

// A Manager runs on a node and watches servers, for the idle jobs that wait for changes on them. It
// implements [jobs.Watcher].
//
// Nodes share the work: each server is watched by one node, and by another soon after that node leaves
// or is lost. Jobs whose server no working watch covers are woken from time to time.
type Manager struct {
	scheduler *jobs.Scheduler
	sources   map[string]Source
	logger    *slog.Logger

	mu      sync.Mutex
	running map[jobs.Watched]*running
	resting map[jobs.Watched]time.Time // until when the node does not take a watch that has failed
	urgent  bool                       // a watch has begun to work, so its position is saved at once
}

// NewManager returns a manager with the given sources. The keys are the types of [jobs.Watch].
func NewManager(scheduler *jobs.Scheduler, sources map[string]Source, logger *slog.Logger) *Manager {
	return &Manager{scheduler: scheduler, sources: sources, logger: logger, running: map[jobs.Watched]*running{}, resting: map[jobs.Watched]time.Time{}}
}

// Run implements [jobs.Watcher].
func (m *Manager) Run(ctx context.Context, node func() jobs.Node) error {
	var watches sync.WaitGroup
	defer watches.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	saved, swept := time.Now(), time.Now() // not at once: watches should begin first
	for failed := false; ; {
		n, begun := node(), time.Now()
		err := m.take(ctx, n, &watches)
		if err == nil && (m.isUrgent() || time.Since(saved) >= saveEvery) {
			saved = time.Now()
			err = m.save(ctx, n)
		}
		if err == nil && time.Since(swept) >= sweepEvery {
			swept = time.Now()
			_, err = m.scheduler.Sweep(ctx, sweepIdle, sweepMost)
		}
		if ctx.Err() != nil {
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeEvery)
			defer cancel()
			return m.save(within, n)
		}
		m.scheduler.ObserveWatching(time.Since(begun), err)
		if err != nil && !failed {
			m.logger.Warn("cannot use the database of jobs for watches, retrying", "node", n.Name, "error", err)
		}
		failed = err != nil
		_ = backoff.Sleep(ctx, takeEvery*3/4+rand.N(takeEvery/2)) // the error is checked at the next use of ctx
	}
}

// take starts the watches that the node is to run, and stops all others.
func (m *Manager) take(ctx context.Context, n jobs.Node, watches *sync.WaitGroup) error {
	mine, err := m.scheduler.Watches(ctx, n, slices.Collect(maps.Keys(m.sources)), m.rests)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for w, r := range m.running {
		if _, ok := mine[w]; !ok || r.node.Incarnation != n.Incarnation {
			r.stop()
			delete(m.running, w)
		}
	}
	for w, position := range mine {
		if _, ok := m.running[w]; ok || time.Now().Before(m.resting[w]) {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		r := &running{manager: m, node: n, watched: w, stop: stop, position: position, logger: m.logger.With("server", w.Server)}
		m.running[w] = r
		watches.Go(func() {
			defer stop()
			r.run(ctx)
		})
	}
	return nil
}

// rests reports whether a watch recently failed on this node.
func (m *Manager) rests(w jobs.Watched) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !time.Now().Before(m.resting[w]) {
		delete(m.resting, w)
		return false
	}
	return true
}

func (m *Manager) isUrgent() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.urgent
}

// save saves the positions of watches that have changed.
func (m *Manager) save(ctx context.Context, n jobs.Node) error {
	var checks []jobs.WatchCheck
	m.mu.Lock()
	m.urgent = false
	for w, r := range m.running {
		if r.node.Incarnation == n.Incarnation && !r.checked.IsZero() {
			checks = append(checks, jobs.WatchCheck{Watched: w, Position: r.position, Age: time.Since(r.checked)})
			r.checked = time.Time{}
		}
	}
	m.mu.Unlock()
	return m.scheduler.WatchesChecked(ctx, n, checks)
}

// A running is a server that is being watched. It implements [Jobs].
type running struct {
	manager *Manager
	node    jobs.Node
	watched jobs.Watched
	logger  *slog.Logger
	stop    context.CancelFunc

	// manager.mu guards these.
	position string
	checked  time.Time // when Checked was last called; zero once that has been saved
	works    bool      // whether Checked has been called since the last failure
}

// run watches the server until ctx ends, or until another node may try to watch it.
func (r *running) run(ctx context.Context) {
	source := r.manager.sources[r.watched.Type]
	for failures := 0; ; {
		r.manager.mu.Lock()
		position := r.position
		r.works = false
		r.manager.mu.Unlock()
		err := source.Watch(ctx, &Watched{Server: r.watched.Server, Credential: r.watched.Credential, Position: position, Jobs: r, Logger: r.logger})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the watch ended")
		}
		if r.hasWorked() {
			failures = 0
		}
		failures++
		giveUp := failures >= failuresToGiveUp
		pause := pauses.After(failures)
		if failures == 1 {
			r.logger.Warn("server cannot be watched, retrying", "error", err)
		}
		if giveUp {
			pause = pauses.Longest(1 << 10)
			r.manager.rest(r, pause)
		}
		begun := time.Now()
		if err := r.manager.scheduler.WatchFailed(ctx, r.node, r.watched, err, giveUp); err != nil && ctx.Err() == nil {
			r.failed(ctx, begun, err)
			r.logger.Warn("cannot record the failure of a watch", "error", err)
		}
		if giveUp || backoff.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// rest keeps the node from taking a watch again until the pause has passed.
func (m *Manager) rest(r *running, pause time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resting[r.watched] = time.Now().Add(pause)
	if m.running[r.watched] == r {
		delete(m.running, r.watched)
	}
}

func (r *running) hasWorked() bool {
	r.manager.mu.Lock()
	defer r.manager.mu.Unlock()
	return r.works
}

// States implements [Jobs].
func (r *running) States(ctx context.Context) (map[string]string, error) {
	begun := time.Now()
	states, err := r.manager.scheduler.WatchStates(ctx, r.watched)
	r.failed(ctx, begun, err)
	return states, err
}

// failed reports a failure of the database to the scheduler, unless the watch is ending.
func (r *running) failed(ctx context.Context, begun time.Time, err error) {
	if err != nil && ctx.Err() == nil {
		r.manager.scheduler.ObserveWatching(time.Since(begun), err)
	}
}

// Changed implements [Jobs].
func (r *running) Changed(ctx context.Context, states map[string]string) error {
	begun := time.Now()
	woken, err := r.manager.scheduler.WakeChanged(ctx, r.watched, states)
	r.failed(ctx, begun, err)
	if woken > 0 {
		r.logger.Debug("jobs woken", "jobs", woken)
	}
	return err
}

// Checked implements [Jobs].
func (r *running) Checked(position string) {
	r.manager.mu.Lock()
	defer r.manager.mu.Unlock()
	r.manager.urgent = r.manager.urgent || !r.works
	r.position, r.checked, r.works = position, time.Now(), true
}
