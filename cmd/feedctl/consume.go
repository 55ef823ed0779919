package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/sink"
)

func newConsume(a *app.App) *cobra.Command {
	var t task.Consume
	address := ""
	c := &cobra.Command{
		Use:   "consume URL|FEED|STORE#FEED --into SINK",
		Short: "Copy a feed into a file, a directory or a database, each entity exactly once",
		Long: `Consume reads a feed in order, from URL on a server or from a store, and applies each entity
to a sink. The sink keeps the position in the feed together with the data, so after a run
that was interrupted or killed, the next run continues from there, and each entity takes
effect exactly once.

The sink is one of:
  jsonl:FILE           one line of JSON for each entity
  -                    the same on standard output, without a position: at least once
  dir:DIR              one file for each key
  sqlite:FILE?table=T  one row for each key
  postgres://USER@HOST/DATABASE?table=SCHEMA.TABLE
                       one row for each key; in typed columns with --columns, as
                       NAME=POINTER:TYPE, joined by commas
  couchdb:URL?name=N   one document for each key
  kinto:URL?name=N     one record for each key, in the collection at URL

Without a position in the sink, --from says where to begin:
  beginning     at the oldest page (default)
  latest        after the newest entity there is now
  snapshot      with the snapshot of the feed's name, then the feed
  snapshot:URL  with the snapshot whose index is at URL; snapshot:NAME for a feed in a store
  TIME          with the entities since that time (RFC 3339)

With --until, consume ends before the end of the feed: after all entities of a second (RFC
3339), which must be over, or after the entity with a Content-ID. The sink then has the
state that the feed had at that time, and another run can continue. --from snapshot begins
with the newest snapshot that is not later, if the server has it. If the sink or the
snapshot is past that point, or the feed does not have the Content-ID, nothing is applied.

With --newest-first a new sink in SQLite or PostgreSQL has the newest data at once: the
feed is read back page by page, while new entities are still applied. In the end the sink
is the same as after reading in order. The sink is complete when the beginning of the feed
has been reached or, with --from snapshot, the snapshot. A feed with pruned pages needs
--from snapshot.

There is a gap if the feed no longer has the entities after the sink's position:
  --on-gap fail      ends with exit status 4; nothing is applied (default)
  --on-gap replay    applies again everything that the feed has since the position's time
  --on-gap snapshot  starts over from the snapshot. At the end, what it does not have is
                     removed from SQLite, PostgreSQL and directories; other sinks keep it

Requests tell the server a name and the committed position, so that its operators see who
reads the feed and how far behind each reader is. The name is made from the sink, without
host, user, password and directory; --announce sets another name, or none.

The exit status is 6 if all entities went into quarantine or were refused, or more than
--max-quarantine allows. Ctrl-C and SIGTERM commit what was applied; the next run continues
from there. After SIGTERM the exit status of a run with --follow is 0.` + exit.Help(exit.NotFound, exit.Gap, exit.Invalid, exit.Quarantine, exit.Interrupted),
		Example: `  feedctl consume http://127.0.0.1:8080/feeds/zones --into 'sqlite:zones.db?table=zones'
  feedctl consume https://data.example.org/feeds/products --into 'postgres://shop@db.example.org/shop?table=public.products' \
    --columns 'id=@key:bigint,name=/name:text not null,price=/price:numeric(10,2)' --follow
  feedctl consume https://data.example.org/feeds/zones --into dir:zones --from snapshot
  feedctl consume https://data.example.org/feeds/products --into 'sqlite:products.db?table=products' --newest-first --follow
  feedctl consume https://data.example.org/feeds/zones --into dir:zones --from snapshot --until 2026-03-01T12:00:00Z
  feedctl consume https://data.example.org/feeds/events --into - --from latest --follow
  feedctl consume https://data.example.org/feeds/zones --into 'sqlite:zones.db?table=zones' --follow --metrics 127.0.0.1:9464
  feedctl consume 's3://bucket/prefix?region=eu-central-1#zones' --into couchdb:http://127.0.0.1:5984/zones`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t.Feed = args[0]
			return runConsume(c.Context(), a, &t, address)
		},
	}
	t.Flags(c.Flags())
	c.Flags().StringVar(&address, "metrics", "", app.MetricsUsage)
	app.Must(c.MarkFlagRequired("into"))
	return c
}

func runConsume(ctx context.Context, a *app.App, t *task.Consume, address string) error {
	a.Follower = t.Follow
	if err := a.ServeMetrics(address, metrics.Consumer(t.Progress, t)); err != nil {
		return err
	}
	a.Progress("consume", t.Status)
	done, err := t.Run(ctx, &a.Env)
	warnRefused(a, t.Progress().Rejected, sink.Redact(t.Into))
	if done == nil { // even with "-": standard output is for the entities
		return err
	}
	aside := ""
	switch {
	case done.Refused > 0:
		aside = ", which refused " + human.Plural(done.Refused, "document", "documents")
	case done.Quarantined > 0:
		aside = ", " + human.Count(done.Quarantined) + " of them into quarantine"
	}
	return errors.Join(err, a.Printf(done, "consumed %s into %s%s\n", human.Plural(done.Entities, "entity", "entities"), done.Into, aside))
}

// warnRefused lists the documents that a database refused, at the end and in addition to the log.
// The command has done what it could, so this is not an error.
func warnRefused(a *app.App, r consumer.Rejected, into string) {
	if r.Refused == 0 || a.JSON {
		return
	}
	fmt.Fprintf(a.Err, "feedctl: %s refused %s, now missing there:\n", into, human.Plural(r.Refused, "document", "documents"))
	stubs := false
	for _, refusal := range r.Refusals {
		fmt.Fprintf(a.Err, "  %s: %s\n", human.Printable(refusal.ID), human.Printable(refusal.Reason))
		stubs = stubs || strings.HasPrefix(refusal.Reason, missingStub)
	}
	if more := r.Refused - int64(len(r.Refusals)); more > 0 {
		fmt.Fprintf(a.Err, "  and %s more: see the log\n", human.Count(more))
	}
	if stubs {
		fmt.Fprintln(a.Err, "Try: a feed made with \"feedctl bridge couchdb --attachments inline\" or \"multipart\": this one has attachments by name only")
	}
}

// missingStub is CouchDB's error code for a document with an attachment whose content CouchDB
// neither has nor was sent.
const missingStub = "missing_stub"
