package main

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/snapshot/snapshots"
)

func newSnapshotList(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "list [NAME|STORE#NAME]",
		Short: "List the snapshots in the store",
		Long: `List prints the snapshots in the store, or those called NAME, oldest first. Other objects
among their indexes are named in the log.` +
			exit.Help(exit.NotFound, exit.Invalid),
		Example: `  feedctl snapshot list
  feedctl snapshot list zones --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runSnapshotList(c.Context(), a, args)
		},
	}
}

func runSnapshotList(ctx context.Context, a *app.App, args []string) (err error) {
	at := locate.Stored{Store: a.Store}
	if len(args) == 1 {
		if at, err = a.Parse(args[0]); err != nil {
			return err
		}
	}
	store, err := a.OpenStore(ctx, at.Store, task.Access{})
	if err != nil {
		return err
	}
	names := []string{at.Name}
	if at.Name == "" {
		names = nil
		for name, err := range snapshots.Names(ctx, store, "") {
			if err != nil {
				return err
			}
			names = append(names, name)
		}
	}
	list := []task.Snapshot{}
	for _, name := range names {
		ids, unknown, err := snapshots.List(ctx, store, name)
		if err != nil {
			return err
		}
		for _, key := range unknown {
			a.Log.Warn("skipping an object among the indexes of snapshots that is not an index", "key", key)
		}
		for _, id := range ids {
			index, err := snapshots.Read(ctx, store, name, id)
			if err != nil {
				return err
			}
			list = append(list, task.SnapshotOf(name, &index.Index, index.PageCount))
		}
	}
	return a.Print(list, func(w io.Writer) error {
		rows := make([][]string, len(list))
		for i, s := range list {
			feed := "-"
			if s.Feed != nil {
				feed = s.Feed.Page
			}
			rows[i] = []string{s.Name, s.ID, human.Time(s.CreatedAt), strconv.Itoa(s.Pages), formatEntities(s.Entities), feed}
		}
		return human.WriteTable(w, []string{"NAME", "ID", "CREATED", "PAGES", "ENTITIES", "FEED PAGE"}, rows)
	})
}

// formatEntities writes the number of entities, or "unknown".
func formatEntities(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return human.Count(*n)
}
