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
	"github.com/feedctl/feedctl/internal/task"
)

func newOutboxRun(a *app.App) *cobra.Command {
	var t task.OutboxRun
	address := ""
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
			t.Pages = pagesOf(a, c)
			return runOutboxRun(c.Context(), a, &t, address)
		},
	}
	t.Flags(c.Flags())
	c.Flags().StringVar(&address, "metrics", "", app.MetricsUsage)
	app.Must(c.MarkFlagRequired("db"))
	c.MarkFlagsOneRequired("feed", "all")
	c.MarkFlagsMutuallyExclusive("feed", "all")
	c.MarkFlagsMutuallyExclusive("adopt", "all")
	return c
}

func runOutboxRun(ctx context.Context, a *app.App, t *task.OutboxRun, address string) error {
	a.Follower = !t.Once
	if err := a.ServeMetrics(address, metrics.Outbox(t.Opened), metrics.OutboxReady(t.Opened)); err != nil {
		return err
	}
	a.Progress("outbox", t.Status)
	moved, err := t.Run(ctx, &a.Env)
	if moved == nil {
		return err
	}
	return errors.Join(err, printMoved(a, moved))
}

// printMoved prints what the runners of this process have moved.
func printMoved(a *app.App, moved []task.Moved) error {
	return a.Print(moved, func(w io.Writer) error {
		for _, m := range moved {
			bad := ""
			if m.Quarantined > 0 {
				bad = ", " + human.Plural(m.Quarantined, "row", "rows") + " into quarantine"
			}
			if _, err := fmt.Fprintf(w, "moved %s to %s%s\n", human.Plural(m.Rows, "entity", "entities"), m.Feed, bad); err != nil {
				return err
			}
		}
		return nil
	})
}
