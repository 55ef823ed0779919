package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/tracing"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinks"
)

// A Consume copies a feed into a sink.
type Consume struct {
	Feed string // URL, NAME or STORE#NAME
	Into string // the sink; see package sink
	// IntoCredential is the credential for a sink in CouchDB.
	IntoCredential credential.Source
	Client         Client
	Follow         bool
	From           string
	Until          string // a time or a Content-ID; "": the end of the feed
	NewestFirst    bool
	Key            string
	OnGap          string
	BatchEntities  int
	BatchBytes     int64
	Columns        string
	Strict         bool
	Quarantine     units.Limit
	// Announce is the name that is announced to the server of the feed; "none" announces nothing, and ""
	// announces a name made from the sink.
	Announce string
	// Idle is called like [consumer.Config.Idle] if Follow is true; nil: never.
	Idle func()

	counted
	oldest    atomic.Pointer[time.Time]
	caughtUp  atomic.Pointer[time.Time]
	searching atomic.Pointer[consumer.Search] // nil or zero unless the start of the feed is being searched for
}

// Flags adds the flags.
func (c *Consume) Flags(flags *pflag.FlagSet) {
	c.targetFlags(flags)
	flags.BoolVar(&c.Follow, "follow", false, "wait for more at the end of the feed")
	flags.StringVar(&c.From, "from", "beginning", "`WHERE` a new sink begins: beginning, latest, snapshot, snapshot:URL or TIME")
	flags.StringVar(&c.Until, "until", "", "end after the entities up to this `TIME|CONTENT-ID`, not at the end of the feed")
	flags.BoolVar(&c.NewestFirst, "newest-first", false, "fill a new sink with the newest entities first")
	flags.StringVar(&c.OnGap, "on-gap", "fail", "`POLICY` if entities after the position are gone from the feed: fail, replay or snapshot")
	limitFlag(flags, &c.Quarantine)
	flags.StringVar(&c.Announce, "announce", "", announceUsage)
	c.Client.Flags(flags)
}

// targetFlags adds the flags for the sink, and those that say how entities are written.
func (c *Consume) targetFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Into, "into", "", "`SINK` to copy to")
	flags.StringVar(&c.Columns, "columns", "", "`COLUMNS` of a table in PostgreSQL, such as 'id=/id:bigint,price=/price:numeric'")
	flags.BoolVar(&c.Strict, "strict", false, "end at the first entity that does not fit the columns")
	IntoFlags(flags, &c.IntoCredential)
	flags.StringVar(&c.Key, "key", "", keyUsage)
	flags.IntVar(&c.BatchEntities, "batch-entities", 0, "commit after at most this `NUMBER` of entities (default 10000)")
	units.SizeVar(flags, &c.BatchBytes, "batch-bytes", 0, "commit after at most this many `BYTES` (default 8MiB)")
}

// gapPolicies are the values of --on-gap.
var gapPolicies = map[string]consumer.GapPolicy{
	"fail":     consumer.GapFail,
	"replay":   consumer.GapReplay,
	"snapshot": consumer.GapSnapshot,
}

// Check returns an error if an argument or a flag is invalid. It does not use the network.
func (c *Consume) Check() error {
	_, err := c.sinkSpec()
	problems := []error{checkArgument(c.Feed), err, CheckPointer("--key", c.Key), locate.CheckFrom(c.From), c.Client.Check(), checkAnnounce(c.Announce)}
	if _, ok := gapPolicies[c.OnGap]; !ok {
		problems = append(problems, exit.Usagef("--on-gap %q is not one of fail, replay, snapshot", c.OnGap))
	}
	if c.BatchEntities < 0 {
		problems = append(problems, exit.Usagef("--batch-entities %d must not be negative", c.BatchEntities))
	}
	if c.BatchBytes < 0 {
		problems = append(problems, exit.Usagef("--batch-bytes %d must not be negative", c.BatchBytes))
	}
	return errors.Join(append(problems, c.checkUntil(), c.checkNewestFirst())...)
}

// checkUntil returns an error if --until is combined with flags that it excludes.
func (c *Consume) checkUntil() error {
	switch {
	case c.Until == "":
		return nil
	case c.Follow:
		return exit.Usagef("--until and --follow cannot be combined: without --follow, consume ends there or at the end of the feed")
	case c.NewestFirst:
		return exit.Usagef("--until is for a feed that is read in order, not --newest-first")
	case c.From == "latest":
		return exit.Usagef("--until cannot be combined with --from latest, which begins at the end of the feed")
	}
	return nil
}

