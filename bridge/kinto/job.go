package kinto

import (
	"context"

	"github.com/feedctl/feedctl/bridge"
)

// A Job publishes the changes of a source. Once they are published, and before it waits for more,
// it can do something else, such as making a snapshot.
type Job struct {
	Config
	// CaughtUp is called when the changes that exist have been published; nil: never. With
	// Config.Follow, the job then continues with a second bridge.
	CaughtUp func(ctx context.Context) error

	stages bridge.Stages[Report]
}

// Progress returns the progress of the job. It may be called while the job runs.
func (j *Job) Progress() bridge.Progress { return j.stages.Progress() }

// Run runs the job; see [Bridge.Run].
func (j *Job) Run(ctx context.Context) (Report, error) {
	reports, err := j.stages.Run(ctx, j.Follow, j.CaughtUp, func(ctx context.Context, follow bool) (bridge.Runner[Report], error) {
		c := j.Config
		c.Follow = follow
		return Open(ctx, c)
	})
	all := reports[0]
	for _, later := range reports[1:] {
		later.Progress = later.Progress.After(all.Progress)
		later.NoChanges = later.NoChanges && all.NoChanges
		all = later
	}
	return all, err
}
