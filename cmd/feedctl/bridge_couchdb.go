package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/bridge/couchdb"
	"github.com/feedctl/feedctl/consumer"
	couch "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/snapshot/fold"
)

type bridgeCouchDBFlags struct {
	source      sourceFlags
	follow      bool
	longPoll    bool
	retries     int
	snapshot    bool
	options     couchdb.Options
	attachments string
	filter      couchdb.Filter
	selector    string
	query       []string
	metrics     string
	moved       bool
	quarantine  units.Limit
	pages       pageLimits
}

func newBridgeCouchDB(a *app.App) *cobra.Command {
	var f bridgeCouchDBFlags
	c := &cobra.Command{
		Use:   "couchdb DBURL FEED|STORE#FEED",
		Short: "Publish the changes of a CouchDB database",
		Long: `Couchdb publishes the changes of the database at DBURL (CouchDB, Cloudant, PouchDB Server)
to FEED in the store, which is created if it does not exist. Each change becomes one entity:
a PUT with the document's JSON as the server wrote it, or a DELETE for a tombstone.

The position in the database is kept in the newest page of the feed, so an interrupted or
killed run continues where it was, and each revision is in the feed once. Documents that
cannot be published go into the quarantine of the feed: see "feedctl bridge quarantine". The
exit status is 6 if there are more of them than --max-quarantine allows; by default, if no
document could be published.

To replicate to another CouchDB, with the same revisions, conflicts and attachments, use
--revs --conflicts --design-docs --attachments multipart. Filters are applied by the
database; if the filter changes, what the feed does not have is published.

--snapshot makes a snapshot with the name of the feed when all changes have been published,
before --follow waits for more. A consumer that starts with it continues in the feed without
a gap.

At the end, or at Ctrl-C with --follow, it prints the statistics of CouchDB's replication
protocol.` + sourceHelp + exit.Help(exit.NotFound, exit.Quarantine, exit.Interrupted),
		Example: `  feedctl bridge couchdb https://couch.example.org/zones zones
  feedctl bridge couchdb https://couch.example.org/zones zones --follow --metrics 127.0.0.1:9464
  feedctl bridge couchdb http://127.0.0.1:5984/db s3://bucket/data#db --revs --conflicts --design-docs --attachments multipart
  feedctl bridge couchdb http://127.0.0.1:5984/db people --selector '{"type":"person"}' --snapshot`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return runBridgeCouchDB(c.Context(), a, &f, args[0], args[1])
		},
	}
	flags := c.Flags()
	f.source.add(flags)
	flags.BoolVar(&f.follow, "follow", false, "wait for more at the end of the changes")
	flags.BoolVar(&f.longPoll, "long-poll", false, "with --follow: use one request for each change, for proxies that buffer streams")
	flags.IntVar(&f.retries, "retries", 0, "give up after asking for the changes this `NUMBER` of times in a row in vain; negative: never (default 8, or never with --follow; if no server is there at first, at once)")
	flags.BoolVar(&f.snapshot, "snapshot", false, "make a snapshot when all changes have been published")
	flags.BoolVar(&f.options.Revs, "revs", false, "put the ancestors of each revision into the document, as _revisions")
	flags.BoolVar(&f.options.Conflicts, "conflicts", false, "publish every leaf revision, not only the winner; for replication to CouchDB")
	flags.StringVar(&f.attachments, "attachments", string(couchdb.Stub), "`FORM` of attachments: none, stub (type, size and digest), inline (base64 in the document) or multipart (of any size)")
	flags.BoolVar(&f.options.DesignDocs, "design-docs", false, "publish design documents too")
	flags.StringVar(&f.filter.Name, "filter", "", "publish documents that pass the filter function `DESIGN/NAME`")
	flags.StringVar(&f.filter.View, "view", "", "publish documents in the view `DESIGN/NAME`")
	flags.StringVar(&f.selector, "selector", "", "publish documents that match a `JSON` selector")
	flags.StringArrayVar(&f.filter.DocIDs, "doc-id", nil, "publish the document `ID` only; may be given several times")
	flags.StringArrayVar(&f.query, "query", nil, "`NAME=VALUE` for the filter function; may be given several times")
	flags.StringVar(&f.metrics, "metrics", "", app.MetricsUsage)
	flags.BoolVar(&f.moved, "moved", false, "continue the feed with a database at another place, read from its beginning; for one run")
	task.LimitFlag(flags, &f.quarantine)
	f.pages.add(flags, "")
	c.MarkFlagsMutuallyExclusive("filter", "view", "selector", "doc-id")
	return c
}

