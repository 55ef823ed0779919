package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// sweepAge is how long ago something must have been left behind in the store to be
// removed: no command is still writing it.
const sweepAge = 24 * time.Hour

type pruneFlags struct {
	producer.PrunePolicy
	beforeSnapshot string
}

func newPrune(a *app.App) *cobra.Command {
	var f pruneFlags
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
			return runPrune(c.Context(), a, &f, args[0])
		},
	}
	flags := c.Flags()
	units.DurationVar(flags, &f.KeepAge, "keep-age", 0, "keep pages with an entity younger than this `DURATION`, as 30d")
	flags.Int64Var(&f.KeepPages, "keep-pages", 0, "keep this `NUMBER` of newest pages")
	flags.StringVar(&f.beforeSnapshot, "before-snapshot", "", "keep what is not in the snapshot `NAME` or NAME/ID")
	flags.BoolVar(&f.DryRun, "dry-run", false, "delete nothing, print what would be deleted")
	c.MarkFlagsOneRequired("keep-age", "keep-pages", "before-snapshot")
	return c
}

func runPrune(ctx context.Context, a *app.App, f *pruneFlags, arg string) error {
	if f.KeepAge < 0 || f.KeepPages < 0 {
		return exit.Usagef("--keep-age and --keep-pages must not be negative")
	}
	store, name, err := a.OpenNamed(ctx, arg)
	if err != nil {
		return err
	}
	if f.beforeSnapshot != "" {
		if f.Before, f.Entry, err = snapshots.FeedPage(ctx, store, name, f.beforeSnapshot); err != nil {
			return err
		}
	}
	report, err := producer.Prune(ctx, store, name, f.PrunePolicy)
	if err != nil {
		return err
	}
	result := pruneJSON{Feed: name, DryRun: f.DryRun, PruneReport: report, Reason: f.kept(report)}
	if sweeper, ok := storage.As[storage.Sweeper](store); ok && !f.DryRun {
		if result.BytesSwept, err = sweeper.Sweep(ctx, sweepAge); err != nil {
			return err
		}
	}
	verb, left, reason, swept := deletedVerb(f.DryRun), fmt.Sprintf("pages %d to %d remain", report.Floor, report.Newest), "", ""
	if report.Floor == report.Newest {
		left = fmt.Sprintf("page %d remains", report.Newest)
	}
	if result.Reason != "" {
		reason = ": " + result.Reason
	}
	if result.BytesSwept > 0 {
		swept = fmt.Sprintf("removed %s that interrupted writes had left in the store\n", human.Bytes(result.BytesSwept))
	}
	return a.Printf(result, "%s %s (%s) of %s; %s%s\n%s", verb, human.Plural(report.Pages, "page", "pages"), human.Bytes(report.Bytes), name, left, reason, swept)
}

// kept says why no more pages are deleted; "" if that is plain.
func (f *pruneFlags) kept(report producer.PruneReport) string {
	switch {
	case report.Limited:
		return "more would go, but was written in the last hour"
	case report.Pages > 0:
		return ""
	case f.beforeSnapshot != "" && report.Floor >= f.Before-1:
		return fmt.Sprintf("snapshot %s was made at page %d, and one older page stays for consumers that know only the specification", f.beforeSnapshot, f.Before)
	case f.KeepAge > 0:
		return fmt.Sprintf("all older pages have an entity of the last %v", (*units.Duration)(&f.KeepAge))
	case f.KeepPages > 0:
		return fmt.Sprintf("there are no more than %s pages", human.Count(f.KeepPages))
	}
	return ""
}
