package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// Limits of the actions of a console.
const (
	keepRuns    = 100       // completed runs that are remembered
	mostRuns    = 4         // runs in the background at the same time
	confirmTime = time.Hour // after which a result can no longer be confirmed
	keepFinds   = 50        // findings of a run
	keepText    = 500       // bytes of a finding
	keepMessage = 4 << 10   // bytes of an error
)

// Errors of runs. They are shown to the person who asked for the run.
var (
	errBusy      = errors.New("another action on the same feed or job is in progress: wait until it ends")
	errTooMany   = errors.New("too many actions are in progress: wait until one ends")
	errClosing   = errors.New("the console is shutting down")
	errConfirmed = errors.New("this result has been confirmed before, is older than an hour, or is from before a restart: repeat the action")
)

// A run is an action that was started.
type run struct {
	ID      int64
	Action  string
	Target  string // a feed or a job
	Job     bool   // Target is a job
	User    string
	Command string
	Started time.Time
	Ended   time.Time // zero while it is in progress

	Progress  string
	Result    Result
	Error     string // why it failed
	Cancelled bool   // because the console was closed

	confirm *Action // not confirmed yet
	atOnce  bool    // run within a request, even if other runs are in progress
}

// State returns the state of the run in words, for display.
func (r *run) State() string {
	switch {
	case r.Ended.IsZero():
		return "running"
	case r.Cancelled:
		return "cancelled"
	case r.Error != "":
		return "failed"
	case len(r.Result.Findings)+r.Result.Omitted > 0:
		return "found problems"
	}
	return "done"
}

// visible reports whether the caller in ctx may know of the run. A caller who is limited to namespaces may know only of
// runs for jobs in these namespaces.
func (r *run) visible(ctx context.Context) bool {
	namespace := ""
	if r.Job {
		namespace, _ = splitID(r.Target)
	}
	return jobs.Visible(ctx, namespace)
}

// runs holds the runs of a console that are in progress, and the last ones that have ended. They are lost when the
// process ends.
type runs struct {
	now    func() time.Time
	ctx    context.Context // ends when the console is closed
	cancel context.CancelFunc
	active sync.WaitGroup

	confirming sync.Mutex // held before mu

	mu     sync.Mutex
	closed bool
	last   int64
	all    []*run // oldest first
}

func newRuns(now func() time.Time) *runs {
	ctx, cancel := context.WithCancel(context.Background())
	return &runs{now: now, ctx: ctx, cancel: cancel}
}

// close ends the runs in progress, as Ctrl-C ends commands, and waits for them until ctx ends.
func (r *runs) close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	ended := make(chan struct{})
	go func() {
		r.active.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the actions of the console: %w", context.Cause(ctx))
	}
}

// begin adds a run. It refuses a run in the background if another run with the same target is in progress, or if too
// many runs are.
func (r *runs) begin(new *run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosing
	}
	if !new.atOnce {
		if err := r.room(new); err != nil {
			return fmt.Errorf("%s %s: %w", new.Action, new.Target, err)
		}
	}
	r.last++
	new.ID, new.Started = r.last, r.now()
	r.all = append(r.all, new)
	oldest := slices.IndexFunc(r.all, func(x *run) bool { return !x.Ended.IsZero() })
	if len(r.all) > keepRuns+mostRuns && oldest >= 0 {
		r.all = slices.Delete(r.all, oldest, oldest+1)
	}
	r.active.Add(1)
	return nil
}

// room returns an error if a run cannot begin in the background now. The caller must hold mu.
func (r *runs) room(new *run) error {
	active := 0
	for _, x := range r.all {
		if x.atOnce || !x.Ended.IsZero() {
			continue
		}
		if x.Target == new.Target && x.Job == new.Job {
			return errBusy
		}
		active++
	}
	if active >= mostRuns {
		return errTooMany
	}
	return nil
}

// start runs an action in the background, and calls ended with the run at its end.
func (r *runs) start(a Action, new *run, ended func(run)) (id int64, err error) {
	new.Action, new.Command = a.Name, a.Command
	if err := r.begin(new); err != nil {
		return 0, err
	}
	go func() {
		defer r.active.Done()
		result, err := a.Run(r.ctx, func(text string) { r.progress(new, text) })
		ended(r.end(new, result, err))
	}()
	return new.ID, nil
}

// do runs an action at once, within a request. The error is that of the action, or says why the action could not begin.
func (r *runs) do(ctx context.Context, a Action, new *run) (run, error) {
	new.Action, new.Command, new.atOnce = a.Name, a.Command, true
	if err := r.begin(new); err != nil {
		return *new, err
	}
	defer r.active.Done()
	result, err := a.Run(ctx, func(string) {})
	return r.end(new, result, err), err
}

func (r *runs) progress(x *run, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.Progress = cut(text, keepText)
}

// end records how a run has ended, and returns a copy of the run.
func (r *runs) end(x *run, result Result, err error) run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if extra := len(result.Findings) - keepFinds; extra > 0 {
		result.Findings, result.Omitted = result.Findings[:keepFinds], result.Omitted+extra
	}
	result.Findings = slices.Clone(result.Findings)
	for n := range result.Findings {
		result.Findings[n] = cut(result.Findings[n], keepText)
	}
	x.Ended, x.Progress, x.Result, x.confirm = r.now(), "", result, result.Confirm
	if err != nil {
		x.Error, x.Cancelled, x.confirm = cut(err.Error(), keepMessage), r.ctx.Err() != nil, nil
	}
	return *x
}

// list returns the runs that the caller in ctx may know of, newest first.
func (r *runs) list(ctx context.Context) (all []run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range slices.Backward(r.all) {
		if x.visible(ctx) {
			all = append(all, *x)
		}
	}
	return all
}

// get returns the run with the given number, if the caller in ctx may know of it.
func (r *runs) get(ctx context.Context, id int64) (run, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.all {
		if x.ID == id && x.visible(ctx) {
			return *x, true
		}
	}
	return run{}, false
}

// confirmable reports whether the result of a run can be confirmed.
func (r *runs) confirmable(x *run) bool {
	return x.confirm != nil && r.now().Sub(x.Ended) < confirmTime
}

// confirm calls start with the action that the result of a run has prepared, unless that action has already been
// started.
func (r *runs) confirm(ctx context.Context, id int64, start func(x run, a Action) error) error {
	r.confirming.Lock()
	defer r.confirming.Unlock()
	x, ok := r.get(ctx, id)
	if !ok || !r.confirmable(&x) {
		return errConfirmed
	}
	if err := start(x, *x.confirm); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.all {
		if x.ID == id {
			x.confirm = nil
		}
	}
	return nil
}
