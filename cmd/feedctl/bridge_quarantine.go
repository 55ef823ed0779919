package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/couchdb"
	bridgekinto "github.com/feedctl/feedctl/bridge/kinto"
	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/storage"
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
	store, _, err := a.OpenNamed(ctx, arg)
	if err != nil {
		return err
	}
	at, err := a.Parse(arg)
	if err != nil {
		return err
	}
	if source.URL != "" {
		return retryQuarantined(ctx, a, source, at, store)
	}
	empty := true
	for thing, err := range bridge.List(ctx, store, at.Name) {
		if err != nil {
			return err
		}
		empty = false
		if err := a.Print(thing, func(w io.Writer) error { return writeQuarantined(w, thing) }); err != nil {
			return err
		}
	}
	if empty { // a feed all of whose documents are in quarantine does not exist yet
		_, err = chain.NewReader(store, at.Name).Newest(ctx)
	}
	return err
}

// writeQuarantined writes one line: there may be too many for a table.
func writeQuarantined(w io.Writer, thing bridge.Quarantined) error {
	what := fmt.Sprintf("%q %s", thing.ID, thing.Rev)
	if thing.ID == "" {
		what = fmt.Sprintf("row %.100q", thing.Row)
	}
	_, err := fmt.Fprintf(w, "%s  %s: %s\n", human.Time(thing.Since), what, human.Printable(thing.Reason))
	return err
}

// retryQuarantined publishes what can be published now.
func retryQuarantined(ctx context.Context, a *app.App, source *task.CouchSource, at locate.Stored, store storage.Store) error {
	b, err := openRetrier(ctx, a, source, at, store)
	if err != nil {
		return err
	}
	a.AtEnd(b.Close, "bridge")
	report, err := b.Retry(ctx)
	if err != nil {
		return task.HintSource(err)
	}
	return a.Printf(report, "published %s; %s taken out of quarantine, %s left\n", human.Plural(report.Published, "entity", "entities"),
		human.Count(report.Removed), human.Count(report.Left))
}

// A retrier is a bridge that publishes what is in quarantine.
type retrier interface {
	Retry(ctx context.Context) (bridge.RetryReport, error)
	Close() error
}

// openRetrier opens the bridge of a source: of a collection of Kinto, if its URL is one, or of a
// database of CouchDB.
func openRetrier(ctx context.Context, a *app.App, source *task.CouchSource, at locate.Stored, store storage.Store) (retrier, error) {
	if address, err := kinto.ParseURL(source.URL); err == nil && address.Collection != "" {
		collection := task.KintoSource{URL: source.URL, Credential: source.Credential, Index: source.Index, MaxRecord: source.MaxDocument}
		config, err := collection.Config(&a.Env, at, store, bridgekinto.Config{})
		if err != nil {
			return nil, err
		}
		return bridgekinto.Open(ctx, config)
	}
	config, err := source.Config(&a.Env, at, store, couchdb.Config{})
	if err != nil {
		return nil, err
	}
	return couchdb.Open(ctx, config)
}
