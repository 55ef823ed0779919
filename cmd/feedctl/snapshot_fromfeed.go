package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/bridge/couchdb"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot/fold"
)

type snapshotFromFeedFlags struct {
	name    string
	key     string
	tempDir string
	public  publicFlags
}

func newSnapshotFromFeed(a *app.App) *cobra.Command {
	var f snapshotFromFeedFlags
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

The state is kept in a temporary file, not in memory.` + publicHelp + exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted),
		Example: `  feedctl snapshot from-feed zones
  feedctl snapshot from-feed events --name people --key /user/id
  feedctl snapshot from-feed s3://bucket/data#zones --public-url https://cdn.example.org/data
  feedctl snapshot from-feed s3://bucket/data#zones --presign 24h`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runSnapshotFromFeed(c.Context(), a, &f, args[0])
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.name, "name", "", "`NAME` of the snapshot (default: that of the feed)")
	flags.StringVar(&f.key, "key", "", "JSON `POINTER` into the body to the key of the thing that an entity is about; for feeds without Content-Location")
	flags.StringVar(&f.tempDir, "temp-dir", "", "`DIR` for the temporary file (default: the system's)")
	f.public.add(c)
	return c
}

func runSnapshotFromFeed(ctx context.Context, a *app.App, f *snapshotFromFeedFlags, arg string) (err error) {
	at, err := a.Parse(arg)
	if err != nil {
		return err
	}
	name := cmp.Or(f.name, at.Name)
	if err := layout.CheckName(name); err != nil {
		return err
	}
	if err := task.CheckPointer("--key", f.key); err != nil {
		return err
	}
	if err := f.public.check(); err != nil {
		return err
	}
	store, err := a.OpenStore(ctx, at.Store, task.Access{})
	if err != nil {
		return err
	}
	if err := f.public.checkStore(ctx, store, name); err != nil {
		return err
	}
	conflicts := false
	if f.key == "" { // else the user says what is a thing
		if conflicts, err = couchdb.HasConflicts(ctx, store, at.Name); err != nil {
			return fmt.Errorf("make snapshot of %s: %w", at.Identity(), err)
		}
	}
	var done task.Counted
	a.Progress("snapshot", done.Status)
	index, err := fold.Feed(ctx, store, at.Name, fold.Config{
		Name:       name,
		KeyPointer: f.key,
		Version:    versionsOf(conflicts),
		PublicURL:  f.public.PublicURL,
		Presign:    f.public.Presign,
		TempDir:    f.tempDir,
		Progress:   done.Set,
		Logger:     a.Log,
	})
	if err != nil {
		return fmt.Errorf("make snapshot of %s: %w", at.Identity(), err)
	}
	return printSnapshot(ctx, a, store, name, index, &f.public)
}
