package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/origins"
)

// WorkerConfig configures [Scheduler.Work].
type WorkerConfig struct {
	// Name is the name of the node. If another process already works as a node with this name, Work ends within
	// seconds with [ErrNamesake].
	Name string
	// Transport sends the requests of jobs over HTTP; nil: one that keeps connections.
	Transport http.RoundTripper
	// Slots is the maximum number of jobs that run at the same time; choose as many as fit into memory, up
	// to [MaxSlots]. If it is 0, [Settings.MaxJobs] is used.
	Slots   int
	Version string
	// Labels are matched with the labels that jobs require; see [Placement].
	Labels []string
	Logger *slog.Logger
	// Watcher wakes idle jobs; nil if the node does not watch.
	Watcher Watcher
	// Observer is told what the node does; it may be nil.
	Observer Observer
}

// The intervals and limits of the loops of a node.
const (
	heartbeatEvery = 3 * time.Second
	reapEvery      = 3 * time.Second
	admitEvery     = time.Second
	ordersEvery    = 2 * time.Second
	shareEvery     = 2 * time.Second
	roundLimit     = 10 * time.Second // limits a round of a loop or, in rounds with many transactions, each of these
	stopLimit      = 30 * time.Second
	leaveLimit     = 10 * time.Second
)

// startsInJitter is the number of runs that, if they start together, are spread over all of
// [Settings.StartupJitter]. With fewer runs, the period is shorter in proportion: a job that is woken alone
// starts at once.
const startsInJitter = 500

// Reasons why a node ends runs.
var (
	errStopped = errors.New("stopped by the node")
	errRotated = errors.New("rotated to make room for other jobs")
	errLimit   = errors.New("the run reached its time limit")
	errQuiet   = errors.New("no progress since it caught up")
	errShrunk  = errors.New("the node has fewer slots")
	errChanged = errors.New("the job was paused, changed or deleted")
	errStuck   = errors.New("no progress")
	errLost    = errors.New("the node's lease expired")
)

// A worker is the state of a node while it works.
type worker struct {
	store  *Scheduler
	config WorkerConfig
	queue  jobdb.Queue
	pool   *origins.Pool
	admits chan struct{} // holds a value if there may be something to start
	shares chan struct{} // holds a value if there are waits and failures to share with other nodes

	mu      sync.Mutex
	node    Node
	beat    time.Time // of the last heartbeat
	leased  time.Time // until when the lease lasts, by the clock of this process
	resumed time.Time // since when heartbeats have succeeded without a long gap
	runs    map[runID]*activeRun
	stopped bool                 // runs that execute from now on end at once
	rotated map[string]time.Time // when runs were last ended for a rotation, by origin; "" for slots
	news    *news
	failing map[string]bool // origins that failed, as last read from the database
	crowded map[string]int  // by origin, how many jobs wait because the origin is full

	ignored string // problems of stored settings; only readSettings uses it
}

type runID struct {
	job   string
	epoch int64
}

// An activeRun is a run in a slot.
type activeRun struct {
	document *Document     // the document when the slot was reserved
	began    time.Time     // when the run began to execute; before that, when the slot was reserved
	delay    time.Duration // before the run uses its origins
	session  *Session
	origins  [2]string
	end      context.CancelCauseFunc // nil until the run executes
	lingers  bool
	told     time.Time // when the run was told to end, to make room for others; zero if it was not
}

