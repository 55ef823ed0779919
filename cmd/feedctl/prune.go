package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
)

func newPrune(a *app.App) *cobra.Command {
	var t task.Prune
	c := &cobra.Command{
		Use:   "prune FEED|STORE#FEED",
		Short: "Delete the oldest pages of a feed",
		Long: `Prune deletes the oldest pages of FEED in the store. At least one of --keep-age,
--keep-pages and --before-snapshot is required; with several, a page is deleted only if all
of them allow it. The newest page is never deleted, nor is a page that was written in the
last hour: a producer may still be repeating a publish. Prune also removes remains of
interrupted writes from the store when they are a day old.

With --before-snapshot NAME a page is deleted only if the newest snapshot NAME (or NAME/ID)
includes its entities. One page that is strictly older than the snapshot is kept for
consumers that know only the specification. A consumer whose position is on a deleted page
meets a gap.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl prune events --keep-age 30d --dry-run
  feedctl snapshot from-feed zones && feedctl prune zones --before-snapshot zones --keep-age 7d`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t.Feed = args[0]
			return runPrune(c.Context(), a, &t)
		},
	}
	t.Flags(c.Flags())
	c.MarkFlagsOneRequired("keep-age", "keep-pages", "before-snapshot")
	return c
}

func runPrune(ctx context.Context, a *app.App, t *task.Prune) error {
	done, err := t.Run(ctx, &a.Env)
	if err != nil {
		return err
	}
	left, reason, swept := fmt.Sprintf("pages %d to %d remain", done.Floor, done.Newest), "", ""
	if done.Floor == done.Newest {
		left = fmt.Sprintf("page %d remains", done.Newest)
	}
	if done.Reason != "" {
		reason = ": " + done.Reason
	}
	if done.BytesSwept > 0 {
		swept = fmt.Sprintf("removed %s that interrupted writes had left in the store\n", human.Bytes(done.BytesSwept))
	}
	return a.Printf(done, "%s %s (%s) of %s; %s%s\n%s", deletedVerb(done.DryRun), human.Plural(done.Pages, "page", "pages"), human.Bytes(done.Bytes), done.Feed, left, reason, swept)
}
