package jobs

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/origins"
)

// execute runs a job until it has caught up, is stopped, or fails, and records how the run ended.
// The error that execute returns is only shown with the run.
func (w *worker) execute(ctx context.Context, args jobdb.RunArgs) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	id := runID{args.Job, args.Epoch}
	n := w.current()
	j, past, err := w.store.owned(ctx, id, n)
	if err != nil {
		w.unrecorded(id, err)
		return err
	}
	log := &runLog{run: args.Epoch, node: n.Name}
	s := &Session{
		Document: j.Document, Logger: slog.New(&logHandler{Handler: w.config.Logger.With("job", args.Job, "run", args.Epoch).Handler(), log: log}), log: log,
		wanted: j.Wanted, before: j.Wanted, past: past, progress: time.Now(),
	}
	s.client = w.pool.Client(ctx, end)
	s.Transport = s.client
	w.mu.Lock()
	a := w.reserve(id)
	a.session, a.end, a.origins, a.began = s, end, j.origins, time.Now()
	s.progress = s.progress.Add(a.delay)
	if w.stopped {
		end(errStopped)
	}
	w.mu.Unlock()
	defer w.forget(id)

	if j.Document.Follow {
		defer time.AfterFunc(a.delay+w.store.settings().RunLimit, func() { w.limit(a) }).Stop()
	}
	o, err := w.perform(ctx, a)
	w.writeLastLog(ctx, args.Job, log)
	if o.Origin != nil {
		w.failed(o.Origin.Origin)
	}
	how := o.how(context.Cause(ctx))
	if errors.Is(context.Cause(ctx), errLost) {
		w.config.Observer.Ended(&j.Document, how)
		return context.Cause(ctx) // the job has another run, or will have one
	}
	if total, ok := s.total(); ok {
		o.Stats = &total
	}
	o.Behind = s.behind()
	if failed := w.store.finish(ctx, Run{j, n}, o); failed != nil {
		w.config.Observer.Ended(&j.Document, w.fenced(n, failed))
		return failed
	}
	w.config.Observer.Ended(&j.Document, how)
	return err
}

// unrecorded ends a run that cannot be executed.
func (w *worker) unrecorded(id runID, err error) {
	w.mu.Lock()
	a, n := w.runs[id], w.node
	w.mu.Unlock()
	w.forget(id)
	if a != nil && a.document != nil {
		w.config.Observer.Ended(a.document, w.fenced(n, err))
	}
}

// fenced returns a word for how a run has ended if the end cannot be recorded. Unless the node is
// lost, the reason is that the job was cancelled, or deleted and created again.
func (w *worker) fenced(n Node, err error) string {
	if !errors.Is(err, ErrFenced) {
		return "lost"
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.store.settings().Lease)
	defer cancel()
	lost := true
	err = w.store.db.View(ctx, func(tx jobdb.Tx) error {
		_, err := jobdb.One(ctx, tx, "SELECT lost FROM @node WHERE incarnation = $1", []any{n.Incarnation}, &lost)
		return err
	})
	if lost || err != nil {
		return "lost"
	}
	return "cancelled"
}

// perform has the kind of the job run it.
func (w *worker) perform(ctx context.Context, a *activeRun) (Outcome, error) {
	s := a.session
	kind, ok := w.store.kinds[s.Document.Kind]
	if !ok {
		return Outcome{End: Crashed, Reason: "this node does not know kind " + s.Document.Kind}, nil
	}
	select {
	case <-time.After(a.delay):
	case <-ctx.Done():
	}
	err := kind.Run(ctx, s)
	if err == nil && ctx.Err() == nil {
		s.CaughtUp()
		w.workedAll(kind.Identify(&s.Document))
		if !s.Document.Follow {
			return Outcome{End: Done, Reason: s.achieved()}, nil
		}
		if !w.linger(a) {
			return Outcome{End: CaughtUp, Seen: s.answered()}, nil
		}
		s.linger()
		err = kind.Run(ctx, s)
	}
	stopped := context.Cause(ctx)
	at, _ := errors.AsType[*origins.Error](stopped)
	switch {
	case errors.Is(stopped, errStuck):
		return crashed(stopped, s.blamed(stopped)), stopped
	case at != nil:
		return crashed(at, (*OriginError)(at)), stopped
	case stopped != nil && s.Linger && s.answered() > 0 && !errors.Is(stopped, errQuiet):
		return Outcome{End: CaughtUp, Seen: s.answered()}, nil
	case stopped != nil:
		return Outcome{End: Stopped, Reason: stopped.Error()}, nil
	case err == nil:
		return Outcome{End: CaughtUp, Seen: s.answered()}, nil
	case errors.Is(err, ErrFindings) && !s.Document.Follow:
		w.workedAll(kind.Identify(&s.Document))
		return Outcome{End: Found, Reason: err.Error(), Hint: hint(err)}, err
	case errors.Is(err, ErrDuplicate):
		return Outcome{End: Duplicate, Reason: err.Error()}, err
	case errors.Is(err, ErrRejected):
		return Outcome{End: Rejected, Reason: err.Error(), Hint: hint(err)}, err
	}
	return crashed(err, s.blamed(err)), err
}

// crashed returns the outcome of a run that was ended by an error; origin is the error of the server that caused it,
// or nil.
func crashed(err error, origin *OriginError) Outcome {
	return Outcome{End: Crashed, Reason: err.Error(), Hint: hint(err), Origin: origin}
}

// hint returns the hint of an error, which says what the user can do about it, or "".
func hint(err error) string {
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return h.Hint()
	}
	return ""
}

// linger reports whether a run that has caught up may keep its slot. It may do so only while other slots are free and
// no job waits for this run because of an origin.
func (w *worker) linger(a *activeRun) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.lingers = len(w.runs) < w.slots() && w.crowded[a.origins[0]]+w.crowded[a.origins[1]] == 0
	return a.lingers
}

// limit ends a run that has lasted too long, unless it lingers because no other job needs its slot.
func (w *worker) limit(a *activeRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !a.lingers && a.told.IsZero() {
		a.told = time.Now()
		a.end(errLimit)
	}
}

func (w *worker) forget(id runID) {
	w.mu.Lock()
	delete(w.runs, id)
	w.mu.Unlock()
	w.wake()
}

// finish records how a run ended. While the database is unavailable, it tries again until the run
// is told to end, and after that for as long as a lease lasts. After other errors, which may be permanent, it only
// tries again for as long as a lease lasts, since the run occupies a slot.
func (s *Scheduler) finish(ctx context.Context, r Run, o Outcome) error {
	lease := s.settings().Lease
	told, tries := ctx.Done(), context.WithoutCancel(ctx)
	var late <-chan time.Time
	for {
		try, cancel := context.WithTimeout(tries, lease)
		err := s.Finish(try, r, o)
		cancel()
		if err == nil || errors.Is(err, ErrFenced) {
			return err
		}
		if late == nil && !jobdb.Passes(err) {
			told, late = nil, time.After(lease)
		}
		select {
		case <-time.After(time.Second/2 + rand.N(time.Second)):
		case <-told:
			told, late = nil, time.After(lease)
		case <-late:
			return err // the node no longer knows the run: obey releases the job
		}
	}
}
