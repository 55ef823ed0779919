package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/storage"
)

func newNewEpoch(a *app.App) *cobra.Command {
	e := &epochs{app: a}
	all := false
	c := &cobra.Command{
		Use:   "new-epoch FEED|STORE#FEED...",
		Short: "Tell consumers that feeds were restored to an older state",
		Long: `New-epoch begins a new epoch of each FEED. Run it after the store was restored from a
backup, and before anything is published to it or served from it. Consumers that have read
nothing but what was restored continue; those that have read more end with exit status 4,
and say so. Without a new epoch, they may mistake what is published from now on for what
they had read.

With --all, the command does this for all feeds in the store, which may be given as STORE
instead of with --store; a restored store needs --all. With --json, the result for each
feed is a line with an object. If the command is interrupted, run it again: that is
harmless. Running servers notice the new epoch within a second.

A feed written by an older version gets an identity, and a feed without pages a new one.
Run new-epoch once on a copy that is to be published to on its own.` + exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted),
		Example: `  feedctl new-epoch --all --dry-run
  feedctl new-epoch --all 's3://bucket/prefix?region=eu-central-1'
  feedctl new-epoch zones`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 1:
				return exit.Usagef("new-epoch --all takes one STORE, not %d", len(args))
			case !all && len(args) == 0:
				return exit.Usagef("new-epoch needs a FEED, or --all")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if all {
				return e.store(c.Context(), storeOf(a, args))
			}
			return e.named(c.Context(), args)
		},
	}
	c.Flags().BoolVar(&e.dryRun, "dry-run", false, "change nothing, print what would be done")
	c.Flags().BoolVar(&all, "all", false, "begin a new epoch of all feeds in the store")
	return c
}

// epochs begins epochs of one feed after another.
type epochs struct {
	app    *app.App
	dryRun bool
}

func (e *epochs) named(ctx context.Context, args []string) error {
	for _, arg := range args {
		store, name, err := e.app.OpenNamed(ctx, arg)
		if err == nil {
			err = e.app.Close(suggestFeed(ctx, store, name, e.feed(ctx, store, name)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *epochs) store(ctx context.Context, rawURL string) error {
	store, err := e.app.OpenStore(ctx, rawURL, task.Access{})
	if err != nil {
		return err
	}
	for name, err := range chain.Feeds(ctx, store, "") {
		if err == nil {
			err = e.feed(ctx, store, name)
		}
		if err != nil && !errors.Is(err, chain.ErrNoFeed) { // only other objects of the feed are left
			return err
		}
	}
	return nil
}

func (e *epochs) feed(ctx context.Context, store storage.Store, name string) error {
	begin, verb := chain.BeginEpoch, "begins"
	if e.dryRun {
		begin, verb = chain.NextEpoch, "would begin"
	}
	id, err := begin(ctx, store, name)
	if err != nil {
		return fmt.Errorf("begin an epoch of feed %q: %w", name, err)
	}
	what := fmt.Sprintf("epoch %d %s after the entity of %s", id.Epoch.Number, verb, feed.FormatTime(id.Epoch.Last))
	if id.Epoch.Number == 0 {
		what = "it has no pages: a new identity " + verb
	}
	return e.app.Printf(newEpochJSON{name, e.dryRun, id.ID, id.Epoch.Number, id.Epoch.ID, id.Epoch.Last}, "feed %s: %s\n", name, what)
}