// checkNewestFirst returns an error if --newest-first is set without the flags that it requires.
func (c *Consume) checkNewestFirst() error {
	if !c.NewestFirst {
		return nil
	}
	if s, err := parseSink(c.Into); err == nil && !sinks.Backfills(s) {
		return exit.Usagef("--newest-first: %w: use sqlite: or postgres:", consumer.ErrNoBackfill)
	}
	if c.From != "beginning" && !strings.HasPrefix(c.From, "snapshot") {
		return exit.Usagef("--newest-first needs --from beginning or snapshot, not %s", c.From)
	}
	return nil
}

// sinkSpec checks the name of the sink, and adds --columns and --strict to it.
func (c *Consume) sinkSpec() (string, error) {
	s, err := parseSink(c.Into)
	if err != nil {
		return "", ofArgument(err)
	}
	if err := sinks.Check(s); err != nil {
		return "", ofArgument(exit.Usagef("--into: %w", err))
	}
	if c.Columns == "" && !c.Strict {
		return c.Into, nil
	}
	if s.Scheme != "postgres" && s.Scheme != "postgresql" {
		return "", exit.Usagef("--columns and --strict are for sinks in PostgreSQL")
	}
	if c.Columns != "" {
		s.Params.Add("columns", c.Columns)
	}
	if c.Strict {
		s.Params.Set("strict", "true")
	}
	if err := sinks.Check(s); err != nil {
		return "", exit.Usagef("--columns: %w", err)
	}
	return s.String(), nil
}

// A Consumed is the result of a run of [Consume].
type Consumed struct {
	URL  string `json:"url"`
	Into string `json:"into"`
	consumer.Stats
	Position feed.Position `json:"position"` // of the sink now
}

// Run consumes to the end of the feed or, with Follow, until ctx ends. The result is nil if the sink is
// "-", or if the run failed other than by the end of ctx.
func (c *Consume) Run(ctx context.Context, e *Env) (*Consumed, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	at, err := c.Client.Locate(ctx, e, c.Feed, layout.FeedPath, Access{Follow: c.Follow})
	if err != nil {
		return nil, err
	}
	job, err := c.job(e, at)
	if err != nil {
		return nil, err
	}
	into := sink.Redact(c.Into)
	if job.Sink, err = c.openSink(ctx, e); err != nil {
		return nil, err
	}
	e.AtEnd(job.Sink.Close, into)
	if consumer.AtLeastOnce(job.Sink) {
		e.Log.Warn("the sink keeps no position: entities may be repeated after a restart", "sink", into)
	}
	traced, observe := tracing.FromContext(ctx).Batches(ctx, at.Title, into)
	job.Observe = observe
	runCtx, end := context.WithCancelCause(traced)
	defer end(nil)
	job.Progress = func(p consumer.Progress) {
		c.oldest.Store(nil)
		c.set(p)
		e.reached("sink "+into, nil)
		if c.Quarantine.Exceeded(p.Rejected.Total(), p.Entities, false) {
			end(errQuarantine)
		}
	}
	job.Oldest = func(t time.Time) { c.oldest.Store(&t) }
	stats, err := job.Run(runCtx)
	if errors.Is(context.Cause(runCtx), errQuarantine) && exit.OnlyEnded(err) {
		err = nil // the check below reports it
	}
	err = hintUntil(Suggest(ctx, at, err))
	if c.Into == "-" || err != nil && ctx.Err() == nil {
		return nil, err
	}
	position, failed := positionOf(ctx, job.Sink, into)
	if failed != nil && ctx.Err() != nil { // the server of the sink may be unavailable
		e.Log.Warn("sink does not report its position", "error", failed)
		return nil, err
	}
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	if err == nil {
		where := "the table feedctl_quarantine has them, with the reasons"
		if stats.Refused > 0 {
			where = into + " refused them; the log has the reasons"
		}
		err = checkLimit(&c.Quarantine, stats.Rejected.Total(), stats.Entities, where)
	}
	return &Consumed{at.Title, into, stats, position}, err
}

func (c *Consume) openSink(ctx context.Context, e *Env) (consumer.Sink, error) {
	spec, err := c.sinkSpec()
	if err != nil {
		return nil, err
	}
	return locate.Wait(ctx, e.Log, locate.ForSink(c.Into, c.Follow && !e.FailFast), func() (consumer.Sink, error) {
		to, err := e.openSink(ctx, spec, c.IntoCredential)
		e.reached("sink "+sink.Redact(c.Into), err)
		return to, err
	})
}

