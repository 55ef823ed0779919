// Package actions implements the actions that users may run from the console. They do the same as commands, with
// the same code.
package actions

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/kinds"
)

// progressEvery is the interval at which the progress of an action is reported.
const progressEvery = time.Second

// A Runner runs actions, each in an environment of its own.
type Runner struct {
	Log       *slog.Logger
	Transport http.RoundTripper // for all HTTP requests, except those of S3 stores
	Store     string            // URL of the store for feeds that are given without one
	StoreName string            // Store as shown in command lines, without secrets
	// Shared holds what the actions have opened; if it is nil, each action opens its own.
	Shared *task.Shared
}

// env returns a new environment for an action.
func (r *Runner) env() *task.Env {
	return &task.Env{Log: r.Log, Transport: r.Transport, Store: r.Store, Shared: r.Shared, FailFast: true}
}

// run returns a function that runs a task in an environment of its own. If the task fails, the result holds the
// remedy for the error.
func (r *Runner) run(status func() progress.Status, do func(ctx context.Context, e *task.Env) (console.Result, error)) func(context.Context, func(string)) (console.Result, error) {
	return func(ctx context.Context, tell func(string)) (console.Result, error) {
		e := r.env()
		stop := watch(ctx, status, tell)
		result, err := do(ctx, e)
		stop()
		err = e.Close(err)
		if err != nil {
			result.Remedy = exit.Hint(err)
		}
		return result, err
	}
}

// watch calls tell with the progress of a task at intervals, until stop is called.
func watch(ctx context.Context, status func() progress.Status, tell func(string)) (stop func()) {
	if status == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		ticks := time.NewTicker(progressEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				s := status()
				tell(fmt.Sprintf("%s, %s", human.Plural(s.Entities, "entity", "entities"), human.Bytes(s.Bytes)))
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// Jobs provides the actions for jobs; it implements [console.JobActions].
type Jobs struct {
	Runner
	Node string // the name of this node: jobs with files on other nodes have no actions
}

// Offered implements [console.JobActions].
func (j *Jobs) Offered(d *jobs.Document) (offered []console.Action) {
	for _, a := range kinds.Actions(d, j.Node) {
		run := j.run(a.Status, func(ctx context.Context, e *task.Env) (r console.Result, err error) {
			var omitted int64
			r.Summary, r.Findings, omitted, err = a.Run(ctx, e)
			r.Omitted = int(omitted)
			return r, err
		})
		offered = append(offered, console.Action{Name: a.Name, About: a.About, Command: a.Command, Run: run})
	}
	return offered
}
