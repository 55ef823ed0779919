package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/jsonptr"
)

type consumeFlags struct {
	client        clientFlags
	into          string
	follow        bool
	from          string
	key           string
	onGap         string
	batchEntities int
	batchBytes    int64
}

func newConsume(a *app) *cobra.Command {
	var f consumeFlags
	c := &cobra.Command{
		Use:   "consume URL --into SINK",
		Short: "Copy a feed into a file, a directory or a database, each entity exactly once",
		Long: `Consume reads the feed at URL in order and applies each entity to a sink. The sink keeps
the position in the feed together with the data, so whatever is interrupted or killed goes
on where it was, and each entity takes effect exactly once.

The sink is one of:
  jsonl:FILE           one line of JSON for each entity
  -                    the same on standard output, without a position: at least once
  dir:DIR              one file for each key
  sqlite:FILE?table=T  one row for each key

Without a position in the sink, --from says where to begin:
  beginning     at the oldest page (default)
  latest        after the newest entity there is now
  snapshot      with the snapshot of the feed's name on the same server, then the feed
  snapshot:URL  with the snapshot whose index is at URL
  TIME          with the entities since that time (RFC 3339)

A gap is when the feed no longer has what comes after the sink's position. --on-gap says
what to do then:
  fail      end with exit status 4; nothing is applied (default)
  replay    apply again everything from the position's time on that is left
  snapshot  start over from the snapshot

Without --follow, consume ends at the end of the feed. Ctrl-C commits what was applied and
ends; the next run goes on there.` + exitStatus(exitOK, exitError, exitUsage, exitNotFound, exitGap, exitInvalid, exitInterrupted),
		Example: `  feedctl consume http://127.0.0.1:8080/feeds/zones --into 'sqlite:zones.db?table=zones'
  feedctl consume https://data.example.org/feeds/events --into jsonl:events.jsonl --follow
  feedctl consume https://data.example.org/feeds/zones --into dir:zones --from snapshot
  feedctl consume https://data.example.org/feeds/events --into - --from latest --follow`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runConsume(c.Context(), a, &f, args[0])
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.into, "into", "", "`SINK` to copy to")
	flags.BoolVar(&f.follow, "follow", false, "wait for more at the end of the feed")
	flags.StringVar(&f.from, "from", "beginning", "`WHERE` a new sink begins: beginning, latest, snapshot, snapshot:URL or TIME")
	flags.StringVar(&f.key, "key", "", "JSON `POINTER` into the body to the key of the thing that an entity is about; for feeds without Content-Location")
	flags.StringVar(&f.onGap, "on-gap", "fail", "`POLICY` where the feed has lost what comes next: fail, replay or snapshot")
	flags.IntVar(&f.batchEntities, "batch-entities", 0, "commit after this `NUMBER` of entities at the latest (default 10000)")
	flags.Int64Var(&f.batchBytes, "batch-bytes", 0, "commit after this many `BYTES` at the latest (default 8388608)")
	f.client.add(flags)
	must(c.MarkFlagRequired("into"))
	return c
}

// must is for what can only fail by a mistake in this program.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func runConsume(ctx context.Context, a *app, f *consumeFlags, url string) (err error) {
	job, err := f.job(a, url)
	if err != nil {
		return err
	}
	to, err := a.openSink(ctx, f.into)
	if err != nil {
		return err
	}
	defer closing(&err, to.Close, f.into)
	job.Sink = to
	if consumer.AtLeastOnce(to) {
		a.log.Warn("the sink keeps no position: after a restart entities may come again", "sink", f.into)
	}
	var latest latestProgress
	job.Progress = latest.set
	stop := a.progress("consume", latest.status)
	defer stop()
	stats, err := job.Run(ctx)
	stop()
	if f.into == "-" || err != nil && ctx.Err() == nil {
		return err // with "-", standard output is for the entities
	}
	return errors.Join(err, a.printConsumed(ctx, job, f.into, stats))
}

// printConsumed prints what a job has done, also if a signal has ended it.
func (a *app) printConsumed(ctx context.Context, job *consumer.Job, into string, stats consumer.Stats) error {
	position, err := job.Sink.Position(context.WithoutCancel(ctx))
	if err != nil {
		return fmt.Errorf("read position of %s: %w", into, err)
	}
	result := consumeJSON{
		URL:      job.URL,
		Into:     into,
		Entities: stats.Entities,
		Bytes:    stats.Bytes,
		Commits:  stats.Batches,
		Gaps:     stats.Gaps,
		Position: position,
	}
	return a.print(result, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "consumed %s into %s\n", plural(stats.Entities, "entity", "entities"), into)
		return err
	})
}

func (f *consumeFlags) job(a *app, url string) (*consumer.Job, error) {
	u, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if f.key != "" {
		if _, err := jsonptr.Compile(f.key); err != nil {
			return nil, usagef("--key: %w", err)
		}
	}
	job := &consumer.Job{
		URL:           u.String(),
		KeyPointer:    f.key,
		BatchEntities: f.batchEntities,
		BatchBytes:    f.batchBytes,
		Logger:        a.log,
	}
	if job.From, job.SnapshotURL, err = parseFrom(f.from, job.URL); err != nil {
		return nil, err
	}
	switch f.onGap {
	case "fail":
		job.OnGap = consumer.GapFail
	case "replay":
		job.OnGap = consumer.GapReplay
	case "snapshot":
		job.OnGap = consumer.GapSnapshot
		if job.SnapshotURL == "" {
			if job.SnapshotURL, err = snapshotOf(job.URL); err != nil {
				return nil, err
			}
		}
	default:
		return nil, usagef("--on-gap %q is not one of fail, replay, snapshot", f.onGap)
	}
	config, err := f.client.config(a)
	if err != nil {
		return nil, err
	}
	config.Follow = f.follow
	job.Client, err = consumer.New(config)
	return job, err
}

// parseFrom reads --from. It returns the URL of the snapshot too, if there is one.
func parseFrom(from, feedURL string) (start consumer.Start, snapshotURL string, err error) {
	switch {
	case from == "beginning":
		return consumer.Beginning(), "", nil
	case from == "latest":
		return consumer.Latest(), "", nil
	case from == "snapshot":
		if snapshotURL, err = snapshotOf(feedURL); err != nil {
			return start, "", err
		}
		return consumer.FromSnapshot(snapshotURL), snapshotURL, nil
	case strings.HasPrefix(from, "snapshot:"):
		u, err := parseURL(strings.TrimPrefix(from, "snapshot:"))
		if err != nil {
			return start, "", err
		}
		return consumer.FromSnapshot(u.String()), u.String(), nil
	}
	t, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return start, "", usagef("--from %q is not one of beginning, latest, snapshot, snapshot:URL, or a time like 2006-01-02T15:04:05Z", from)
	}
	return consumer.Since(t), "", nil
}
