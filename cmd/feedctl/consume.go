package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
)

type consumeFlags struct {
	client          task.Client
	into            string
	intoCredentials string
	follow          bool
	from            string
	key             string
	onGap           string
	batchEntities   int
	batchBytes      int64
	columns         string
	strict          bool
	quarantine      units.Limit
	metrics         string
}

func newConsume(a *app.App) *cobra.Command {
	var f consumeFlags
	c := &cobra.Command{
		Use:   "consume URL|FEED|STORE#FEED --into SINK",
		Short: "Copy a feed into a file, a directory or a database, each entity exactly once",
		Long: `Consume reads a feed in order, from URL on a server or from a store, and applies each entity
to a sink. The sink keeps the position in the feed together with the data, so a run that was
interrupted or killed continues where it was, and each entity takes effect exactly once.

The sink is one of:
  jsonl:FILE           one line of JSON for each entity
  -                    the same on standard output, without a position: at least once
  dir:DIR              one file for each key
  sqlite:FILE?table=T  one row for each key
  postgres://USER@HOST/DATABASE?table=SCHEMA.TABLE
                       one row for each key; in typed columns with --columns, as
                       NAME=POINTER:TYPE, joined by commas
  couchdb:URL?name=N   one document for each key

Without a position in the sink, --from says where to begin:
  beginning     at the oldest page (default)
  latest        after the newest entity there is now
  snapshot      with the snapshot of the feed's name, then the feed
  snapshot:URL  with the snapshot whose index is at URL; snapshot:NAME of a feed in a store
  TIME          with the entities since that time (RFC 3339)

There is a gap if the feed no longer has the entities after the sink's position:
  --on-gap fail      ends with exit status 4; nothing is applied (default)
  --on-gap replay    applies everything again that the feed has since the position's time
  --on-gap snapshot  starts over from the snapshot, for an exact copy with an empty sink

The exit status is 6 if all entities went into quarantine or were refused, or more than
--max-quarantine allows. Ctrl-C and SIGTERM commit what was applied; the next run continues
there. After SIGTERM the exit status of a run with --follow is 0.` + exit.Help(exit.NotFound, exit.Gap, exit.Invalid, exit.Quarantine, exit.Interrupted),
		Example: `  feedctl consume http://127.0.0.1:8080/feeds/zones --into 'sqlite:zones.db?table=zones'
  feedctl consume https://data.example.org/feeds/products --into 'postgres://shop@db.example.org/shop?table=public.products' \
    --columns 'id=@key:bigint,name=/name:text not null,price=/price:numeric(10,2)' --follow
  feedctl consume https://data.example.org/feeds/zones --into dir:zones --from snapshot
  feedctl consume https://data.example.org/feeds/events --into - --from latest --follow
  feedctl consume 's3://bucket/prefix?region=eu-central-1#zones' --into couchdb:http://127.0.0.1:5984/zones`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runConsume(c.Context(), a, &f, args[0])
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.into, "into", "", "`SINK` to copy to")
	flags.StringVar(&f.columns, "columns", "", "`COLUMNS` of a table in PostgreSQL, as 'id=/id:bigint,price=/price:numeric'")
	flags.BoolVar(&f.strict, "strict", false, "end at the first entity that does not fit the columns")
	flags.StringVar(&f.intoCredentials, "into-credentials-file", "", intoCredentialsUsage)
	flags.BoolVar(&f.follow, "follow", false, "wait for more at the end of the feed")
	flags.StringVar(&f.from, "from", "beginning", "`WHERE` a new sink begins: beginning, latest, snapshot, snapshot:URL or TIME")
	flags.StringVar(&f.key, "key", "", "JSON `POINTER` into the body to the key of the thing that an entity is about; for feeds without Content-Location")
	flags.StringVar(&f.onGap, "on-gap", "fail", "`POLICY` if entities after the position are gone from the feed: fail, replay or snapshot")
	flags.IntVar(&f.batchEntities, "batch-entities", 0, "commit after this `NUMBER` of entities at the latest (default 10000)")
	units.SizeVar(flags, &f.batchBytes, "batch-bytes", 0, "commit after this many `BYTES` at the latest (default 8MiB)")
	addLimit(flags, &f.quarantine)
	flags.StringVar(&f.metrics, "metrics", "", app.MetricsUsage)
	f.client.Flags(flags)
	app.Must(c.MarkFlagRequired("into"))
	return c
}

