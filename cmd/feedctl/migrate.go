package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage/postgres"
)

func newMigrate(a *app.App) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "migrate [STORE]",
		Short: "Bring the schema of a store to the version of this program",
		Long: `Migrate migrates the tables and procedures of a store in PostgreSQL, including those of the
outbox, to the newest version that this program knows, in one transaction. Directories and
buckets need no migration. The user must own the schema. With --dry-run, migrate prints the
statements instead.

No other command migrates; an error says if a migration is required. Servers and publishers
can be updated one by one, before or after the migration: programs that know the previous
version can use a migrated store, and this program can use a store that was not migrated.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl migrate 'postgres://owner@db.example.org/shop?schema=feedctl' --dry-run
  feedctl migrate 'postgres://owner@db.example.org/shop?schema=feedctl'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runMigrate(c.Context(), a, storeOf(a, args), dryRun)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done, and do nothing")
	return c
}

func runMigrate(ctx context.Context, a *app.App, rawURL string, dryRun bool) error {
	result := migrateJSON{Store: sink.Redact(rawURL), DryRun: dryRun, Plan: schema.Plan{Steps: []schema.Migration{}}}
	if !strings.HasPrefix(rawURL, "postgres:") && !strings.HasPrefix(rawURL, "postgresql:") {
		if _, err := a.OpenStore(ctx, rawURL, task.Access{}); err != nil {
			return err
		}
		return a.Printf(result, "%s needs no migration\n", result.Store)
	}
	u, err := locate.ParseDatabase("store", rawURL)
	if err != nil {
		return err
	}
	plan, err := locate.Wait(ctx, a.Log, locate.ForStore(rawURL, false), func() (schema.Plan, error) {
		return postgres.Migrate(ctx, u, dryRun)
	})
	if err != nil {
		return task.HintInit(err, rawURL)
	}
	result.From, result.To = plan.From, plan.To
	result.Steps = append(result.Steps, plan.Steps...)
	switch {
	case len(plan.Steps) == 0:
		return a.Printf(result, "%s needs no migration: it has version %d\n", result.Store, plan.From)
	case !dryRun:
		return a.Printf(result, "migrated %s from version %d to %d\n", result.Store, plan.From, plan.To)
	}
	return a.Print(result, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "-- would migrate %s from version %d to %d\n", result.Store, plan.From, plan.To)
		for _, step := range plan.Steps {
			if err == nil {
				_, err = fmt.Fprintf(w, "\n-- %s\n%s", step.Name, step.SQL)
			}
		}
		return err
	})
}
