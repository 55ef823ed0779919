package kinds

import (
	"context"
	"errors"
	"strings"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
)

// bridgeCouchDB publishes the changes of a database. Two runs at the same time are safe because of the
// feed: each page is committed together with the checkpoint, by compare and swap, so each revision is
// published once; the slower run reads the feed again and continues. The indexes of bridges are caches
// of the feed, so the job need not run on a node that has an index.
var bridgeCouchDB = kind{
	source:    side{parse: parseCouch, missing: "write the URL of a database"},
	target:    side{parse: parseStored, missing: "write STORE#FEED"},
	stored:    "target",
	follows:   true,
	neutral:   []string{"index", "long-poll", "max-page-bytes", "max-page-entities", "max-quarantine", "retries"},
	exclusive: func(p *parsed) string { return "feed " + p.target.id },
	new:       func() runner { return &bridgeRun{} },
	arguments: bridgeArguments,
}

// bridgeArguments returns the command line of a bridge.
func bridgeArguments(d *jobs.Document) (words, variables []string) {
	words = append(strings.Fields(d.Kind), d.Source, d.Target)
	if d.Follow {
		words = append(words, "--follow")
	}
	words, variables = credentialOf(d, "source", "--credentials-file", "FEEDCTL_CREDENTIALS", words, variables)
	return credentialOf(d, "target", "", "PGPASSWORD", words, variables)
}

// setBridge sets the fields that all bridges share.
func setBridge(b *task.BridgeRun, d *jobs.Document, with credentials) {
	b.Feed, b.Follow = withPassword(d.Target, with.targetPassword), d.Follow
	if d.Follow && b.Quarantine.String() == "" {
		_ = b.Quarantine.Set("100%") // as in consumeRun
	}
}

// checkBridge returns an error for settings that are wrong only in a job: a job that follows has many
// runs, each of which would make a snapshot.
func checkBridge(b *task.BridgeRun) error {
	if b.Snapshot && b.Follow {
		return errors.New("--snapshot: with follow, write a job of kind snapshot from-feed with a schedule instead")
	}
	return nil
}

type bridgeRun struct{ task.BridgeCouchDB }

func (b *bridgeRun) Arguments(d *jobs.Document, with credentials) {
	b.Source.URL, b.Source.Credential = d.Source, with.source
	setBridge(&b.BridgeRun, d, with)
}

// Check implements runner.
func (b *bridgeRun) Check() error {
	return errors.Join(b.BridgeCouchDB.Check(), checkBridge(&b.BridgeRun))
}

func (b *bridgeRun) Run(ctx context.Context, e *task.Env, idle func()) error {
	b.Follow, b.Idle = idle != nil, idle
	b.LongPoll = b.LongPoll && b.Follow
	_, err := b.BridgeCouchDB.Run(ctx, e)
	return err
}

func (b *bridgeRun) Stats() jobs.Stats {
	p, s := b.Progress(), statsOf(b.Status())
	s.Repeated, s.Rejected, s.Pending = p.Repeated, p.Quarantined, p.Pending
	s.Position, s.SourcePosition = couchdb.SeqText([]byte(p.Since)), couchdb.SeqText([]byte(p.Newest))
	return s
}