func (c *Consume) job(e *Env, at *locate.Location) (job *consumer.Job, err error) {
	job = &consumer.Job{
		URL:           at.URL,
		OnGap:         gapPolicies[c.OnGap],
		Until:         parseUntil(c.Until),
		NewestFirst:   c.NewestFirst,
		KeyPointer:    c.Key,
		BatchEntities: c.BatchEntities,
		BatchBytes:    c.BatchBytes,
		Logger:        e.Log,
	}
	if at.Store != nil {
		job.Feed = at.Title
	}
	if job.From, job.SnapshotURL, err = at.Start(c.From); err != nil {
		return nil, err
	}
	if job.OnGap == consumer.GapSnapshot && job.SnapshotURL == "" {
		if job.SnapshotURL, err = at.Snapshot(""); err != nil {
			return nil, err
		}
	}
	at.Config.Follow, at.Config.Idle, at.Config.Announce = c.Follow, c.idle(e), announced(c.Announce, c.Into)
	at.Config.Retry.Failed = func(err error) {
		if errors.Is(err, consumer.ErrSinkUnavailable) {
			e.reached("sink "+sink.Redact(c.Into), err)
		}
	}
	at.Config.Searching = func(s consumer.Search) { c.searching.Store(&s) }
	e.TellMissing(at)
	job.Client, err = consumer.New(at.Config)
	return job, err
}

// idle returns a function to call when there is nothing more to consume. It returns nil if there is no one to tell,
// since finding out at once takes a request.
func (c *Consume) idle(e *Env) func() {
	if c.Idle == nil && e.Reached == nil {
		return nil
	}
	return func() {
		now := time.Now()
		c.caughtUp.Store(&now)
		e.reached("sink "+sink.Redact(c.Into), nil)
		if c.Idle != nil {
			c.Idle()
		}
	}
}

// CaughtUp returns when the feed last had nothing more to consume; zero if that is not known, such as
// without Follow. It may be called while the task runs.
func (c *Consume) CaughtUp() time.Time {
	if t := c.caughtUp.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// positionTimeout limits how long a run waits, at its end, for the position of the sink. Sinks know their position
// without a request, unless the last commit failed.
const positionTimeout = 5 * time.Second

// positionOf returns the position of a sink, even if ctx has ended.
func positionOf(ctx context.Context, to consumer.Sink, into string) (feed.Position, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), positionTimeout)
	defer cancel()
	position, err := to.Position(ctx)
	if err != nil {
		return position, fmt.Errorf("read position of %s: %w", into, err)
	}
	return position, nil
}

// Lag returns the age of the oldest entity of the feed that has not been consumed: 0 if there is
// none, negative if it is not known, such as while a feed is being read newest first. While only the
// newest entity is known, Lag returns its age. It may be called while the task runs.
func (c *Consume) Lag() time.Duration {
	p := c.Progress()
	if p.Position.Tail != nil {
		return -1
	}
	if oldest := c.oldest.Load(); oldest != nil {
		return max(0, time.Since(*oldest))
	}
	switch t := c.CaughtUp(); {
	case !t.IsZero() && t.After(p.Committed):
		return 0
	case p.Newest.IsZero():
		return -1
	case p.Newest.After(p.Position.LastModified):
		return max(0, time.Since(p.Newest))
	}
	return 0
}

// Status returns the progress, to be shown to users.
func (c *Consume) Status() progress.Status {
	s := c.counted.Status()
	if k := c.searching.Load(); k != nil && k.Pages > 0 {
		s.Search = &progress.Search{Pages: int64(k.Pages), At: k.At, Left: k.Left}
	}
	return s
}

// counted holds what a consumer has done so far.
type counted struct {
	last atomic.Pointer[consumer.Progress]
}

func (c *counted) set(p consumer.Progress) { c.last.Store(&p) }

// Progress returns the progress so far. It may be called while the task runs.
func (c *counted) Progress() consumer.Progress {
	if p := c.last.Load(); p != nil {
		return *p
	}
	return consumer.Progress{}
}

// Status returns the progress, to be shown to users.
func (c *counted) Status() progress.Status {
	p := c.Progress()
	s := progress.Status{Entities: p.Entities, Bytes: p.Bytes, Lag: p.Lag}
	if p.Newest.IsZero() {
		s.Lag = -1
	}
	return s
}
