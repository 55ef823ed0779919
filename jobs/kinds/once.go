package kinds

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// snapshotFromFeed makes a snapshot of a feed. Two runs at the same time make two complete snapshots
// with different ids; the one finished last is the newest.
var snapshotFromFeed = kind{
	source: side{parse: parseStored, missing: "write STORE#FEED"},
	target: side{missing: "the snapshot is in the store of the feed"},
	stored: "source", neutral: []string{"temp-dir"},
	exclusive: func(p *parsed) string {
		name := first(p.Options["name"])
		if name != "" && layout.CheckName(name) != nil {
			return ""
		}
		return "snapshot " + p.source.id + " " + name
	},
	new: func() runner { return &snapshotRun{} },
	arguments: func(d *jobs.Document) (words, variables []string) {
		return credentialOf(d, "source", "", "PGPASSWORD", []string{"snapshot", "from-feed", d.Source}, nil)
	},
}

type snapshotRun struct {
	task.SnapshotFromFeed
	made *task.Snapshot
}

func (s *snapshotRun) Arguments(d *jobs.Document, with credentials) {
	s.Feed = withPassword(d.Source, with.sourcePassword)
}

func (s *snapshotRun) Run(ctx context.Context, e *task.Env, _ func()) error {
	var err error
	s.made, err = s.SnapshotFromFeed.Run(ctx, e)
	return err
}

// Result names the snapshot.
func (s *snapshotRun) Result() string {
	return fmt.Sprintf("snapshot %s/%s with %s", s.made.Name, s.made.ID, human.Plural(int64(s.made.Pages), "page", "pages"))
}

func (s *snapshotRun) Stats() jobs.Stats { return statsOf(s.Status()) }

// prune deletes the oldest pages of a feed. Two runs at the same time leave the pages that both of them
// keep: the floor of the feed is written first, by compare and swap, and is never lowered.
var prune = kind{
	source: side{missing: "set target to the feed"},
	target: side{parse: parseStored, missing: "write STORE#FEED"},
	stored: "target", exclusive: func(p *parsed) string { return "prune " + p.target.id },
	new: func() runner { return &pruneRun{} },
	arguments: func(d *jobs.Document) (words, variables []string) {
		return credentialOf(d, "target", "", "PGPASSWORD", []string{"prune", d.Target}, nil)
	},
}

type pruneRun struct {
	task.Prune
	done *task.Pruned
}

func (p *pruneRun) Arguments(d *jobs.Document, with credentials) {
	p.Feed = withPassword(d.Target, with.targetPassword)
}

func (p *pruneRun) Run(ctx context.Context, e *task.Env, _ func()) error {
	var err error
	p.done, err = p.Prune.Run(ctx, e)
	return err
}

// Result describes what was deleted.
func (p *pruneRun) Result() string {
	verb := "deleted"
	if p.done.DryRun {
		verb = "would delete"
	}
	text := fmt.Sprintf("%s %s (%s)", verb, human.Plural(p.done.Pages, "page", "pages"), human.Bytes(p.done.Bytes))
	if p.done.Reason != "" {
		text += ": " + p.done.Reason
	}
	return text
}

// verify checks a feed, and compares it with its source if there is a target. It only reads, so any
// number of runs at the same time are safe; with --state, the file is replaced as a whole.
var verify = kind{
	source: side{parse: parseFeed, missing: "write the URL of a feed, or STORE#FEED"},
	target: side{parse: parseAgainst, optional: true},
	stored: "source", neutral: []string{"allow-origin", "header"},
	new: func() runner { return &verifyRun{} },
	arguments: func(d *jobs.Document) (words, variables []string) {
		words = []string{"verify", d.Source}
		if d.Target != "" {
			words = append(words, "--against", d.Target)
		}
		words, variables = credentialOf(d, "source", "--credentials-file", sourceVariable(d), words, nil)
		return credentialOf(d, "target", "--against-credentials-file", "FEEDCTL_AGAINST_CREDENTIALS", words, variables)
	},
}

type verifyRun struct {
	task.Verify
	verified *task.Verified
}

func (v *verifyRun) Arguments(d *jobs.Document, with credentials) {
	v.Feed, v.Client.Credential = withPassword(d.Source, with.sourcePassword), with.source
	v.Against, v.AgainstCredential = d.Target, with.target
}

func (v *verifyRun) Run(ctx context.Context, e *task.Env, _ func()) error {
	var err error
	v.verified, err = v.Verify.Run(ctx, e)
	if exit.Status(err) == exit.Invalid || errors.Is(err, storage.ErrLayout) { // ErrLayout means damage
		err = fmt.Errorf("%w: %w", jobs.ErrFindings, err)
	}
	return err
}

// Result describes what was checked.
func (v *verifyRun) Result() string {
	r := v.verified
	text := fmt.Sprintf("no violations in %s with %s", human.Plural(int64(r.Pages), "page", "pages"), human.Plural(r.Entities, "entity", "entities"))
	if r.Against != nil {
		text += fmt.Sprintf("; no differences in %s", human.Plural(r.Against.Items, "item", "items"))
	}
	return text
}
