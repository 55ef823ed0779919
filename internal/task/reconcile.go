package task

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/restore"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinks"
)

// A Reconcile compares the contents of a sink with the state of its feed, and repairs the sink.
type Reconcile struct {
	Feed string // URL, NAME or STORE#NAME
	Into string // the sink; see package sink
	// IntoCredential is the credential for a sink in CouchDB or Kinto.
	IntoCredential credential.Source
	Client         Client
	Columns        string
	Key            string
	Prefix         string
	All            bool
	Repair         bool
	MaxDeletes     units.Limit
	// Found, if not nil, is called for each key that differs and, if All is true, for all other keys,
	// too.
	Found func(reconcile.Line) error

	progress atomic.Pointer[reconcile.Progress]
}

// Flags adds the flags.
func (r *Reconcile) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&r.Into, "into", "", "`SINK` to compare, as for consume")
	flags.StringVar(&r.Columns, "columns", "", "`COLUMNS` of the table, as for consume")
	IntoFlags(flags, &r.IntoCredential)
	flags.StringVar(&r.Key, "key", "", keyUsage)
	flags.StringVar(&r.Prefix, "prefix", "", "compare only keys that begin with `PREFIX`")
	flags.BoolVar(&r.All, "all", false, "list equal keys too")
	flags.BoolVar(&r.Repair, "repair", false, "write again what differs, and delete what the feed does not have")
	_ = r.MaxDeletes.Set("1%")
	flags.Var(&r.MaxDeletes, "max-deletes", "with --repair: do nothing if it would delete more than this `NUMBER` of rows, or P% of them")
	r.Client.Flags(flags)
}

// Check returns an error if an argument or a flag is invalid. It does not use the network.
func (r *Reconcile) Check() error {
	_, err := r.spec()
	return errors.Join(checkArgument(r.Feed), err, CheckPointer("--key", r.Key), r.Client.Check())
}

// spec checks the name of the sink, and adds --columns to it.
func (r *Reconcile) spec() (string, error) {
	c := Consume{Into: r.Into, Columns: r.Columns}
	spec, err := c.sinkSpec()
	if err != nil {
		return "", err
	}
	s, err := sink.ParseSpec(spec)
	if err == nil {
		err = sinks.CheckReconcile(s, r.Repair)
	}
	if err != nil {
		return "", ofArgument(exit.Usagef("--into: %w", err))
	}
	return spec, nil
}

// A Reconciled is the result of a [Reconcile].
type Reconciled struct {
	URL  string `json:"url"`
	Into string `json:"into"`
	*reconcile.Report
	// List holds the first thousand keys that were reported, in that order; Omitted counts the others.
	List    []Difference `json:"differences"`
	Omitted int64        `json:"omitted,omitempty"`
}

// maxDifferences is how many differences are kept for the result.
const maxDifferences = 1000

// A Difference says whether and how a key differs; see [reconcile.Kind].
type Difference struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
	Why  string `json:"why,omitempty"`
}

// add adds a line about a key.
func (r *Reconciled) add(l reconcile.Line) {
	if len(r.List) == maxDifferences {
		r.Omitted++
		return
	}
	r.List = append(r.List, Difference{string(rune(l.Kind)), l.Key, l.Why})
}

// Run compares and repairs. If the sink still differs at the end, it returns an error along with the
// result.
func (r *Reconcile) Run(ctx context.Context, e *Env) (*Reconciled, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	spec, err := r.spec()
	if err != nil {
		return nil, err
	}
	at, err := r.Client.Locate(ctx, e, r.Feed, layout.FeedPath, Access{})
	if err != nil {
		return nil, err
	}
	result := &Reconciled{URL: at.Title, Into: sink.Redact(r.Into), List: []Difference{}}
	client, err := consumer.New(at.Config)
	if err != nil {
		return nil, err
	}
	found := func(l reconcile.Line) error {
		result.add(l)
		if r.Found == nil {
			return nil
		}
		return r.Found(l)
	}
	log, err := sinks.OpenLog(ctx, spec)
	switch {
	case err != nil:
		return nil, err
	case log != nil:
		result.Report, err = reconcile.RunLog(ctx, reconcile.LogConfig{Client: client, URL: at.URL, Found: found, Progress: r.setProgress}, log)
		err = errors.Join(err, log.Close())
	default:
		result.Report, err = r.compare(ctx, e, at, reconcile.Config{Client: client, Found: found}, spec)
		if ofRevisions(err) && strings.HasPrefix(spec, "couchdb:") && !r.Repair && r.Prefix == "" {
			report, failed := r.compareRevisions(ctx, e, at, client, spec, found)
			if !errors.Is(failed, restore.ErrNoRevisions) {
				result.Report, err = report, failed
			}
		}
	}
	if result.Report == nil {
		return nil, r.hint(Suggest(ctx, at, err))
	}
	if n := result.Remaining(); n > 0 && err == nil {
		err = exit.Errorf(exit.Differs, "%s differs from the feed in %s", result.Into, human.Plural(n, "key", "keys"))
	}
	return result, r.hint(err)
}

