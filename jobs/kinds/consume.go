package kinds

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
)

// known holds the kinds by name.
var known = map[string]kind{
	"bridge couchdb":     bridgeCouchDB,
	"bridge kinto":       bridgeKinto,
	"consume":            consume,
	"outbox run":         outboxRun,
	"prune":              prune,
	"retain":             retain,
	"snapshot from-feed": snapshotFromFeed,
	"verify":             verify,
}

// consume copies a feed into a sink. Two runs at the same time are safe because of the sink: only one
// consumer at a time has it open, and the other run ends with [jobs.ErrDuplicate]. If a lock is lost,
// the batch of the slower consumer is refused because of the position that is committed with the data.
var consume = kind{
	source:    side{parse: parseFeed, missing: "write the URL of a feed, or STORE#FEED"},
	target:    side{parse: parseSink, missing: "write a sink, such as sqlite:/PATH?table=T"},
	stored:    "source",
	follows:   true,
	neutral:   []string{"allow-origin", "announce", "batch-bytes", "batch-entities", "header", "max-quarantine", "newest-first", "retries"},
	exclusive: func(p *parsed) string { return p.target.id },
	new:       func() runner { return &consumeRun{} },
	arguments: func(d *jobs.Document) (words, variables []string) {
		words = []string{"consume", d.Source, "--into", d.Target}
		if d.Follow {
			words = append(words, "--follow")
		}
		into := "FEEDCTL_INTO_CREDENTIALS"
		if strings.HasPrefix(d.Target, "postgres") {
			into = "PGPASSWORD"
		}
		words, variables = credentialOf(d, "source", "--credentials-file", sourceVariable(d), words, variables)
		return credentialOf(d, "target", "--into-credentials-file", into, words, variables)
	},
}

type consumeRun struct{ task.Consume }

func (c *consumeRun) Arguments(d *jobs.Document, with credentials) {
	c.Feed, c.Into, c.Follow = withPassword(d.Source, with.sourcePassword), withPassword(d.Target, with.targetPassword), d.Follow
	c.Client.Credential, c.IntoCredential = with.source, with.target
	c.Announce = cmp.Or(c.Announce, feed.CleanConsumerName(d.ID()))
	if d.Follow && c.Quarantine.String() == "" {
		// An entity that the sink rejects must not end a run, even if it is the only one.
		_ = c.Quarantine.Set("100%")
	}
}

func (c *consumeRun) Run(ctx context.Context, e *task.Env, idle func()) error {
	c.Follow, c.Idle = idle != nil, idle
	_, err := c.Consume.Run(ctx, e)
	return err
}

func (c *consumeRun) Stats() jobs.Stats {
	p, s := c.Progress(), statsOf(c.Status())
	s.Rejected, s.Position, s.Lag = p.Rejected.Total(), positionText(p.Position), c.Lag()
	if !p.Newest.IsZero() {
		s.SourcePosition = feed.FormatTime(p.Newest)
	}
	return s
}

// positionText returns a position in readable form: the time and the Content-ID of its entity.
func positionText(p feed.Position) string {
	switch {
	case p.Snapshot != nil:
		return fmt.Sprintf("snapshot, page %d", p.Snapshot.Page)
	case p.LastModified.IsZero():
		return ""
	}
	text := feed.FormatTime(p.LastModified) + " " + p.ContentID
	if p.Tail != nil && p.Tail.ContentID != "" {
		text += ", back to " + feed.FormatTime(p.Tail.LastModified)
	}
	return text
}
