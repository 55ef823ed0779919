package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/verify"
)

func newVerify(a *app.App) *cobra.Command {
	var t task.Verify
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
			t.Feed = args[0]
			report, err := t.Run(c.Context(), &a.Env)
			if report == nil {
				return err
			}
			return cmp.Or(printReport(a, report), err)
		},
	}
	t.Flags(c.Flags())
	c.MarkFlagsMutuallyExclusive("index", "state")
	return c
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
