package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/outbox"
)

type outboxRunFlags struct {
	outboxFlags
	feeds     []string
	all       bool
	once      bool
	adopt     bool
	metrics   string
	maxEntity int64

	quarantine units.Limit
}

func newOutboxRun(a *app.App) *cobra.Command {
	var f outboxRunFlags
	c := &cobra.Command{
		Use:   "run --db URL --feed FEED|--all",
		Short: "Move committed rows of the outbox to pages",
		Long: `Run moves the rows of the outbox to the pages of their feeds as they are committed, until
Ctrl-C or SIGTERM. Any number of runners may run, on any number of hosts: one works on each
feed, and another takes over within seconds if it is gone. With --all, rows of feeds that
appear later are moved, too, and a feed that needs attention does not stop the others.

If a feed in another store (--store URL) has an unknown checkpoint, because the database or
the store was restored from a backup, or because it belongs to another outbox, nothing is
written to it. --adopt continues such a feed: it deletes rows that are in the feed and moves
the others.

Rows that cannot be published are moved to the table outbox_quarantine, with the reason.
With --once, the exit status is 6 if there are more of them than --max-quarantine allows; by
default, if no row could be published.` + exit.Help(exit.Invalid, exit.Quarantine, exit.Interrupted),
		Example: `  feedctl outbox run --db postgres://feedctl@db.example.org/shop --all
  feedctl outbox run --db postgres://feedctl@db.example.org/shop --feed orders --store file:/var/lib/feedctl
  feedctl outbox run --db postgres://feedctl@db.example.org/shop --feed orders --once --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runOutboxRun(c.Context(), a, &f, c)
		},
	}
	f.add(c)
	flags := c.Flags()
	flags.StringSliceVar(&f.feeds, "feed", nil, "`FEED` whose rows are moved; may be repeated")
	flags.BoolVar(&f.all, "all", false, "move the rows of all feeds")
	flags.BoolVar(&f.once, "once", false, "end when all rows that were committed have been moved")
	flags.BoolVar(&f.adopt, "adopt", false, "first adopt feeds with an unknown checkpoint")
	flags.StringVar(&f.metrics, "metrics", "", app.MetricsUsage)
	units.SizeVar(flags, &f.maxEntity, "max-entity", 0, "put rows with more than this many `BYTES` into quarantine (default no limit)")
	task.LimitFlag(flags, &f.quarantine)
	c.MarkFlagsOneRequired("feed", "all")
	c.MarkFlagsMutuallyExclusive("feed", "all")
	c.MarkFlagsMutuallyExclusive("adopt", "all")
	return c
}

func runOutboxRun(ctx context.Context, a *app.App, f *outboxRunFlags, c *cobra.Command) (err error) {
	for _, name := range f.feeds {
		if err := layout.CheckName(name); err != nil {
			return err
		}
	}
	a.Follower = !f.once
	want := task.Access{Create: true, Follow: !f.once}
	db, err := f.open(ctx, a, want)
	if err != nil {
		return err
	}
	config := outbox.Config{Logger: a.Log, MaxEntity: f.maxEntity}
	if err := f.pages(ctx, a, c, &config, want); err != nil {
		return err
	}
	group := outbox.NewGroup(db, config, f.once)
	if f.adopt {
		if err := group.Adopt(ctx, f.feeds); err != nil {
			return err
		}
	}
	if err := a.ServeMetrics(f.metrics, metrics.Outbox(db, group)); err != nil {
		return err
	}
	a.Progress("outbox", func() progress.Status { return outboxProgress(group) })
	if f.all {
		err = group.RunAll(ctx)
	} else {
		err = group.Run(ctx, f.feeds)
	}
	if err := errors.Join(outboxHint(err), printMoved(a, group)); err != nil {
		return err
	}
	var moved, bad int64
	group.Each(func(_ string, s outbox.Stats) { moved, bad = moved+s.Rows, bad+s.Quarantined })
	return task.CheckLimit(&f.quarantine, bad, moved+bad, "the table outbox_quarantine has them, with the reasons")
}

func outboxProgress(g *outbox.Group) progress.Status {
	s := progress.Status{Lag: -1}
	g.Each(func(_ string, one outbox.Stats) {
		s.Entities += one.Rows
		s.Bytes += one.Bytes
	})
	return s
}

// outboxMovedJSON is printed by "outbox run" when it ends, in an array.
type outboxMovedJSON struct {
	Feed string `json:"feed"`
	outbox.Stats
}

// printMoved prints what the runners of this process have moved.
func printMoved(a *app.App, g *outbox.Group) error {
	result := []outboxMovedJSON{}
	g.Each(func(name string, s outbox.Stats) { result = append(result, outboxMovedJSON{name, s}) })
	return a.Print(result, func(w io.Writer) error {
		for _, r := range result {
			bad := ""
			if r.Quarantined > 0 {
				bad = ", " + human.Plural(r.Quarantined, "row", "rows") + " into quarantine"
			}
			if _, err := fmt.Fprintf(w, "moved %s to %s%s\n", human.Plural(r.Rows, "entity", "entities"), r.Feed, bad); err != nil {
				return err
			}
		}
		return nil
	})
}
