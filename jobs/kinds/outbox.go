package kinds

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/outbox"
)

// outboxRun moves rows of an outbox to a feed. Two runs at the same time are safe because of a lease in
// the database: one works, the other waits. A run that has lost its lease fails when it next records a
// batch, or commits rows and pages together.
var outboxRun = kind{
	source:  side{parse: parseOutbox, missing: "write the URL of a database"},
	target:  side{parse: parseStore, optional: true, missing: "write the URL of a store, or leave it out"},
	stored:  "target",
	follows: true,
	neutral: []string{"max-quarantine"},
	exclusive: func(p *parsed) string {
		pages := p.target.id
		if pages == "" {
			pages = p.source.id
		}
		name := first(p.Options["feed"])
		if layout.CheckName(name) != nil {
			return ""
		}
		return "feed " + pages + "#" + name
	},
	new: func() runner { return &outboxRunner{} },
	arguments: func(d *jobs.Document) (words, variables []string) {
		words = []string{"outbox", "run", "--db", d.Source}
		if d.Target != "" {
			words = append(words, "--store", d.Target)
		}
		if !d.Follow {
			words = append(words, "--once")
		}
		words, variables = credentialOf(d, "source", "", "PGPASSWORD", words, variables)
		return credentialOf(d, "target", "", "PGPASSWORD", words, variables)
	},
}

func parseOutbox(name string) (place, error) {
	p, err := parseDatabase(name)
	p.watch.Type = "outbox"
	return p, err
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

type outboxRunner struct{ task.OutboxRun }

func (o *outboxRunner) Arguments(d *jobs.Document, with credentials) {
	o.DB, o.Pages = withPassword(d.Source, with.sourcePassword), withPassword(d.Target, with.targetPassword)
	if d.Follow && o.Quarantine.String() == "" {
		_ = o.Quarantine.Set("100%") // as in consumeRun
	}
}

// Check implements runner. A job moves rows to one feed, since it waits for the rows of one feed.
func (o *outboxRunner) Check() error {
	if len(o.Feeds) != 1 {
		return errors.Join(o.Outbox.Check(), errors.New("--feed: want one feed; write a job for each"))
	}
	return o.OutboxRun.Check()
}

func (o *outboxRunner) Run(ctx context.Context, e *task.Env, idle func()) error {
	o.Once, o.Idle = idle == nil, idle
	_, err := o.OutboxRun.Run(ctx, e)
	return err
}

// Stats implements counting. Its positions are ids of rows.
func (o *outboxRunner) Stats() jobs.Stats {
	stats := statsOf(o.Status())
	_, group := o.Opened()
	if group == nil {
		return stats
	}
	group.Each(func(_ string, one outbox.Stats) { // of the one feed
		stats.Rejected = one.Quarantined
		if one.Through < 0 {
			return
		}
		stats.Position, stats.SourcePosition = strconv.FormatInt(one.Through, 10), strconv.FormatInt(one.Drawn, 10)
		stats.Lag = 0
		if !one.Oldest.IsZero() {
			stats.Lag = max(0, time.Since(one.Oldest))
		}
	})
	return stats
}
