package main

import (
	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
)

func newSnapshotFromFeed(a *app.App) *cobra.Command {
	var t task.SnapshotFromFeed
	c := &cobra.Command{
		Use:   "from-feed FEED|STORE#FEED",
		Short: "Make a snapshot of the current state of a feed",
		Long: `From-feed reads FEED in the store from its beginning and makes a snapshot of the last state
of each thing that was not deleted. The snapshot records the last entity that it includes,
so a consumer that starts with it continues in the feed without loss and without repetition,
whatever is published meanwhile.

The pages before that entity can then be pruned ("feedctl prune --before-snapshot"). If the
feed has been pruned, from-feed starts with the newest snapshot of the same name, so keep
that one.

For a feed of "feedctl bridge couchdb --conflicts --revs", the snapshot has every leaf
revision of each document, including tombstones, unless --key is given.

The state is in a temporary file, not in memory. With --state-dir it is kept, and the next
run reads only new entities.` + publicHelp + exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted),
		Example: `  feedctl snapshot from-feed zones
  feedctl snapshot from-feed events --name people --key /user/id
  feedctl snapshot from-feed s3://bucket/data#zones --public-url https://cdn.example.org/data
  feedctl snapshot from-feed s3://bucket/data#zones --presign 24h`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t.Feed = args[0]
			a.Progress("snapshot", t.Status)
			made, err := t.Run(c.Context(), &a.Env)
			if err != nil {
				return err
			}
			return printSnapshot(a, made)
		},
	}
	t.Flags(c.Flags())
	excludePublic(c)
	return c
}
