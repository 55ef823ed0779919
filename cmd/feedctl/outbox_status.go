package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/outbox"
)

func newOutboxStatus(a *app.App) *cobra.Command {
	var f task.Outbox
	var feeds []string
	c := &cobra.Command{
		Use:   "status --db URL",
		Short: "Show what waits in the outbox, for how long, and who moves it",
		Long: `Status shows for each feed how many rows of the outbox are committed and not moved yet, how
long the oldest of them has waited, how many are in quarantine, and which runner works on
it. It also shows the oldest transaction that has written to the outbox and has been open
for more than a second, captured tables that were dropped, and partitions that were added
to captured tables later.` + exit.Help(),
		Example: `  feedctl outbox status --db postgres://feedctl@db.example.org/shop
  feedctl outbox status --db postgres://feedctl@db.example.org/shop --feed orders --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runOutboxStatus(c.Context(), a, &f, feeds)
		},
	}
	addOutbox(c, &f)
	c.Flags().StringSliceVar(&feeds, "feed", nil, "only this `FEED`; may be repeated")
	return c
}

func runOutboxStatus(ctx context.Context, a *app.App, f *task.Outbox, feeds []string) error {
	for _, name := range feeds {
		if err := layout.CheckName(name); err != nil {
			return err
		}
	}
	db, err := f.Open(ctx, &a.Env, task.Access{})
	if err != nil {
		return err
	}
	s, err := db.Status(ctx, feeds...)
	if err != nil {
		return err
	}
	return a.Print(s, func(w io.Writer) error { return printOutboxStatus(w, s) })
}

func printOutboxStatus(w io.Writer, s outbox.Status) error {
	rows := make([][]string, len(s.Feeds))
	for n, f := range s.Feeds {
		lag := human.Duration(time.Duration(f.LagSeconds * float64(time.Second)))
		rows[n] = []string{f.Feed, human.Count(f.Waiting), human.Bytes(f.Bytes), lag, human.Count(f.Quarantined), cmp.Or(f.Runner, "-")}
	}
	err := human.WriteTable(w, []string{"FEED", "WAITING", "BYTES", "LAG", "QUARANTINED", "RUNNER"}, rows)
	for _, f := range s.Feeds {
		if err == nil && f.Table != nil {
			err = printCapturedTable(w, f.Feed, f.Table)
		}
	}
	if t := s.Transaction; t != nil && err == nil {
		who := fmt.Sprintf("process %d of the server, %s", t.PID, t.State)
		if t.Prepared != "" {
			who = "prepared as " + t.Prepared
		}
		_, err = fmt.Fprintf(w, "The rows of a transaction wait until it ends: open for %s, %s, user %s, application %q\n",
			human.Duration(time.Since(t.Since)), who, t.User, t.Application)
	}
	return err
}

// printCapturedTable prints what to do about a table.
func printCapturedTable(w io.Writer, feed string, t *outbox.CapturedTable) error {
	if t.Gone {
		_, err := fmt.Fprintf(w, "The table of %s was dropped (%s): \"feedctl outbox detach --feed %[1]s\" removes what is left of its capture\n", feed, t.Name)
		return err
	}
	for _, partition := range t.Uncovered {
		_, err := fmt.Fprintf(w, "A TRUNCATE of %s alone is not published to %s: the partition was added later; attach %s again as before\n", partition, feed, t.Name)
		if err != nil {
			return err
		}
	}
	return nil
}
