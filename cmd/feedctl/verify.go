package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/against"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
)

func newVerify(a *app.App) *cobra.Command {
	var t task.Verify
	c := &cobra.Command{
		Use:   "verify URL|FEED|STORE#FEED",
		Short: "Check a feed or snapshot against the specification, or its source",
		Long: `Verify reads the whole feed at URL, or FEED in the store, and prints all violations of the
specification: headers, order of times, links, loops, duplicate Content-IDs. In a store it
also checks the chain, the digests of the pages, and that no page is missing.

A snapshot is checked if the response for URL is JSON, or with --index; then a name is that
of a snapshot in the store. With --state FILE, verify also reports pages that have changed
since the last run with the same FILE, other than by growing at the end. With --json it
prints a report, which package verify documents.

With --against SOURCE, verify then compares the state of the feed, which is what a
consumer that read all of it has, with the database that the feed was made from, or with a
copy that consume made: the keys and their versions, and with --deep the bodies, as JSON
values. If the source changes meanwhile, verify compares again. SOURCE is one of

  couchdb:URL   of a database, for a feed from a bridge without --conflicts. The winning
                revisions are compared, without design documents; a revision identifies the
                body. What the bridge's filter excludes counts as missing. For a copy, see
                "feedctl reconcile".
  kinto:URL     of a collection. All pages of its list are of one state (If-Match). The
                versions of a copy are Content-IDs; a copy of records from a Kinto bridge
                has none and needs --deep.
  postgres:URL  of the database with the outbox ("outbox attach"): the rows of the table
                that is attached to the feed, whose bodies are always compared.

Verify prints the first thousand differences; with --json, they are the member "against" of
the report. The exit status is 5 if there are any. A feed without its oldest pages needs
--from snapshot. The credential for the source, in --against-credentials-file or
FEEDCTL_AGAINST_CREDENTIALS, is a line "basic USER:PASSWORD" or "bearer TOKEN".` + exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted),
		Example: `  feedctl verify https://data.example.org/feeds/zones
  feedctl verify zones --store file:/var/lib/feedctl
  feedctl verify s3://bucket/prefix#zones
  feedctl verify https://data.example.org/snapshots/zones --json
  feedctl verify --index zones
  feedctl verify zones --against couchdb:https://couch.example.org/zones
  feedctl verify products --against 'postgres://feedctl@db.example.org/shop'
  feedctl verify zones --against kinto:https://kinto.example.org/v1/buckets/dns/collections/zones`,
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

func printReport(a *app.App, report *task.Verified) error {
	var text strings.Builder
	for i := range report.Violations {
		fmt.Fprintln(&text, human.Printable(report.Violations[i].Error()))
	}
	found := "no violations"
	if n := len(report.Violations) + report.Omitted; n > 0 {
		found = human.Plural(int64(n), "violation", "violations")
	}
	fmt.Fprintf(&text, "%s: %s, %s, %s: %s\n", report.URL, human.Plural(int64(report.Pages), "page", "pages"),
		human.Plural(report.Entities, "entity", "entities"), human.Bytes(report.Bytes), found)
	if report.Against != nil {
		writeComparison(&text, report.Against)
	}
	return a.Printf(report, "%s", &text)
}

// writeComparison writes the differences between a feed and its source.
func writeComparison(text *strings.Builder, r *against.Report) {
	for _, d := range r.Differences {
		fmt.Fprintln(text, human.Printable(d.String()))
	}
	found := "no differences"
	if n := r.Count(); n > 0 {
		found = human.Plural(n, "difference", "differences")
	}
	source := "source"
	if r.Copy {
		source = "copy"
	}
	fmt.Fprintf(text, "%s, the %s has %s at %s: %s\n", human.Plural(r.Keys, "key", "keys"), source, human.Plural(r.Items, "item", "items"), r.State, found)
	if r.Changing {
		fmt.Fprintf(text, "the %s changed during each comparison: differences may be changes that the feed did not have yet\n", source)
	}
}
