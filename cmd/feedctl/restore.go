package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/task"
)

func newRestore(a *app.App) *cobra.Command {
	var t task.Restore
	address := ""
	c := &cobra.Command{
		Use:   "restore URL|FEED|STORE#FEED --at TIME|CONTENT-ID --into SINK",
		Short: "Restore the state of a feed at a point in time into a new sink",
		Long: `Restore writes the state of a feed at a point in time into a new sink: it begins with the
newest snapshot that is not later, if any, and applies the feed up to that point. The time
is that of the feed, in whole seconds (RFC 3339): all entities of that second are included.
With a Content-ID, exactly the entities up to that one are included.

The sink is one of those of "feedctl consume", and must be new: a table, database, directory
or file without data. If restore is interrupted or killed, run the same command
again to continue. Later, "feedctl consume" can bring the sink forward.

At the end the sink is compared with the feed, which is read a second time for that, into a
temporary file: the keys and bodies in sqlite: and postgres: (with --columns the
Content-IDs); in couchdb:, for a feed from "feedctl bridge couchdb --revs", all leaf
revisions of the documents with their members and the bytes of their attachments. Other
sinks are not compared, and the output says so. The exit status is 5 if there are
differences.

If the feed was pruned and no snapshot is old enough, or the feed begins later, nothing is
written, the exit status is 4, and the error names the oldest time that can be restored.

See docs/backup.md for backups of CouchDB.` + exit.Help(exit.NotFound, exit.Gap, exit.Invalid, exit.Quarantine, exit.Interrupted),
		Example: `  feedctl restore --at 2026-03-01T12:00:00Z https://data.example.org/feeds/zones --into 'sqlite:zones.db?table=zones'
  feedctl restore --at 2026-03-01T12:00:00Z 's3://bucket/backup?region=eu-central-1#orders' --into couchdb:http://127.0.0.1:5984/orders-march
  feedctl restore --at '<4711@shop.example.org>' products --into 'postgres://shop@db.example.org/shop?table=public.products_before'`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t.Feed = args[0]
			if err := a.ServeMetrics(address, metrics.Consumer(t.Progress, nil)); err != nil {
				return err
			}
			a.Progress("restore", t.Status)
			done, err := t.Run(c.Context(), &a.Env)
			if done == nil {
				return err
			}
			return cmp.Or(printRestored(a, done), err)
		},
	}
	t.Flags(c.Flags())
	c.Flags().StringVar(&address, "metrics", "", app.MetricsUsage)
	app.Must(c.MarkFlagRequired("into"))
	app.Must(c.MarkFlagRequired("at"))
	return c
}

func printRestored(a *app.App, r *task.Restored) error {
	var text strings.Builder
	from := "the beginning of the feed"
	switch {
	case r.Snapshot != "":
		from = "the snapshot of " + human.Time(r.SnapshotAt)
	case r.Resumed:
		from = "where an earlier run ended"
	}
	fmt.Fprintf(&text, "restored %s into %s: %s from %s\n", r.At, r.Into, human.Plural(r.Entities, "entity", "entities"), from)
	switch {
	case r.Check == nil:
		fmt.Fprintln(&text, "not compared with the feed")
	case r.Verified:
		fmt.Fprintf(&text, "compared with the feed: %s, no differences\n", human.Plural(r.Check.Keys, "key", "keys"))
		if n := r.Check.KeysOnly; n > 0 {
			fmt.Fprintf(&text, "%s without a Content-ID: only the keys were compared\n", human.Plural(n, "row", "rows"))
		}
	default:
		for _, d := range r.Check.Differences {
			fmt.Fprintf(&text, "%s: %s\n", d.Kind, human.Printable(d.Key))
		}
		fmt.Fprintf(&text, "compared with the feed: %s, %s\n", human.Plural(r.Check.Keys, "key", "keys"), human.Plural(r.Check.Count(), "difference", "differences"))
	}
	return a.Printf(r, "%s", &text)
}