// compare compares the feed with a sink that has keys, and repairs the sink.
func (r *Reconcile) compare(ctx context.Context, e *Env, at *locate.Location, c reconcile.Config, spec string) (*reconcile.Report, error) {
	c.URL, c.KeyPointer, c.Prefix, c.All = at.URL, r.Key, r.Prefix, r.All
	c.MaxDeletes = func(deletes, rows int64) bool { return r.MaxDeletes.Exceeded(deletes, rows, true) }
	c.Progress = r.setProgress
	var err error
	if c.Digest, err = at.Digest(ctx, c.Client); errors.Is(err, consumer.ErrNoDigest) {
		_, missing := c.Client.Newest(ctx, at.URL) // the feed may not exist
		return nil, cmp.Or(missing, err)
	} else if err != nil {
		return nil, err
	}
	if err := r.open(ctx, e, spec, &c); err != nil {
		return nil, err
	}
	return reconcile.Run(ctx, c)
}

func (r *Reconcile) setProgress(p reconcile.Progress) { r.progress.Store(&p) }

// open opens the sink for reading and, if it is to be repaired, as a consumer does. It creates nothing.
func (r *Reconcile) open(ctx context.Context, e *Env, spec string, c *reconcile.Config) error {
	o, err := e.SinkOptions(spec, r.IntoCredential)
	if err != nil {
		return err
	}
	c.Open = func(ctx context.Context) (reconcile.Contents, error) { return sinks.OpenContents(ctx, spec, o) }
	if !r.Repair {
		return nil
	}
	contents, err := c.Open(ctx) // a consumer would create a sink that does not exist
	if err == nil {
		err = contents.Close()
	}
	if err != nil {
		return err
	}
	if c.Sink, err = e.openSink(ctx, spec, r.IntoCredential); err != nil {
		return err
	}
	e.AtEnd(c.Sink.Close, sink.Redact(r.Into))
	return nil
}

func (r *Reconcile) hint(err error) error {
	switch {
	case errors.Is(err, consumer.ErrNoDigest):
		return exit.WithHint(err, "\"feedctl digest FEED\" where the feed is published")
	case errors.Is(err, reconcile.ErrBehind), errors.Is(err, reconcile.ErrFilling):
		return exit.WithHint(err, "\"feedctl consume\" with the same feed and sink, and then this command again")
	case errors.Is(err, reconcile.ErrGone):
		return exit.WithHint(exit.Errorf(exit.Gap, "%w", err), "\"feedctl consume\" with the same feed and sink, which says what has become of the feed")
	case errors.Is(err, reconcile.ErrDeletes):
		return exit.WithHint(err, "checking the lines with \"-\"; then --max-deletes NUMBER or P%, to allow that many")
	case errors.Is(err, reconcile.ErrVersions):
		return exit.WithHint(err, "\"feedctl restore\" into a new database, which it compares with the feed")
	case errors.Is(err, reconcile.ErrShared):
		return exit.WithHint(err, "--prefix PREFIX")
	}
	return err
}

// Status returns the progress, to be shown to users.
func (r *Reconcile) Status() progress.Status {
	p := r.progress.Load()
	if p == nil {
		return progress.Status{Lag: -1}
	}
	return progress.Status{Entities: p.Rows, Pending: max(p.Total-p.Keys, 0), Lag: -1}
}
