package kinds

import (
	"context"
	"fmt"

	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
)

// retain carries out the retention policy of a feed, once in each run. Two runs at the same time may
// each make a snapshot; neither deletes anything that the other must keep.
var retain = kind{
	source: side{missing: "set target to the feed"},
	target: side{parse: parseStored, missing: "write STORE#FEED"},
	stored: "target", neutral: []string{"tables"},
	exclusive: func(p *parsed) string { return "retain " + p.target.id },
	new:       func() runner { return &retainRun{} },
	arguments: func(d *jobs.Document) (words, variables []string) {
		return credentialOf(d, "target", "", "PGPASSWORD", []string{"retain", d.Target, "--run"}, nil)
	},
}

type retainRun struct {
	task.Retain
	done *task.Retained
}

func (r *retainRun) Arguments(d *jobs.Document, with credentials) {
	r.Feed = withPassword(d.Target, with.targetPassword)
}

func (r *retainRun) Run(ctx context.Context, e *task.Env, _ func()) error {
	var err error
	r.done, err = r.Retain.Run(ctx, e)
	return err
}

// Result says what was done.
func (r *retainRun) Result() string {
	made := "no snapshot was due"
	if r.done.Snapshot {
		made = "made a snapshot"
	}
	return fmt.Sprintf("%s, deleted %s (%s) and %s", made, human.Plural(r.done.Pages, "page", "pages"), human.Bytes(r.done.Bytes),
		human.Plural(int64(len(r.done.Deleted)), "snapshot", "snapshots"))
}

func (r *retainRun) Stats() jobs.Stats { return statsOf(r.Status()) }
