package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// sweepAge is how long ago something must have been left behind in the store to be
// removed: nobody is still at work on it then.
const sweepAge = 24 * time.Hour

type pruneFlags struct {
	keepAge        time.Duration
	keepPages      int64
	beforeSnapshot string
	dryRun         bool
}

func newPrune(a *app) *cobra.Command {
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
includes its entities: new consumers start with the snapshot. One page that is strictly
older than the snapshot's createdAt is kept, because consumers that know only the
specification need it. A consumer whose position is on a deleted page meets a gap.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl prune events --keep-age 30d --dry-run
  feedctl snapshot from-feed zones && feedctl prune zones --before-snapshot zones --keep-age 7d`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runPrune(c.Context(), a, &f, args[0])
		},
	}
	flags := c.Flags()
	units.DurationVar(flags, &f.keepAge, "keep-age", 0, "keep pages with an entity younger than this `DURATION`, as 30d")
	flags.Int64Var(&f.keepPages, "keep-pages", 0, "keep this `NUMBER` of newest pages")
	flags.StringVar(&f.beforeSnapshot, "before-snapshot", "", "keep what is not in the snapshot `NAME` or NAME/ID")
	flags.BoolVar(&f.dryRun, "dry-run", false, "delete nothing, print what would be deleted")
	c.MarkFlagsOneRequired("keep-age", "keep-pages", "before-snapshot")
	return c
}

func runPrune(ctx context.Context, a *app, f *pruneFlags, arg string) (err error) {
	if f.keepAge < 0 || f.keepPages < 0 {
		return exit.Usagef("--keep-age and --keep-pages must not be negative")
	}
	store, name, err := a.openNamed(ctx, arg)
	if err != nil {
		return err
	}
	policy := producer.PrunePolicy{KeepAge: f.keepAge, KeepPages: f.keepPages, DryRun: f.dryRun}
	if f.beforeSnapshot != "" {
		if policy.Before, policy.Entry, err = snapshots.FeedPage(ctx, store, name, f.beforeSnapshot); err != nil {
			return err
		}
	}
	report, err := producer.Prune(ctx, store, name, policy)
	if err != nil {
		return err
	}
	result := pruneJSON{Feed: name, DryRun: f.dryRun, OldestPage: report.Floor, NewestPage: report.Newest,
		PagesDeleted: report.Pages, BytesDeleted: report.Bytes, Limited: report.Limited, Reason: f.kept(policy, report)}
	if sweeper, ok := storage.As[storage.Sweeper](store); ok && !f.dryRun {
		if result.BytesSwept, err = sweeper.Sweep(ctx, sweepAge); err != nil {
			return err
		}
	}
	return a.print(result, func(w io.Writer) error {
		verb := "deleted"
		if f.dryRun {
			verb = "would delete"
		}
		left := fmt.Sprintf("pages %d to %d remain", report.Floor, report.Newest)
		if report.Floor == report.Newest {
			left = fmt.Sprintf("page %d remains", report.Newest)
		}
		_, err := fmt.Fprintf(w, "%s %s (%s) of %s; %s", verb,
			human.Plural(report.Pages, "page", "pages"), human.Bytes(report.Bytes), name, left)
		if err == nil && result.Reason != "" {
			_, err = fmt.Fprintf(w, ": %s", result.Reason)
		}
		if err == nil {
			_, err = fmt.Fprintln(w)
		}
		if err == nil && result.BytesSwept > 0 {
			_, err = fmt.Fprintf(w, "removed %s that interrupted writes had left in the store\n", human.Bytes(result.BytesSwept))
		}
		return err
	})
}

// kept says why no more pages go; "" if that is plain.
func (f *pruneFlags) kept(policy producer.PrunePolicy, report producer.PruneReport) string {
	switch {
	case report.Limited:
		return "more would go, but was written in the last hour"
	case report.Pages > 0:
		return ""
	case f.beforeSnapshot != "" && report.Floor >= policy.Before-1:
		return fmt.Sprintf("snapshot %s was made at page %d, and one older page stays for consumers that look for it", f.beforeSnapshot, policy.Before)
	case f.keepAge > 0:
		return fmt.Sprintf("no older page is without an entity of the last %v", (*units.Duration)(&f.keepAge))
	case f.keepPages > 0:
		return fmt.Sprintf("there are no more than %s pages", human.Count(f.keepPages))
	}
	return ""
}
