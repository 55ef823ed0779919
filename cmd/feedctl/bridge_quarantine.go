package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
)

func newBridgeQuarantine(a *app.App) *cobra.Command {
	var source task.CouchSource
	c := &cobra.Command{
		Use:   "quarantine FEED|STORE#FEED",
		Short: "List or retry what a bridge could not publish",
		Long: `Quarantine lists the documents and rows that a bridge could not publish to FEED, and why.

With --retry URL it requests these documents again from the database or Kinto collection
at URL and publishes those that can be published now, with the filter and options of the
run that found them. Entries are removed if the document would no longer be published. A
bridge may run at the same time.` + sourceHelp + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl bridge quarantine zones
  feedctl bridge quarantine zones --retry https://couch.example.org/zones`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runBridgeQuarantine(c.Context(), a, &source, args[0])
		},
	}
	source.Flags(c.Flags())
	c.Flags().StringVar(&source.URL, "retry", "", "publish the entries again from the database or collection at this `URL`")
	return c
}

func runBridgeQuarantine(ctx context.Context, a *app.App, source *task.CouchSource, arg string) error {
	if source.URL != "" {
		return retryQuarantined(ctx, a, source, arg)
	}
	store, name, err := a.OpenNamed(ctx, arg)
	if err != nil {
		return err
	}
	empty := true
	for thing, err := range bridge.List(ctx, store, name) {
		if err != nil {
			return err
		}
		empty = false
		if err := a.Print(thing, func(w io.Writer) error { return writeQuarantined(w, thing) }); err != nil {
			return err
		}
	}
	if empty { // a feed all of whose documents are in quarantine does not exist yet
		_, err = chain.NewReader(store, name).Newest(ctx)
	}
	return err
}

// writeQuarantined writes an entry as one line: there may be too many entries for a table.
func writeQuarantined(w io.Writer, thing bridge.Quarantined) error {
	what := fmt.Sprintf("%q %s", thing.ID, thing.Rev)
	if thing.ID == "" {
		what = fmt.Sprintf("row %.100q", thing.Row)
	}
	_, err := fmt.Fprintf(w, "%s  %s: %s\n", human.Time(thing.Since), what, human.Printable(thing.Reason))
	return err
}

// retryQuarantined publishes what can be published now.
func retryQuarantined(ctx context.Context, a *app.App, source *task.CouchSource, feed string) error {
	t := task.RetryQuarantined{Feed: feed, Source: *source}
	report, err := t.Run(ctx, &a.Env)
	if err != nil {
		return err
	}
	return a.Printf(report, "published %s; %s taken out of quarantine, %s left\n", human.Plural(report.Published, "entity", "entities"),
		human.Count(report.Removed), human.Count(report.Left))
}
