package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/repair"
)

func newRepair(a *app) *cobra.Command {
	apply := false
	c := &cobra.Command{
		Use:   "repair FEED|STORE#FEED",
		Short: "Bring back a feed that lost objects in the store",
		Long: `Repair looks for pages of FEED in the store that are missing or torn, and prints what it
would do. With --apply it does it. A feed that lacks nothing is left as it is.

Where the body of a page is left (in a directory, a page is two files), its metadata is
written again; the digest in the next page proves it right. A page that is torn, as by a
copy made while others wrote, is cut back to its last whole entity. As a last resort the
feed ends with the last page that is whole: the pages beyond are moved aside, below
feeds/FEED/aside/ in the store, and what they hold is listed. If the oldest pages are
missing, the feed begins with the next one, as if they had been pruned.

Better than any of this is the missing object from a backup: look at the output without
--apply first. Stop all that publishes to the feed. Consumers that have read what is moved
aside will find a gap. A repair that was interrupted is completed by the next one. The
bytes of pages that the feed keeps are not read: see "feedctl verify".` +
			exitStatus(exitOK, exitError, exitUsage, exitNotFound, exitInvalid, exitInterrupted) + `

Without --apply the status is 5 if there is something to repair.`,
		Example: `  feedctl repair zones
  feedctl repair zones --apply
  feedctl repair s3://bucket/prefix#zones --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runRepair(c.Context(), a, apply, args[0])
		},
	}
	c.Flags().BoolVar(&apply, "apply", false, "change the store, instead of telling what would be done")
	return c
}

func runRepair(ctx context.Context, a *app, apply bool, arg string) (err error) {
	store, name, err := a.openNamed(ctx, arg)
	if err != nil {
		return err
	}
	defer closing(&err, store.Close, "store")
	report, err := repair.Feed(ctx, store, name, repair.Config{Apply: apply})
	if err != nil {
		return err
	}
	err = a.print(report, func(w io.Writer) error {
		_, err := io.WriteString(w, describeRepair(report))
		return err
	})
	if err == nil && !apply && len(report.Steps) > 0 {
		return &hinted{fmt.Errorf("repair %s: %w", arg, errNeedsRepair), "the missing objects from a backup, or --apply"}
	}
	return err
}

// describeRepair returns what a report says, in lines.
func describeRepair(r *repair.Report) string {
	var b strings.Builder
	for _, s := range r.Steps {
		switch s.Action {
		case repair.Restore:
			proof := ""
			if s.Proven {
				proof = ", which the digest in the next page proves"
			}
			fmt.Fprintf(&b, "restore page %d with %s%s\n", s.Page, plural(int64(s.Entities), "entity", "entities"), proof)
		case repair.RaiseFloor:
			fmt.Fprintf(&b, "make page %d the oldest one\n", s.Page)
		case repair.MoveAside:
			if s.To == "" {
				fmt.Fprintf(&b, "remove what is left of page %d, which has no body\n", s.Page)
			} else {
				fmt.Fprintf(&b, "move page %d to %s\n", s.Page, s.To)
			}
		}
	}
	for _, l := range r.Lost {
		b.WriteString(describeLoss(l))
	}
	switch {
	case len(r.Steps) == 0:
		fmt.Fprintf(&b, "%s: pages %d to %d: nothing to repair\n", r.Feed, r.Oldest, r.Newest)
	case r.Newest == 0:
		fmt.Fprintf(&b, "%s: no page is left\n", r.Feed)
	default:
		verb := "would have"
		if r.Applied {
			verb = "has"
		}
		fmt.Fprintf(&b, "%s %s pages %d to %d\n", r.Feed, verb, r.Oldest, r.Newest)
	}
	return b.String()
}

func describeLoss(l repair.Loss) string {
	var b strings.Builder
	fmt.Fprintf(&b, "lost of page %d: ", l.Page)
	if l.Entities < 0 {
		b.WriteString("all entities")
	} else {
		b.WriteString(plural(int64(l.Entities), "entity", "entities"))
	}
	if !l.First.IsZero() || !l.Last.IsZero() {
		fmt.Fprintf(&b, " of %s to %s", formatBound(l.First), formatBound(l.Last))
	}
	switch {
	case l.FirstID != "":
		fmt.Fprintf(&b, ", Content-ID %s to %s", printable(l.FirstID), printable(l.LastID))
	case l.LastID != "":
		fmt.Fprintf(&b, ", Content-ID up to %s", printable(l.LastID))
	}
	if l.Aside != "" {
		b.WriteString("; kept aside")
	}
	return b.String() + "\n"
}

// formatBound returns a time, or that it is not known.
func formatBound(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format(time.RFC3339)
}
