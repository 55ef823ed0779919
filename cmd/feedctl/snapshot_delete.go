package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

func newSnapshotDelete(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME|STORE#NAME ID",
		Short: "Delete a snapshot",
		Long: `Delete removes the snapshot ID of NAME from the store, its index first. A consumer that is
reading it gets an error, not an incomplete snapshot.` + exit.Help(exit.NotFound),
		Example: `  feedctl snapshot delete zones 20260102T030405.678Z-c5xnp2qa`,
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return runSnapshotDelete(c.Context(), a, args[0], args[1])
		},
	}
}

func runSnapshotDelete(ctx context.Context, a *app.App, arg, id string) error {
	if err := layout.CheckName(id); err != nil {
		return err
	}
	at, err := a.Parse(arg)
	if err != nil {
		return err
	}
	store, err := a.OpenStore(ctx, at.Store, task.Access{})
	if err != nil {
		return err
	}
	err = snapshots.Delete(ctx, store, at.Name, id)
	if errors.Is(err, storage.ErrNotFound) { // the error of the store does not mention snapshots
		return exit.WithHint(
			fmt.Errorf("delete snapshot %s of %s: %w: no snapshot has this ID", id, at.Identity(), storage.ErrNotFound),
			"\"feedctl snapshot list\", which shows the IDs",
		)
	}
	if err != nil {
		return err
	}
	return a.Printf(deletedJSON{Name: at.Name, ID: id}, "deleted snapshot %s/%s\n", at.Name, id)
}