func runBridgeCouchDB(ctx context.Context, a *app.App, f *bridgeCouchDBFlags, rawURL, arg string) (err error) {
	a.Follower = f.follow
	at, err := a.Parse(arg)
	if err != nil {
		return err
	}
	config, err := f.config()
	if err != nil {
		return err
	}
	store, err := a.OpenStore(ctx, at.Store, task.Access{Create: true, Follow: f.follow})
	if err != nil {
		return err
	}
	if config, err = f.source.config(a, rawURL, at, store, config); err != nil {
		return err
	}
	job := &couchdb.Job{Config: config}
	result := replicationJSON{Source: rawURL, Feed: at.Name}
	if f.snapshot {
		job.CaughtUp = func(ctx context.Context) (err error) {
			result.Snapshot, err = snapshotOfBridge(ctx, a, config)
			return err
		}
	}
	if err := a.ServeMetrics(f.metrics, metrics.Bridge(job.Progress)); err != nil {
		return err
	}
	a.Progress("bridge", func() progress.Status {
		p := job.Progress()
		return progress.Status{Entities: p.Published, Bytes: p.Bytes, Lag: -1, Pending: max(p.Pending, 0)}
	})
	result.Report, err = job.Run(ctx)
	if err != nil && ctx.Err() == nil {
		return hintSource(err)
	}
	result.OK = err == nil
	printErr := a.Print(result, result.write)
	if err := cmp.Or(err, printErr); err != nil {
		return err
	}
	return task.CheckLimit(&f.quarantine, result.Quarantined, result.Published+result.Quarantined, "\"feedctl bridge quarantine\" lists them, with the reasons")
}

// snapshotOfBridge makes a snapshot of the feed of a bridge. If the bridge follows, the feed need
// not exist.
func snapshotOfBridge(ctx context.Context, a *app.App, c couchdb.Config) (*snapshotJSON, error) {
	index, err := fold.Feed(ctx, c.Store, c.Feed, fold.Config{Table: c.Index + ".state", Version: versionsOf(c.Conflicts), Logger: a.Log})
	if c.Follow && errors.Is(err, consumer.ErrNotFound) {
		a.Log.Warn("no snapshot was made, because the feed is empty", "feed", c.Feed)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	made := snapshotResult(c.Feed, index, len(index.Pages))
	return &made, nil
}

// versionsOf distinguishes the states that a document has at the same time in the feed of a
// bridge: with conflicts each leaf revision is a state, otherwise there is one.
func versionsOf(conflicts bool) fold.VersionFunc {
	if conflicts {
		return new(couchdb.RevisionReader).Revision
	}
	return nil
}

// config turns the flags into the settings of a bridge.
func (f *bridgeCouchDBFlags) config() (couchdb.Config, error) {
	c := couchdb.Config{
		Options:  f.options,
		Filter:   f.filter,
		Follow:   f.follow,
		LongPoll: f.longPoll,
		Attempts: f.retries,
		Moved:    f.moved,
		Producer: producer.Config{MaxPageBytes: f.pages.bytes, MaxPageEntities: f.pages.entities},
	}
	c.Attachments = couchdb.Attachments(f.attachments)
	if err := f.pages.check(); err != nil {
		return c, err
	}
	if f.snapshot && f.options.Conflicts && !f.options.Revs {
		return c, exit.Usagef("--snapshot with --conflicts needs --revs: without it, nothing tells which revisions are leaves")
	}
	if f.longPoll && !f.follow {
		return c, exit.Usagef("--long-poll is for --follow")
	}
	switch c.Attachments {
	case couchdb.None, couchdb.Stub, couchdb.Inline, couchdb.Multipart:
	default:
		return c, exit.Usagef("--attachments %q is not one of none, stub, inline, multipart", f.attachments)
	}
	if f.selector != "" {
		if !json.Valid([]byte(f.selector)) {
			return c, exit.Usagef("--selector is not valid JSON")
		}
		c.Filter.Selector = json.RawMessage(f.selector)
	}
	for _, parameter := range f.query {
		name, value, ok := strings.Cut(parameter, "=")
		if !ok || name == "" {
			return c, exit.Usagef("--query %q is not NAME=VALUE", parameter)
		}
		if c.Filter.Query == nil {
			c.Filter.Query = url.Values{}
		}
		c.Filter.Query.Add(name, value)
	}
	return c, nil
}

// write writes the result as text.
func (r *replicationJSON) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "published %s of %s to %s", human.Plural(r.Published, "entity", "entities"), r.Source, r.Feed)
	for _, more := range []struct {
		n    int64
		what string
	}{{r.Quarantined, "put into quarantine"}, {r.Repeated, "were in the feed already"}} {
		if err == nil && more.n > 0 {
			_, err = fmt.Fprintf(w, ", %s %s", human.Count(more.n), more.what)
		}
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
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
