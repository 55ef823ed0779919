package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	couch "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/task"
)

func newBridgeCouchDB(a *app.App) *cobra.Command {
	var t task.BridgeCouchDB
	address := ""
	c := &cobra.Command{
		Use:   "couchdb DBURL FEED|STORE#FEED",
		Short: "Publish the changes of a CouchDB database",
		Long: `Couchdb publishes the changes of the database at DBURL (CouchDB, Cloudant, PouchDB Server)
to FEED in the store, which is created if it does not exist. Each change becomes one entity:
a PUT with the document's JSON as the server wrote it, or a DELETE for a tombstone.

The position in the database is kept in the newest page of the feed, so after an
interrupted or killed run, the next run continues from there, and each revision is in the
feed once. Documents that cannot be published go into the quarantine of the feed: see
"feedctl bridge quarantine". The exit status is 6 if there are more of them than
--max-quarantine allows; by default, if no document could be published.

To replicate to another CouchDB, with the same revisions, conflicts and attachments, use
--revs --conflicts --design-docs --attachments multipart. Filters are applied by the
database; if the filter changes, revisions that the feed does not have are published.

--snapshot makes a snapshot with the name of the feed when all changes have been published,
before --follow waits for more. A consumer that starts with it continues in the feed without
a gap.

At the end, or on Ctrl-C with --follow, the command prints the statistics of CouchDB's
replication protocol.` + sourceHelp + exit.Help(exit.NotFound, exit.Quarantine, exit.Interrupted),
		Example: `  feedctl bridge couchdb https://couch.example.org/zones zones
  feedctl bridge couchdb https://couch.example.org/zones zones --follow --metrics 127.0.0.1:9464
  feedctl bridge couchdb http://127.0.0.1:5984/db s3://bucket/data#db --revs --conflicts --design-docs --attachments multipart
  feedctl bridge couchdb http://127.0.0.1:5984/db people --selector '{"type":"person"}' --snapshot`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			t.Source.URL, t.Feed = args[0], args[1]
			return runBridgeCouchDB(c.Context(), a, &t, address)
		},
	}
	t.Flags(c.Flags())
	c.Flags().StringVar(&address, "metrics", "", app.MetricsUsage)
	c.MarkFlagsMutuallyExclusive("filter", "view", "selector", "doc-id")
	return c
}

func runBridgeCouchDB(ctx context.Context, a *app.App, t *task.BridgeCouchDB, address string) error {
	a.Follower = t.Follow
	if err := a.ServeMetrics(address, metrics.Bridge(t.Progress)); err != nil {
		return err
	}
	a.Progress("bridge", t.Status)
	result, err := t.Run(ctx, &a.Env)
	if result == nil {
		return err
	}
	return cmp.Or(err, a.Print(result, func(w io.Writer) error { return writeReplication(w, result) }))
}

// published holds the counts of what a bridge has done.
type published struct{ published, quarantined, repeated int64 }

// writePublished writes what a bridge has done, as a line.
func writePublished(w io.Writer, p published, source, feed string) error {
	_, err := fmt.Fprintf(w, "published %s of %s to %s", human.Plural(p.published, "entity", "entities"), source, feed)
	for _, more := range []struct {
		n    int64
		what string
	}{{p.quarantined, "put into quarantine"}, {p.repeated, "were in the feed already"}} {
		if err == nil && more.n > 0 {
			_, err = fmt.Fprintf(w, ", %s %s", human.Count(more.n), more.what)
		}
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
	return err
}

// writeReplication writes the result as text.
func writeReplication(w io.Writer, r *task.Replication) error {
	err := writePublished(w, published{r.Published, r.Quarantined, r.Repeated}, r.Source, r.Feed)
	for _, session := range r.History {
		if err == nil {
			err = writeSession(w, session)
		}
	}
	if err == nil && r.Snapshot != nil {
		_, err = fmt.Fprintf(w, "made snapshot %s/%s of %s\n", r.Snapshot.Name, r.Snapshot.ID, human.Plural(*r.Snapshot.Entities, "entity", "entities"))
	}
	return err
}

// writeSession writes the protocol's statistics ("Replication Completed").
func writeSession(w io.Writer, s couch.Session) error {
	_, err := fmt.Fprintf(w, `  documents  %s read, %s written, %s failed
  revisions  %s looked for in the feed, %s missing there
  sequences  %s to %s
  time       %s to %s
`, human.Count(s.DocsRead), human.Count(s.DocsWritten), human.Count(s.DocWriteFailures),
		human.Count(s.MissingChecked), human.Count(s.MissingFound),
		shortSequence(s.StartLastSeq), shortSequence(s.EndLastSeq), s.StartTime, s.EndTime)
	return err
}

// shortSequence returns the beginning of a sequence, which may have hundreds of bytes.
func shortSequence(seq json.RawMessage) string {
	const most = 24
	text := human.Printable(strings.Trim(string(seq), `"`))
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
