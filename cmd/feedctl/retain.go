package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/storage"
)

func newRetain(a *app.App) *cobra.Command {
	var t task.Retain
	var p task.RetentionPolicy
	var off, run bool
	c := &cobra.Command{
		Use:   "retain FEED|STORE#FEED",
		Short: "Set the policy for how much of a feed is kept, and carry it out",
		Long: `Retain stores a policy with FEED: --keep-age says how long entities are kept,
--snapshot-every how often a snapshot is made, and --keep-snapshots how many are kept. Flags
that are not given leave that part of the policy as it is. Without flags, retain prints the
policy and what it would do now; --off removes the policy, and the feed is then kept as a
whole.

Nothing is deleted until the policy is carried out: by --run, by a job of kind "retain", or
by "feedctl serve --maintain", once an hour. Several of them may do so at the same time. In
this order:

  1. If the newest snapshot FEED is older than --snapshot-every and the feed has new
     entities, a snapshot is made, as "feedctl snapshot from-feed FEED" does.
  2. Pages whose entities are all older than --keep-age are pruned, if the newest snapshot
     has their state. The page of its position is kept, and so is one older page, for
     consumers that know only the specification. A page that was written in the last hour is
     never pruned.
  3. Snapshots beyond --keep-snapshots are deleted. One that was the newest within the last
     day is kept, with the pages that follow it, since a consumer may be reading it.

A consumer whose position was pruned meets a gap. The server tells it how long entities are
kept, and where the newest snapshot is.` + exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted),
		Example: `  feedctl retain zones --keep-age 30d --snapshot-every 1d --keep-snapshots 3
  feedctl retain zones
  feedctl retain zones --run --tables /var/lib/feedctl/tables
  feedctl retain s3://bucket/data#zones --off`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			store, name, err := a.OpenNamed(c.Context(), args[0])
			if err != nil {
				return err
			}
			if off {
				return dropRetention(c.Context(), a, store, name)
			}
			if err := p.Store(c.Context(), store, name, c.Flags().Changed); err != nil {
				return err
			}
			t.Feed, t.DryRun = args[0], !run
			a.Progress("snapshot", t.Status)
			done, err := t.Run(c.Context(), &a.Env)
			if err != nil {
				return err
			}
			return printRetained(a, done)
		},
	}
	flags := c.Flags()
	flags.BoolVar(&off, "off", false, "remove the policy")
	flags.BoolVar(&run, "run", false, "carry out the policy now")
	t.Flags(flags)
	for _, name := range append(p.Flags(flags), "run") {
		c.MarkFlagsMutuallyExclusive("off", name)
	}
	return c
}

// retainOffJSON is printed by "retain --off".
type retainOffJSON struct {
	Feed string `json:"feed"`
}

func dropRetention(ctx context.Context, a *app.App, store storage.Store, name string) error {
	err := retention.Remove(ctx, store, name)
	if errors.Is(err, retention.ErrNone) {
		err = exit.Errorf(exit.NotFound, "%w", err)
	}
	if err != nil {
		return err
	}
	return a.Printf(retainOffJSON{name}, "feed %s is kept as a whole\n", name)
}

func printRetained(a *app.App, done *task.Retained) error {
	made, verb, p := "no snapshot is due", deletedVerb(done.DryRun), done.Policy
	switch {
	case done.Snapshot && done.DryRun:
		made = "would make a snapshot"
	case done.Snapshot:
		made = "made a snapshot"
	}
	return a.Printf(done, "feed %s keeps entities for %s and %s, one every %s\n%s; %s %s (%s), leaving %d to %d; %s %s, leaving %d\n",
		done.Feed, human.Duration(p.KeepAge), human.Plural(int64(p.KeepSnapshots), "snapshot", "snapshots"), human.Duration(p.SnapshotEvery), made,
		verb, human.Plural(done.Pages, "page", "pages"), human.Bytes(done.Bytes), done.Floor, done.Newest,
		verb, human.Plural(int64(len(done.Deleted)), "snapshot", "snapshots"), done.Kept)
}
