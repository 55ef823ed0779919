package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/verify"
)

type verifyFlags struct {
	client task.Client
	index  bool
	state  string
}

func newVerify(a *app.App) *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify URL|FEED|STORE#FEED",
		Short: "Check a feed or snapshot against the specification",
		Long: `Verify reads the whole feed at URL, or FEED in the store, and prints all violations of the
specification: headers, order of times, links, loops, duplicate Content-IDs. In a store it
also checks the chain, the digests of the pages, and that no page is missing.

A snapshot is checked if the response for URL is JSON, or with --index, with which a name is
that of a snapshot in the store. With --state FILE, verify also reports pages that have
changed since the last run with the same FILE, other than by growing at the end. With --json
it prints a report, which package verify documents.` + exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted),
		Example: `  feedctl verify https://data.example.org/feeds/zones
  feedctl verify zones --store file:/var/lib/feedctl
  feedctl verify s3://bucket/prefix#zones
  feedctl verify https://data.example.org/snapshots/zones --json
  feedctl verify --index zones`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runVerify(c.Context(), a, &f, args[0])
		},
	}
	flags := c.Flags()
	flags.BoolVar(&f.index, "index", false, "check a snapshot, whatever the server says it is")
	flags.StringVar(&f.state, "state", "", "`FILE` that keeps what the pages were, from one run to the next; not for snapshots and stores")
	f.client.RequestFlags(flags)
	f.client.OriginFlags(flags)
	c.MarkFlagsMutuallyExclusive("index", "state")
	return c
}

func runVerify(ctx context.Context, a *app.App, f *verifyFlags, arg string) error {
	path := layout.FeedPath
	if f.index {
		path = layout.SnapshotPath
	}
	at, err := f.client.Locate(ctx, &a.Env, arg, path, task.Access{})
	if err != nil {
		return err
	}
	if f.state != "" && at.Store != nil {
		return exit.Usagef("--state is for feeds on a server: what is in the store has digests")
	}
	config := verify.Config{
		HTTPClient:   at.Config.HTTPClient,
		Credentials:  verify.Credentials(at.Config.Credentials),
		Header:       at.Config.Header,
		AllowOrigins: at.Config.AllowOrigins,
		KeepState:    f.state != "",
	}
	if config.Since, err = verify.ReadState(f.state); err != nil {
		return err
	}
	index := f.index || at.Store == nil && verify.IsIndex(ctx, at.URL, config)
	if index && f.state != "" {
		return exit.Usagef("--state is for feeds: there is a snapshot at %s, which never changes", at.URL)
	}
	report, err := check(ctx, at, index, config)
	if err != nil {
		return task.Suggest(ctx, at, err)
	}
	if at.Store != nil {
		report.URL = at.Title
	}
	if err := printReport(a, report); err != nil {
		return err
	}
	if n := len(report.Violations) + report.Omitted; n > 0 {
		return exit.Errorf(exit.Invalid, "verify %s: the specification is broken: %s", arg, human.Plural(int64(n), "violation", "violations"))
	}
	return verify.WriteState(f.state, report.State)
}

func check(ctx context.Context, at *locate.Location, index bool, config verify.Config) (*verify.Report, error) {
	switch {
	case index && at.Store != nil:
		return verify.StoreSnapshot(ctx, at.Store, at.Name, at.Base())
	case index:
		return verify.Snapshot(ctx, at.URL, config)
	case at.Store != nil:
		return verify.Store(ctx, at.Store, at.Name, at.Base())
	}
	return verify.Feed(ctx, at.URL, config)
}

func printReport(a *app.App, report *verify.Report) error {
	var text strings.Builder
	for i := range report.Violations {
		fmt.Fprintln(&text, human.Printable(report.Violations[i].Error()))
	}
	found := "no violations"
	if n := len(report.Violations) + report.Omitted; n > 0 {
		found = human.Plural(int64(n), "violation", "violations")
	}
	return a.Printf(report, "%s%s: %s, %s, %s: %s\n", &text, report.URL, human.Plural(int64(report.Pages), "page", "pages"),
		human.Plural(report.Entities, "entity", "entities"), human.Bytes(report.Bytes), found)
}