// Work runs jobs until ctx ends. It then stops its runs, and their jobs become due elsewhere. The error
// matches [ErrReserved] if the database is an SQLite file that another node uses.
func (s *Scheduler) Work(ctx context.Context, c WorkerConfig) (err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observer == nil {
		c.Observer = noObserver{}
	}
	if c.Transport == nil {
		c.Transport = newTransport()
	}
	w := &worker{store: s, config: c, admits: make(chan struct{}, 1), shares: make(chan struct{}, 1), runs: map[runID]*activeRun{}, rotated: map[string]time.Time{}, news: newNews()}
	w.pool = origins.New(origins.Config{
		Transport: c.Transport,
		Patience:  func() time.Duration { return s.settings().HealthThreshold / 2 }, // so that a run that only tries again does not count as healthy
		Wait:      w.asked,
		Works:     w.worked,
	})
	reserved, err := s.db.Reserve(ctx)
	if err != nil {
		return err
	}
	if reserved != nil {
		defer func() { err = errors.Join(err, reserved.Close()) }()
		if err := s.takeOver(ctx); err != nil {
			return err
		}
	}
	w.queue, err = s.db.StartQueue(ctx, jobdb.QueueConfig{Work: w.execute, Logger: c.Logger})
	if err != nil {
		return err
	}
	if err := w.join(ctx); err != nil {
		return errors.Join(err, w.queue.Stop(ctx))
	}
	s.mu.Lock()
	s.workers[w] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.workers, w)
	}()
	g, loops := errgroup.WithContext(ctx)
	for _, l := range []struct {
		name  string
		every func() time.Duration
		wake  <-chan struct{}
		do    func(context.Context) error
	}{
		{"heartbeat", always(heartbeatEvery), nil, limited(w.heartbeat)},
		{"reap", always(reapEvery), nil, w.reap},
		{"obey", always(ordersEvery), nil, limited(w.obey)},
		{"report", func() time.Duration { return s.settings().StatsInterval }, nil, limited(w.report)},
		{"admit", always(admitEvery), w.admits, limited(w.admit)},
		{"share", always(shareEvery), w.shares, limited(w.share)},
	} {
		g.Go(func() error { return w.loop(loops, l.name, l.every, l.wake, l.do) })
	}
	if c.Watcher != nil {
		g.Go(func() error { return c.Watcher.Run(loops, w.current) })
	}
	err = g.Wait()
	return errors.Join(err, w.stop(context.WithoutCancel(ctx)))
}

func always(every time.Duration) func() time.Duration {
	return func() time.Duration { return every }
}

// loop calls do periodically, and at once when wake delivers a value. Errors are logged, since most come from the
// database and are temporary.
func (w *worker) loop(ctx context.Context, name string, every func() time.Duration, wake <-chan struct{}, do func(context.Context) error) error {
	for failed := false; ; {
		begun := time.Now()
		err := do(ctx)
		if ctx.Err() != nil {
			return nil
		}
		w.config.Observer.Looped(name, time.Since(begun), err)
		if errors.Is(err, ErrNamesake) {
			return err
		}
		if err != nil && !failed {
			w.config.Logger.Warn("scheduler cannot use its database, retrying", "node", w.config.Name, "error", err)
		} else if err == nil && failed {
			w.config.Logger.Info("scheduler can use its database again", "node", w.config.Name)
		}
		failed = err != nil
		timer := time.NewTimer(every()*3/4 + rand.N(every()/2))
		select {
		case <-timer.C:
		case <-wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// within calls do with a time limit, since a proxy may keep connections open although their server is gone.
func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

func limited(round func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return within(ctx, roundLimit, round) }
}

// join joins as a new incarnation.
func (w *worker) join(ctx context.Context) error {
	begun := time.Now()
	n, err := w.store.Join(ctx, Node{Name: w.config.Name, Slots: w.slots(), Version: w.config.Version, Labels: w.config.Labels})
	if err != nil {
		return err
	}
	if err := w.queue.Serve(n.Incarnation, cmp.Or(w.config.Slots, MaxSlots)); err != nil {
		return fmt.Errorf("serve the queue of node %s: %w", n.Incarnation, err)
	}
	w.beaten()
	w.lease(begun)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.node = n
	return nil
}

// slots returns how many jobs the node may run at the same time.
func (w *worker) slots() int { return cmp.Or(w.config.Slots, w.store.settings().MaxJobs) }

func (w *worker) current() Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.node
}

// heartbeat extends the lease. If the lease has expired, the jobs may run elsewhere: the runs end, and the
// node joins again as a new one.
func (w *worker) heartbeat(ctx context.Context) error {
	n, begun := w.current(), time.Now()
	n.Slots = w.slots()
	err := within(ctx, w.store.settings().Lease/2, func(ctx context.Context) error { return w.store.Heartbeat(ctx, n) })
	if err == nil {
		w.beaten()
		w.lease(begun)
	}
	if !errors.Is(err, ErrExpired) {
		return err
	}
	w.lease(begun.Add(-w.store.settings().Lease)) // the lease has expired
	w.config.Logger.Warn("lease of the node has expired, ending its runs", "node", w.config.Name)
	w.endAll(errLost)
	w.mu.Lock()
	stopped := w.stopped
	w.mu.Unlock()
	if stopped {
		return nil
	}
	return w.join(ctx)
}

// beaten records that a heartbeat has succeeded.
func (w *worker) beaten() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	// Other nodes sent a heartbeat at most 5/4 of the period before the gap: their leases may have expired.
	if now.Sub(w.beat) > w.store.settings().Lease-heartbeatEvery*5/4 {
		w.resumed = now
	}
	w.beat = now
}

