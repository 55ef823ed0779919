package kinds

import (
	"context"
	"errors"
	"time"

	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
)

// bridgeKinto publishes the changes of a collection, or of the collections of a bucket. Two runs at the same time are
// safe because of the feed, as for bridgeCouchDB.
var bridgeKinto = kind{
	source:    side{parse: parseKintoSource, missing: "write the URL of a collection or bucket"},
	target:    side{parse: parseFeeds, missing: "write STORE#FEED"},
	stored:    "target",
	follows:   true,
	neutral:   []string{"index", "interval", "max-gone", "max-page-bytes", "max-page-entities", "max-quarantine", "newest-first", "reconcile", "retries", "tombstones-kept", "window"},
	exclusive: func(p *parsed) string { return "feed " + p.target.id },
	new:       func() runner { return &kintoRun{} },
	arguments: bridgeArguments,
}

// watchedWindow is the longest window of a job that is watched: the watch wakes such jobs a second time, this long
// after a change. Jobs with longer windows are woken from time to time instead.
const watchedWindow = time.Minute

type kintoRun struct{ task.BridgeKinto }

func (k *kintoRun) Arguments(d *jobs.Document, with credentials) {
	k.Source.URL, k.Source.Credential = d.Source, with.source
	setBridge(&k.BridgeRun, d, with)
}

// Check implements runner.
func (k *kintoRun) Check() error {
	return errors.Join(k.BridgeKinto.Check(), checkBridge(&k.BridgeRun))
}

func (k *kintoRun) Run(ctx context.Context, e *task.Env, idle func()) error {
	if k.OfBucket() {
		if idle != nil { // the job has caught up, and is woken by a change of any of its collections
			return nil
		}
		k.Follow = false
		_, err := k.RunBucket(ctx, e)
		return err
	}
	k.Follow, k.Idle = idle != nil, idle
	_, err := k.BridgeKinto.Run(ctx, e)
	return err
}

func (k *kintoRun) Stats() jobs.Stats {
	p, s := k.Progress(), statsOf(k.Status())
	s.Repeated, s.Rejected, s.Pending = p.Repeated, p.Quarantined, p.Pending
	s.Position, s.SourcePosition = p.Since, p.Newest
	return s
}
