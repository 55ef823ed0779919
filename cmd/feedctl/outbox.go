package main

import (
	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
)

func newOutbox(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "outbox",
		Short: "Publish events written in PostgreSQL transactions",
		Long: `Outbox publishes events that applications write in their own PostgreSQL transactions, by
calling feedctl.publish or by changing captured tables. Events of a transaction that is
rolled back are never published; those of a committed transaction are published exactly
once.

  SELECT feedctl.publish('orders', '1017', 'PUT', '{"total": 12.5}');

"run" and "attach" create the tables in the schema of --db, by default "feedctl". Without
--store, the pages are in the same database, and "feedctl serve --store URL" with the same
URL serves them.` + exit.Help(),
		Example: `  feedctl outbox run --db postgres://feedctl@db.example.org/shop --feed orders
  feedctl outbox attach --db postgres://owner@db.example.org/shop --table public.products --feed products
  feedctl outbox status --db postgres://feedctl@db.example.org/shop`,
		Args: cobra.NoArgs,
		RunE: app.NeedCommand,
	}
	c.AddCommand(newOutboxRun(a), newOutboxStatus(a), newOutboxAttach(a), newOutboxDetach(a))
	return c
}

// addOutbox adds the flag for the database of an outbox.
func addOutbox(c *cobra.Command, o *task.Outbox) {
	o.Flags(c.Flags())
	app.Must(c.MarkFlagRequired("db"))
}

// pagesOf returns the URL of the store for pages if --store is given, and "" otherwise.
func pagesOf(a *app.App, c *cobra.Command) string {
	if c.Flags().Changed("store") {
		return a.Store
	}
	return ""
}