// mayReap reports whether the node has been in touch with the database for long enough to declare others
// lost: while the database was unavailable, their leases may have expired, too.
func (w *worker) mayReap() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	lease := w.store.settings().Lease
	return time.Since(w.beat) <= lease && time.Since(w.resumed) >= lease
}

func (w *worker) reap(ctx context.Context) error {
	if !w.mayReap() {
		return nil
	}
	jobs, err := w.store.Reap(ctx)
	if jobs > 0 {
		w.config.Observer.Adopted(jobs)
		w.config.Logger.Warn("adopted jobs of lost nodes", "node", w.config.Name, "jobs", jobs)
		w.wake()
	}
	if err != nil {
		return err
	}
	err = within(ctx, roundLimit, func(ctx context.Context) error {
		return w.store.db.Begin(ctx, func(tx jobdb.Tx) error { return w.queue.CancelLost(ctx, tx) })
	})
	if err != nil {
		return fmt.Errorf("cancel runs of lost nodes: %w", err)
	}
	return nil
}

// wake makes the next admission begin at once.
func (w *worker) wake() { signal(w.admits) }

// signal puts a value into a channel that holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// admit starts as many jobs as there is room for.
func (w *worker) admit(ctx context.Context) error {
	w.mu.Lock()
	n, free := w.node, w.slots()-len(w.runs)
	w.mu.Unlock()
	var reserved []runID
	insert := func(ctx context.Context, tx jobdb.Tx, r Run) error {
		id := runID{r.Job.Document.ID(), r.Job.Epoch}
		reserved = append(reserved, id)
		w.mu.Lock()
		if w.runs[id] == nil { // otherwise the transaction is being tried again
			w.waitsNoMore(r.Job)
		}
		a := w.reserve(id) // before the run can execute
		a.document = &r.Job.Document
		a.delay = time.Duration(len(reserved)-1) * w.store.settings().StartupJitter / time.Duration(max(free, startsInJitter))
		w.mu.Unlock()
		return w.queue.Insert(ctx, tx, n.Incarnation, jobdb.RunArgs{Job: r.Job.Document.ID(), Epoch: r.Job.Epoch})
	}
	runs, full, err := w.store.admit(ctx, n, free, insert)
	started := map[runID]bool{}
	for _, r := range runs {
		started[runID{r.Job.Document.ID(), r.Job.Epoch}] = true
	}
	for _, id := range reserved { // some in a transaction that was rolled back
		if !started[id] {
			w.forget(id)
		}
	}
	if err != nil {
		return err
	}
	if len(runs) > 0 {
		w.queue.Inserted(n.Incarnation)
	}
	for n := range runs {
		j := runs[n].Job
		w.config.Observer.Started(&j.Document, j.Started.Sub(j.wasDue))
		if !j.heals.IsZero() {
			w.config.Observer.Healed(j.Started.Sub(j.heals))
		}
	}
	if err := w.makeRoomAt(ctx, n, full); err != nil || len(runs) < free {
		return err
	}
	return w.makeRoom(ctx, n)
}

