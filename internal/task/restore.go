package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/restore"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinks"
)

// A Restore writes the state of a feed at a point in time into a new sink.
type Restore struct {
	Consume
	At       string // a time or a Content-ID
	Snapshot string // URL of an index, or the name of a snapshot in the store; "": the name of the feed
}

// Flags adds the flags.
func (r *Restore) Flags(flags *pflag.FlagSet) {
	r.targetFlags(flags)
	r.Client.Flags(flags)
	r.From, r.OnGap = "beginning", "fail"
	flags.StringVar(&r.At, "at", "", "restore the state at the end of a second, or after an entity: `TIME|CONTENT-ID`")
	flags.StringVar(&r.Snapshot, "snapshot", "", "`NAME` in the store, or URL of an index, of the snapshots to begin with (default: those with the name of the feed)")
}

// Check returns an error if an argument or a flag is invalid. It does not use the network.
func (r *Restore) Check() error {
	problems := []error{r.Consume.Check()}
	if r.At == "" {
		problems = append(problems, exit.Usagef("--at is missing: want a time like 2006-01-02T15:04:05Z, or a Content-ID"))
	}
	if r.Into == "-" {
		problems = append(problems, exit.Usagef("--into -: standard output keeps no position, so a restore to it cannot be continued: use jsonl:FILE"))
	}
	return errors.Join(problems...)
}

// A Restored is the result of a [Restore].
type Restored struct {
	URL  string `json:"url"`
	Into string `json:"into"`
	At   string `json:"at"`
	*restore.Report
	// Verified reports whether the sink was compared with the feed and is equal to it. If not, Check has
	// the differences, or is nil if the sink cannot be compared.
	Verified bool             `json:"verified"`
	Check    *restore.Checked `json:"check,omitempty"`
}

// Run restores, and compares the sink with the feed. If there are differences, it returns an error along
// with the result. Another run continues an interrupted one.
func (r *Restore) Run(ctx context.Context, e *Env) (*Restored, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	at, err := r.Client.Locate(ctx, e, r.Feed, layout.FeedPath, Access{})
	if err != nil {
		return nil, err
	}
	config, err := r.config(e, at)
	if err != nil {
		return nil, err
	}
	if config.Sink, err = r.openSink(ctx, e); err != nil {
		return nil, err
	}
	into := sink.Redact(r.Into)
	e.AtEnd(config.Sink.Close, into)
	report, err := restore.Run(ctx, config)
	if err != nil {
		return nil, hintRestore(Suggest(ctx, at, err), into)
	}
	result := &Restored{URL: at.Title, Into: into, At: config.At.String(), Report: report}
	if n := report.Rejected.Total(); n > 0 {
		return result, fmt.Errorf("restore %s: %w: %s", result.At, errQuarantine, human.Plural(n, "entity was rejected", "entities were rejected"))
	}
	return result, r.check(ctx, e, config, result)
}

func (r *Restore) config(e *Env, at *locate.Location) (c restore.Config, err error) {
	c = restore.Config{
		URL: at.URL, Feed: at.URL, At: parseUntil(r.At), KeyPointer: r.Key,
		BatchEntities: r.BatchEntities, BatchBytes: r.BatchBytes, Progress: r.set, Logger: e.Log,
	}
	if at.Store != nil {
		c.Feed = at.Title
	}
	if c.Snapshots, err = at.Snapshot(r.Snapshot); err != nil && r.Snapshot != "" {
		return c, err
	}
	c.Client, err = consumer.New(at.Config)
	return c, err
}

// check compares the sink with the feed.
func (r *Restore) check(ctx context.Context, e *Env, c restore.Config, result *Restored) error {
	target, err := r.target(e)
	if err != nil {
		return err
	}
	switch result.Check, err = restore.Check(ctx, c, target); {
	case errors.Is(err, restore.ErrUnreadable), errors.Is(err, restore.ErrNoRevisions):
		e.Log.Warn("restored, but could not compare the sink with the feed", "sink", result.Into, "reason", err)
		return nil
	case err != nil:
		return fmt.Errorf("restored %s, but could not compare it with the feed: %w", result.Into, err)
	}
	n := result.Check.Count()
	if result.Verified = n == 0; result.Verified {
		return nil
	}
	return exit.Errorf(exit.Invalid, "restore %s: %s differs from the feed at that point: %s", result.At, result.Into, human.Plural(n, "difference", "differences"))
}

// target returns a target that reads the sink, for the comparison.
func (r *Restore) target(e *Env) (t restore.Target, err error) {
	spec, err := r.sinkSpec()
	if err != nil {
		return t, err
	}
	s, err := parseSink(spec)
	if err != nil {
		return t, err
	}
	o, err := e.SinkOptions(spec, r.IntoCredential)
	switch {
	case err != nil:
	case s.Scheme == "couchdb":
		o.CouchDB.URL = s.Path
		var db *couchdb.DB
		if db, err = couchdb.Open(o.CouchDB); err == nil {
			t.Documents = restore.Database{DB: db}
		}
	case sinks.HasContents(s):
		t.Open = func(ctx context.Context) (restore.Contents, error) { return sinks.OpenContents(ctx, spec, o) }
	}
	return t, err
}

// hintRestore adds a remedy to an error from a restore.
func hintRestore(err error, into string) error {
	switch {
	case errors.Is(err, restore.ErrTooEarly):
		return exit.WithHint(exit.Errorf(exit.Gap, "%w", err), "a later --at")
	case consumer.IsGap(err):
		return exit.WithHint(err, "a later --at: the feed no longer has what comes after the snapshot")
	case errors.Is(err, restore.ErrNotNew):
		return exit.WithHint(fmt.Errorf("%s: %w", into, err), "a table, database, directory or file that does not exist yet; or, to bring this one up to date, \"feedctl consume\"")
	case errors.Is(err, sink.ErrLocked):
		return err
	}
	return hintUntil(err)
}
