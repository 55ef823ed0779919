package kinds

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/storage"
)

// snapshotFromFeed makes a snapshot of a feed. Two runs at a time make two snapshots with different
// ids, each complete; the one that is finished last is the newest.
var snapshotFromFeed = kind{
	source: side{parse: parseStored, missing: "write STORE#FEED"},
	target: side{missing: "the snapshot is in the store of the feed"},
	stored: "source", neutral: []string{"temp-dir"},
	exclusive: func(p *parsed) string { return "snapshot " + p.source.id + " " + first(p.Options["name"]) },
	new:       func() runner { return &snapshotRun{} },
	arguments: func(d *jobs.Document) (words, variables []string) {
		return credentialOf(d, "source", "", "PGPASSWORD", []string{"snapshot", "from-feed", d.Source}, nil)
	},
}

type snapshotRun struct{ task.SnapshotFromFeed }

func (s *snapshotRun) Arguments(d *jobs.Document, with credentials) {
	s.Feed = withPassword(d.Source, with.sourcePassword)
}

func (s *snapshotRun) Run(ctx context.Context, e *task.Env, _ func()) error {
	_, err := s.SnapshotFromFeed.Run(ctx, e)
	return err
}

func (s *snapshotRun) Stats() jobs.Stats { return statsOf(s.Status()) }

// prune deletes the oldest pages of a feed. Two runs at a time delete the same pages, or those of
// the less strict policy: the floor of the feed is written first, by compare and swap, and
// never goes back.
var prune = kind{
	source: side{missing: "write the feed into target"},
	target: side{parse: parseStored, missing: "write STORE#FEED"},
	stored: "target", exclusive: func(p *parsed) string { return "prune " + p.target.id },
	new: func() runner { return &pruneRun{} },
	arguments: func(d *jobs.Document) (words, variables []string) {
		return credentialOf(d, "target", "", "PGPASSWORD", []string{"prune", d.Target}, nil)
	},
}

type pruneRun struct{ task.Prune }

func (p *pruneRun) Arguments(d *jobs.Document, with credentials) {
	p.Feed = withPassword(d.Target, with.targetPassword)
}

func (p *pruneRun) Run(ctx context.Context, e *task.Env, _ func()) error {
	_, err := p.Prune.Run(ctx, e)
	return err
}

func (p *pruneRun) Stats() jobs.Stats { return statsOf(p.Status()) }

// verify checks a feed. It only reads, and may run any number of times at once; with --state, the
// file is replaced as a whole.
var verify = kind{
	source: side{parse: parseFeed, missing: "write the URL of a feed, or STORE#FEED"},
	target: side{missing: "it only reads"},
	stored: "source", neutral: []string{"allow-origin", "header"},
	new: func() runner { return &verifyRun{} },
	arguments: func(d *jobs.Document) (words, variables []string) {
		return credentialOf(d, "source", "--credentials-file", sourceVariable(d), []string{"verify", d.Source}, nil)
	},
}

type verifyRun struct{ task.Verify }

func (v *verifyRun) Arguments(d *jobs.Document, with credentials) {
	v.Feed, v.Client.Credential = withPassword(d.Source, with.sourcePassword), with.source
}

func (v *verifyRun) Run(ctx context.Context, e *task.Env, _ func()) error {
	_, err := v.Verify.Run(ctx, e)
	if exit.Status(err) == exit.Invalid || errors.Is(err, storage.ErrLayout) { // the latter is damage
		err = fmt.Errorf("%w: %w", jobs.ErrFindings, err)
	}
	return err
}

func (v *verifyRun) Stats() jobs.Stats { return statsOf(v.Status()) }
