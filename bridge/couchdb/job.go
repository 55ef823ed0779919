package couchdb

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/feedctl/feedctl/bridge"
)

// A Job publishes the changes of a source, and does something once they are published, such as
// making a snapshot, before it waits for more.
type Job struct {
	Config
	// CaughtUp is called when the changes that exist have been published; nil: never. With
	// Config.Follow, the job then continues with a second bridge.
	CaughtUp func(ctx context.Context) error

	current atomic.Pointer[attempt]
}

// An attempt is a bridge, and the progress of those before it.
type attempt struct {
	bridge  *Bridge
	earlier bridge.Progress
}

// Progress returns the progress of the job. It may be called while the job runs.
func (j *Job) Progress() bridge.Progress {
	if a := j.current.Load(); a != nil {
		return a.bridge.Progress().After(a.earlier)
	}
	return bridge.Progress{Pending: -1}
}

// Run runs the job; see [Bridge.Run]. The report has a session for each bridge.
func (j *Job) Run(ctx context.Context) (Report, error) {
	if j.CaughtUp == nil {
		return j.publish(ctx, j.Follow)
	}
	report, err := j.publish(ctx, false)
	if err == nil {
		err = j.CaughtUp(ctx)
	}
	if err != nil || !j.Follow {
		return report, err
	}
	later, err := j.publish(ctx, true)
	later.Progress = later.Progress.After(report.Progress)
	later.NoChanges = later.NoChanges && report.NoChanges
	later.History = append(later.History, report.History...)
	return later, err
}

func (j *Job) publish(ctx context.Context, follow bool) (report Report, err error) {
	c := j.Config
	c.Follow = follow
	b, err := Open(ctx, c)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	j.current.Store(&attempt{b, j.Progress()})
	return b.Run(ctx)
}
