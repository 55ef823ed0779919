package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/suggest"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

func newDelete(a *app.App) *cobra.Command {
	var dryRun, yes bool
	c := &cobra.Command{
		Use:   "delete FEED|STORE#FEED",
		Short: "Delete a feed",
		Long: `Delete removes FEED from the store: its pages, those that "feedctl repair" has moved aside,
its state digests, and the quarantine of a bridge. It asks for confirmation; without a
terminal it needs --yes.
Snapshots are kept: see "feedctl snapshot delete". If a deletion is interrupted, run it
again; until then the feed accepts no entities.

What is published later begins a new feed of the same name, whose page numbers continue
after those of the old one. First stop producers of versions without this command: they do
not notice at once that a feed is being deleted.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl delete zones --dry-run
  feedctl delete s3://bucket/prefix#zones --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runDelete(c.Context(), a, dryRun, yes, args[0])
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "delete nothing, print what would be deleted")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return c
}

func runDelete(ctx context.Context, a *app.App, dryRun, yes bool, arg string) error {
	store, name, err := a.OpenNamed(ctx, arg)
	if err != nil {
		return err
	}
	if !dryRun && !yes {
		if err := confirmDelete(ctx, a, store, name); err != nil {
			return err
		}
	}
	report, err := producer.Delete(ctx, store, name, dryRun)
	if err != nil {
		return suggestFeed(ctx, store, name, err)
	}
	return a.Printf(deletedFeedJSON{name, dryRun, report}, "%s feed %s: %s and %s (%s)\n", deletedVerb(dryRun), name, human.Plural(report.Pages, "page", "pages"),
		human.Plural(report.Objects, "other object", "other objects"), human.Bytes(report.Bytes))
}

func deletedVerb(dryRun bool) string {
	if dryRun {
		return "would delete"
	}
	return "deleted"
}

// confirmDelete asks on the terminal whether to delete a feed. Without a terminal, it returns an
// error.
func confirmDelete(ctx context.Context, a *app.App, store storage.Store, name string) error {
	report, err := producer.Delete(ctx, store, name, true)
	if err != nil {
		return suggestFeed(ctx, store, name, err)
	}
	question := fmt.Sprintf("delete feed %s with %s (%s)?", name, human.Plural(report.Pages, "page", "pages"), human.Bytes(report.Bytes))
	switch yes, err := a.Confirm(ctx, question); {
	case errors.Is(err, app.ErrNoTerminal):
		return exit.Usagef("delete feed %q: %w: use --yes, or --dry-run to see what would be deleted", name, err)
	case err != nil:
		return fmt.Errorf("delete feed %q: nothing was deleted: %w", name, err)
	case !yes:
		return fmt.Errorf("delete feed %q: not confirmed, nothing was deleted", name)
	}
	return nil
}

// suggestFeed adds a similar name to an error about a feed that does not exist.
func suggestFeed(ctx context.Context, store storage.Store, name string, err error) error {
	if !errors.Is(err, chain.ErrNoFeed) {
		return err
	}
	if question := suggest.DidYouMean(name, locate.Feeds(ctx, store), ""); question != "" {
		return fmt.Errorf("%w%s", err, question)
	}
	return err
}
