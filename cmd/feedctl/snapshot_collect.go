package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/snapshot/snapshots"
)

func newSnapshotCollect(a *app.App) *cobra.Command {
	var minAge time.Duration
	c := &cobra.Command{
		Use:   "collect NAME|STORE#NAME",
		Short: "Delete the remains of interrupted snapshots",
		Long: `Collect deletes pages in the store that belong to no index of the snapshot NAME: the remains
of an interrupted "snapshot create" or "snapshot from-feed". Pages younger than --min-age
are kept, since they may belong to a running command.` + exit.Help(),
		Example: `  feedctl snapshot collect zones --min-age 48h`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runSnapshotCollect(c.Context(), a, args[0], minAge)
		},
	}
	units.DurationVar(c.Flags(), &minAge, "min-age", 24*time.Hour, "keep pages written within the last `DURATION`")
	return c
}

func runSnapshotCollect(ctx context.Context, a *app.App, arg string, minAge time.Duration) error {
	store, name, err := a.OpenNamed(ctx, arg)
	if err != nil {
		return err
	}
	n, err := snapshots.Collect(ctx, store, name, minAge)
	if err != nil {
		return err
	}
	return a.Printf(collectedJSON{Name: name, PagesDeleted: int64(n)}, "deleted %s\n", human.Plural(int64(n), "page", "pages"))
}
