package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/postgres"
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

// outboxFlags say where the outbox is and where its pages go.
type outboxFlags struct{ db string }

func (f *outboxFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.db, "db", "", "`URL` of the database: postgres://USER@HOST/DATABASE?schema=feedctl")
	app.Must(c.MarkFlagRequired("db"))
}

// pages opens the store that the rows are moved to, and sets it in the configuration.
func (f *outboxFlags) pages(ctx context.Context, a *app.App, c *cobra.Command, config *outbox.Config, want task.Access) error {
	local, err := locate.ParseDatabase("--db", f.db)
	if err != nil {
		return err
	}
	to, url := local, f.db
	if c.Flags().Changed("store") {
		url = a.Store
		scheme, _, _ := strings.Cut(url, ":")
		if scheme != "postgres" && scheme != "postgresql" {
			config.Store, err = a.OpenStore(ctx, url, want)
			return err
		}
		if to, err = locate.ParseDatabase("--store", url); err != nil {
			return err
		}
	}
	store, err := locate.Wait(ctx, a.Log, locate.ForStore(url, want.Follow), func() (*postgres.Store, error) {
		return postgres.Connect(ctx, to, a.Log)
	})
	if err != nil {
		return fmt.Errorf("open the store of the outbox: %w", err)
	}
	a.AtEnd(store.Close, "store")
	if sameDatabase(local, to) {
		config.Local = store
	} else {
		config.Store = store
	}
	return nil
}

// sameDatabase reports whether two URLs name the same schema of the same database, in
// the same words.
func sameDatabase(a, b *url.URL) bool {
	return a.Host == b.Host && a.Path == b.Path && a.RawQuery == b.RawQuery
}

// open opens the database.
func (f *outboxFlags) open(ctx context.Context, a *app.App, want task.Access) (*outbox.DB, error) {
	if _, err := locate.ParseDatabase("--db", f.db); err != nil {
		return nil, err
	}
	open := outbox.Open
	if want.Create {
		open = outbox.Create
	}
	db, err := locate.Wait(ctx, a.Log, locate.ForStore(f.db, want.Follow), func() (*outbox.DB, error) { return open(ctx, f.db) })
	if err != nil {
		return nil, task.HintInit(fmt.Errorf("open the database of the outbox: %w", err), f.db)
	}
	a.AtEnd(func() error { db.Close(); return nil }, "outbox")
	return db, nil
}

// outboxHint adds what the user can do about an error of the outbox. A runner with
// another store than before has the wrong command line.
func outboxHint(err error) error {
	const adopt = "\"feedctl outbox run --adopt\", when you know why: rows that are in the feed already are then not published again"
	switch {
	case errors.Is(err, outbox.ErrDestination):
		return exit.WithHint(exit.Usagef("%w", err), "the --store that it had before; or "+adopt)
	case errors.Is(err, outbox.ErrForeign):
		return exit.WithHint(err, adopt)
	case errors.Is(err, outbox.ErrNotCaptured):
		return exit.WithHint(err, "another --table or --feed: \"feedctl outbox status --json\" has the tables that are captured")
	}
	return err
}
