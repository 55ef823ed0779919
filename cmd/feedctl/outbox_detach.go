package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/outbox"
)

type outboxDetachFlags struct {
	task.Outbox
	table, feed string
}

func newOutboxDetach(a *app.App) *cobra.Command {
	var f outboxDetachFlags
	c := &cobra.Command{
		Use:   "detach --db URL (--table TABLE | --feed FEED)",
		Short: "Stop publishing the changes of a table",
		Long: `Detach removes the triggers and everything else that attach has created. Published entities
remain, and rows in the outbox are still moved. Detach a dropped table by its feed, or by
the name that it had when it was attached.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl outbox detach --db postgres://owner@db.example.org/shop --table public.products
  feedctl outbox detach --db postgres://owner@db.example.org/shop --feed products`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runOutboxDetach(c.Context(), a, &f)
		},
	}
	addOutbox(c, &f.Outbox)
	c.Flags().StringVar(&f.table, "table", "", "`TABLE` that is captured")
	c.Flags().StringVar(&f.feed, "feed", "", "`FEED` that has the changes of the table")
	c.MarkFlagsOneRequired("table", "feed")
	c.MarkFlagsMutuallyExclusive("table", "feed")
	return c
}

func runOutboxDetach(ctx context.Context, a *app.App, f *outboxDetachFlags) error {
	detach, name, text := (*outbox.DB).Detach, f.table, "changes of "+f.table+" are no longer published"
	if f.feed != "" {
		if err := layout.CheckName(f.feed); err != nil {
			return err
		}
		detach, name, text = (*outbox.DB).DetachFeed, f.feed, "changes of tables are no longer published to "+f.feed
	}
	db, err := f.Open(ctx, &a.Env, task.Access{})
	if err != nil {
		return err
	}
	if err := detach(db, ctx, name); err != nil {
		return task.HintOutbox(err)
	}
	return a.Printf(outboxCaptureJSON{Table: f.table, Feed: f.feed}, "%s\n", text)
}
