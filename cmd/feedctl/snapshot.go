package main

import (
	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
)

func newSnapshot(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Make, list and delete snapshots",
		Long: `A snapshot holds the full state of a set of things at one moment: an index that lists
pages. A new consumer that begins with a snapshot need not read a feed from its
beginning.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl snapshot from-feed zones
  feedctl snapshot list`,
		Args: cobra.NoArgs,
		RunE: app.NeedCommand,
	}
	c.AddCommand(
		newSnapshotCreate(a),
		newSnapshotFromFeed(a),
		newSnapshotList(a),
		newSnapshotDelete(a),
		newSnapshotCollect(a),
	)
	return c
}