// reserve returns the slot of a run, and reserves one if the run has none. The caller must hold w.mu.
func (w *worker) reserve(id runID) *activeRun {
	a, ok := w.runs[id]
	if !ok {
		a = &activeRun{began: time.Now()}
		w.runs[id] = a
	}
	return a
}

// obey ends runs whose jobs were paused, changed or deleted, or run elsewhere, and gives back
// jobs that this node does not run although the database says so. It also reads the settings.
func (w *worker) obey(ctx context.Context) error {
	if err := w.readSettings(ctx); err != nil {
		return err
	}
	w.shrink()
	n, asked := w.current(), time.Now()
	orders, err := w.store.Orders(ctx, n)
	if err != nil {
		return err
	}
	for _, o := range w.follow(orders, asked) {
		r := Run{&Job{Document: Document{Namespace: o.Namespace, Name: o.Name}, Epoch: o.Epoch}, n}
		if err := w.store.Finish(ctx, r, Outcome{End: Stopped, Reason: "the node did not execute it"}); err != nil && !errors.Is(err, ErrFenced) {
			return err
		}
	}
	return nil
}

// unknownAfter is the age at which a run is given back if the node does not execute it.
const unknownAfter = time.Minute

// follow obeys orders, which do not cover runs that began after the orders were requested. It returns the
// orders for runs that the node should execute but does not.
func (w *worker) follow(orders []Order, asked time.Time) (unknown []Order) {
	byRun := map[runID]Order{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range orders {
		id := runID{o.ID(), o.Epoch}
		byRun[id] = o
		if _, ok := w.runs[id]; !ok && o.Age > unknownAfter {
			unknown = append(unknown, o)
		}
	}
	for id, a := range w.runs {
		switch o, ok := byRun[id]; {
		case a.end == nil && time.Since(a.began) < unknownAfter: // the run has just been started
		case a.end == nil:
			delete(w.runs, id)
		case !a.began.Before(asked):
		case !ok || o.Stop:
			a.end(errChanged)
		default:
			a.session.update(o.Wanted)
		}
	}
	return unknown
}

// report writes the statistics of the runs, and ends those that make no progress.
func (w *worker) report(ctx context.Context) error {
	sessions, limit := map[runID]*Session{}, w.store.settings().StuckAfter
	w.mu.Lock()
	for id, a := range w.runs {
		if a.end == nil {
			continue
		}
		sessions[id] = a.session
		if a.session.stuck() < limit {
			continue
		}
		if a.lingers && a.session.answered() > 0 {
			a.end(errQuiet) // another run will find out whether there is nothing to do
		} else {
			a.end(fmt.Errorf("%w for %v", errStuck, short(limit)))
		}
	}
	w.mu.Unlock()
	var totals []total
	for id, s := range sessions {
		w.writeLog(ctx, id.job, s.log)
		if stats, ok := s.total(); ok {
			totals = append(totals, total{id, stats})
		}
	}
	if err := w.store.report(ctx, totals); err != nil {
		return err
	}
	for _, t := range totals {
		sessions[t.id].wrote(t.stats)
	}
	return nil
}

func (w *worker) endAll(reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.runs {
		if a.end != nil {
			a.end(reason)
		}
	}
}

// stop ends all runs and the node. Until the runs have ended, the node extends its lease, since their jobs
// must not start elsewhere before that.
func (w *worker) stop(ctx context.Context) error {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.endAll(errStopped)
	var beats sync.WaitGroup
	running, ended := context.WithCancel(ctx)
	beats.Go(func() { _ = w.loop(running, "heartbeat", always(heartbeatEvery), nil, limited(w.heartbeat)) }) // the error of heartbeat has already been returned
	err := within(ctx, stopLimit, w.queue.Stop)
	ended()
	beats.Wait()
	leave := func(ctx context.Context) error { return w.store.Leave(ctx, w.current()) }
	return errors.Join(err, within(ctx, leaveLimit, leave))
}