func runConsume(ctx context.Context, a *app.App, f *consumeFlags, arg string) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	a.Follower = f.follow
	at, err := f.client.Locate(ctx, &a.Env, arg, layout.FeedPath, task.Access{Follow: f.follow})
	if err != nil {
		return err
	}
	job, err := f.job(a, at)
	if err != nil {
		return err
	}
	spec, err := f.columnsOf()
	if err != nil {
		return err
	}
	into := sink.Redact(f.into)
	to, err := locate.Wait(ctx, a.Log, locate.ForSink(f.into, f.follow), func() (consumer.Sink, error) { return openSink(ctx, a, spec, f.intoCredentials) })
	if err != nil {
		return err
	}
	a.AtEnd(to.Close, into)
	job.Sink = to
	if consumer.AtLeastOnce(to) {
		a.Log.Warn("the sink keeps no position: after a restart entities may come again", "sink", into)
	}
	var done consumed
	if err := a.ServeMetrics(f.metrics, metrics.Consumer(done.progress)); err != nil {
		return err
	}
	runCtx, end := context.WithCancelCause(ctx)
	defer end(nil)
	job.Progress = func(p consumer.Progress) {
		done.set(p)
		if f.quarantine.Exceeded(p.Rejected.Total(), p.Entities, false) {
			end(errQuarantine)
		}
	}
	a.Progress("consume", done.status)
	stats, err := job.Run(runCtx)
	if errors.Is(context.Cause(runCtx), errQuarantine) && exit.OnlyEnded(err) {
		err = nil // the check below tells it
	}
	err = task.Suggest(ctx, at, err)
	warnRefused(a, stats.Rejected, into)
	if f.into == "-" || err != nil && ctx.Err() == nil {
		return err // with "-", standard output is for the entities
	}
	if err := errors.Join(err, printConsumed(ctx, a, job, at.Title, into, stats)); err != nil {
		return err
	}
	where := "the table feedctl_quarantine has them, with the reasons"
	if stats.Refused > 0 {
		where = into + " refused them, as the log says"
	}
	return checkLimit(&f.quarantine, stats.Rejected.Total(), stats.Entities, where)
}

// consumed is what a consumer has done.
type consumed struct {
	last atomic.Pointer[consumer.Progress]
}

func (c *consumed) set(p consumer.Progress) { c.last.Store(&p) }

func (c *consumed) progress() consumer.Progress {
	if p := c.last.Load(); p != nil {
		return *p
	}
	return consumer.Progress{}
}

func (c *consumed) status() progress.Status {
	p := c.progress()
	s := progress.Status{Entities: p.Entities, Bytes: p.Bytes, Lag: p.Lag}
	if p.Newest.IsZero() {
		s.Lag = -1
	}
	return s
}

// errQuarantine is wrapped by the error of a command that put too much into quarantine.
var errQuarantine = exit.Errorf(exit.Quarantine, "too much did not fit")

func addLimit(flags *pflag.FlagSet, l *units.Limit) {
	flags.Var(l, "max-quarantine", "fail if more than this `NUMBER` of entities, or P% of them, do not fit (default: if none fits)")
}

// checkLimit returns the error of a command that rejected more than the limit; where says where
// they are, and why.
func checkLimit(l *units.Limit, rejected, all int64, where string) error {
	if !l.Exceeded(rejected, all, true) {
		return nil
	}
	return exit.WithHint(
		fmt.Errorf("%w: %s of %s: %s", errQuarantine, human.Count(rejected), human.Plural(all, "entity", "entities"), where),
		"a fix for the reasons; or --max-quarantine NUMBER or P%, to accept that many (100%: all)",
	)
}

// positionTimeout limits how long a sink is asked, at the end, where it stands: it knows,
// unless its last commit failed.
const positionTimeout = 5 * time.Second

// printConsumed prints what a job has done, also if a signal has ended it.
func printConsumed(ctx context.Context, a *app.App, job *consumer.Job, from, into string, stats consumer.Stats) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), positionTimeout)
	defer cancel()
	position, err := job.Sink.Position(ctx)
	if err != nil {
		return fmt.Errorf("read position of %s: %w", into, err)
	}
	result := consumeJSON{from, into, stats, position}
	aside := ""
	switch {
	case result.Refused > 0:
		aside = ", which refused " + human.Plural(result.Refused, "document", "documents")
	case result.Quarantined > 0:
		aside = ", " + human.Plural(result.Quarantined, "entity", "entities") + " of them into quarantine"
	}
	return a.Printf(result, "consumed %s into %s%s\n", human.Plural(stats.Entities, "entity", "entities"), into, aside)
}

// check finds what is wrong with the flags wherever the feed is.
func (f *consumeFlags) check() error {
	if err := checkPointer("--key", f.key); err != nil {
		return err
	}
	if _, ok := gapPolicies[f.onGap]; !ok {
		return exit.Usagef("--on-gap %q is not one of fail, replay, snapshot", f.onGap)
	}
	if f.batchEntities < 0 || f.batchBytes < 0 {
		return exit.Usagef("--batch-entities and --batch-bytes must not be negative")
	}
	return nil
}

// gapPolicies are the values of --on-gap.
var gapPolicies = map[string]consumer.GapPolicy{
	"fail":     consumer.GapFail,
	"replay":   consumer.GapReplay,
	"snapshot": consumer.GapSnapshot,
}

func (f *consumeFlags) job(a *app.App, at *locate.Location) (job *consumer.Job, err error) {
	job = &consumer.Job{
		URL:           at.URL,
		OnGap:         gapPolicies[f.onGap],
		KeyPointer:    f.key,
		BatchEntities: f.batchEntities,
		BatchBytes:    f.batchBytes,
		Logger:        a.Log,
	}
	if at.Store != nil {
		job.Feed = at.Title
	}
	if job.From, job.SnapshotURL, err = at.Start(f.from); err != nil {
		return nil, err
	}
	if job.OnGap == consumer.GapSnapshot && job.SnapshotURL == "" {
		if job.SnapshotURL, err = at.Snapshot(""); err != nil {
			return nil, err
		}
	}
	at.Config.Follow = f.follow
	a.TellMissing(at)
	job.Client, err = consumer.New(at.Config)
	return job, err
}
