package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
)

func newInit(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "init [STORE]",
		Short: "Create an empty store",
		Long: `Init creates an empty store at the URL STORE, by default that of --store: a directory, or a
schema with its tables in a PostgreSQL database. A bucket must exist. If there is a store
already, init changes nothing and succeeds.

Commands that write also create the store: publish, bridge, outbox attach and run, snapshot
create, copy. All others, including serve, need an existing store.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl init file:/var/lib/feedctl
  feedctl init 'postgres://owner@db.example.org/shop?schema=feedctl'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runInit(c.Context(), a, storeOf(a, args))
		},
	}
}

// storeOf returns the URL of the store that an optional argument names.
func storeOf(a *app.App, args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return a.Store
}

func runInit(ctx context.Context, a *app.App, rawURL string) error {
	_, err := a.OpenStore(ctx, rawURL, task.Access{})
	made := errors.Is(err, storage.ErrNoStore)
	if err != nil && !made {
		return err
	}
	store, err := a.OpenStore(ctx, rawURL, task.Access{Create: true})
	if err != nil {
		return err
	}
	// Not every driver has contacted its server yet.
	if _, err := store.Stat(ctx, "init"); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	result := initJSON{Store: sink.Redact(rawURL), Made: made}
	if made {
		return a.Printf(result, "made an empty store at %s\n", result.Store)
	}
	return a.Printf(result, "%s is already a store\n", result.Store)
}
