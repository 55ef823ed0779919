package task

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/bridge"
	bridgekinto "github.com/feedctl/feedctl/bridge/kinto"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/tracing"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
)

// A KintoSource holds the flags that say how to reach a collection, and where a bridge keeps its index.
type KintoSource struct {
	URL string // of the collection
	// Credential is the credential for the server.
	Credential credential.Source
	Index      string
	MaxRecord  int64
}

// Flags adds the flags.
func (s *KintoSource) Flags(flags *pflag.FlagSet) {
	s.Credential.Variable = "FEEDCTL_CREDENTIALS"
	flags.StringVar(&s.Credential.File, "credentials-file", "", "`FILE` with the credential for the server (default: the variable FEEDCTL_CREDENTIALS)")
	flags.StringVar(&s.Index, "index", "", "index `FILE` of the records in the feed, or for a bucket a directory of such files (default: in the user's cache directory); rebuilt from the feed if it is lost")
	units.SizeVar(flags, &s.MaxRecord, "max-record", 0, "put records and attachments of more than this many `BYTES` into quarantine; 0: no limit, except 8MiB for records")
}

func (s *KintoSource) check() error {
	_, err := parseCollection(s.URL)
	return errors.Join(ofArgument(err), s.checkLimits())
}

func (s *KintoSource) checkLimits() error {
	if s.MaxRecord < 0 {
		return exit.Usagef("--max-record %d must not be negative", s.MaxRecord)
	}
	return nil
}

// parseCollection checks the URL of a collection.
func parseCollection(raw string) (kinto.Address, error) {
	u, err := locate.ParseURL(raw)
	if err != nil {
		return kinto.Address{}, err
	}
	a, err := kinto.ParseURL(u.String())
	switch {
	case err != nil:
		return a, exit.Usagef("%w", err)
	case a.Collection == "":
		return a, exit.Usagef("%s is not the URL of a collection: want https://HOST/v1/buckets/BUCKET/collections/COLLECTION", sink.Redact(raw))
	}
	return a, nil
}

// Config returns c with the settings that a bridge from the collection to a feed in a store needs.
func (s *KintoSource) Config(e *Env, at locate.Stored, store storage.Store, c bridgekinto.Config) (bridgekinto.Config, error) {
	if err := s.check(); err != nil {
		return c, err
	}
	client, err := s.client(e)
	if err != nil {
		return c, err
	}
	if c.Source, err = kinto.Open(client); err != nil {
		return c, exit.Usagef("%w", err)
	}
	c.Store, c.Feed, c.Log, c.MaxRecord = store, at.Name, e.Log, s.MaxRecord
	c.Index, err = indexFile(s.Index, "kinto", at.Identity())
	return c, err
}

// client returns the configuration of a client.
func (s *KintoSource) client(e *Env) (kinto.Config, error) {
	auth, err := s.Credential.ReadKinto()
	return kinto.Config{HTTP: &http.Client{Transport: e.Transport}, URL: s.URL, Auth: auth, Log: e.Log}, err
}

// A BridgeKinto publishes the changes of a collection to a feed in a store, or those of the
// collections of a bucket.
type BridgeKinto struct {
	BridgeRun      // for a bucket, a "*" in the name of the feed stands for the name of the collection
	Source         KintoSource
	Collections    []string // patterns, for a bucket
	Interval       time.Duration
	Window         time.Duration
	Reconcile      string // a time, or "never"
	TombstonesKept time.Duration
	MaxGone        int
	NewestFirst    bool
	Mark           bool
	Moved          bool

	attachments, onGone string
	job                 bridgekinto.Job
	bucket              bridgekinto.Bucket
}

// Flags adds the flags.
func (b *BridgeKinto) Flags(flags *pflag.FlagSet) {
	b.BridgeRun.flags(flags)
	b.Source.Flags(flags)
	flags.StringArrayVar(&b.Collections, "collections", nil, "publish the collections of a bucket that match `PATTERN`, such as 'blog-*'; may be given several times (default: all)")
	units.DurationVar(flags, &b.Interval, "interval", 10*time.Second, "with --follow: ask for changes at intervals of this `TIME`")
	units.DurationVar(flags, &b.Window, "window", time.Minute, "read changes again for this `TIME`, longer than any request of a writer takes: changes may become visible late")
	flags.StringVar(&b.Reconcile, "reconcile", "24h", "compare all ids with the feed once per `PERIOD`, a time or never; with never, only if there is a sign that something is missing")
	units.DurationVar(flags, &b.TombstonesKept, "tombstones-kept", 0, "compare all ids if no changes were read for this `TIME`: how long the server keeps tombstones; 0: for ever")
	flags.StringVar(&b.onGone, "on-gone", string(bridgekinto.Stop), "`POLICY` if the collection does not exist: stop, or delete its records from the feed")
	flags.IntVar(&b.MaxGone, "max-gone", 20, "stop if more than this `PERCENT` of the records, and more than 100, are gone without a tombstone")
	flags.BoolVar(&b.NewestFirst, "newest-first", false, "publish the newest records first if the feed is empty")
	flags.BoolVar(&b.Mark, "mark", false, "write a random value into the metadata of the collection, to notice that it was replaced, or restored from a backup older than that; needs the right to write it")
	flags.StringVar(&b.attachments, "attachments", string(bridgekinto.Stub), "`FORM` of attachments: none, stub (location, size and SHA-256) or inline (an entity of its own)")
	flags.BoolVar(&b.Moved, "moved", false, "continue the feed with the same collection at another URL; for one run")
}

// Check returns an error if an argument or a flag is invalid. It does not use the network.
func (b *BridgeKinto) Check() error {
	_, err := b.config()
	if b.OfBucket() {
		return errors.Join(b.checkBucket(), err)
	}
	problems := []error{b.Source.check(), checkStored(b.Feed), err}
	if len(b.Collections) > 0 {
		problems = append(problems, exit.Usagef("--collections is for the URL of a bucket: https://HOST/v1/buckets/BUCKET"))
	}
	return errors.Join(problems...)
}

// config turns the flags into the settings of a bridge.
func (b *BridgeKinto) config() (bridgekinto.Config, error) {
	c := bridgekinto.Config{
		Attachments:    bridgekinto.Attachments(b.attachments),
		OnGone:         bridgekinto.OnGone(b.onGone),
		MaxGone:        b.MaxGone,
		Reconcile:      bridgekinto.Never,
		TombstonesKept: b.TombstonesKept,
		Window:         b.Window,
		NewestFirst:    b.NewestFirst,
		Mark:           b.Mark,
		Moved:          b.Moved,
		Follow:         b.Follow,
		Interval:       b.Interval,
		Idle:           b.Idle,
		Producer:       b.Pages.config(),
	}
	problems := []error{b.Pages.Check()}
	if b.Reconcile != "never" {
		var every units.Duration
		if err := every.Set(b.Reconcile); err != nil {
			problems = append(problems, exit.Usagef("--reconcile %q is neither never nor a time: %w", b.Reconcile, err))
		}
		c.Reconcile = time.Duration(every)
	}
	for name, value := range map[string]time.Duration{"interval": b.Interval, "window": b.Window, "reconcile": c.Reconcile} {
		if value == 0 || value < 0 && value != bridgekinto.Never {
			problems = append(problems, exit.Usagef("--%s must be positive", name))
		}
	}
	if b.MaxGone < 1 || b.MaxGone > 100 {
		problems = append(problems, exit.Usagef("--max-gone %d must be from 1 to 100", b.MaxGone))
	}
	if err := (&bridgekinto.Config{Attachments: c.Attachments}).Check(); err != nil {
		problems = append(problems, exit.Usagef("--attachments: %w", err))
	}
	if err := (&bridgekinto.Config{OnGone: c.OnGone}).Check(); err != nil {
		problems = append(problems, exit.Usagef("--on-gone: %w", err))
	}
	return c, errors.Join(problems...)
}

// A KintoBridged is the result of a run of [BridgeKinto].
type KintoBridged struct {
	OK          bool      `json:"ok"`
	Source      string    `json:"source"` // URL of the collection
	Feed        string    `json:"feed"`
	Published   int64     `json:"published"` // entities
	Quarantined int64     `json:"quarantined"`
	Repeated    int64     `json:"repeated"` // entities that were in the feed already
	Snapshot    *Snapshot `json:"snapshot,omitempty"`
	Error       string    `json:"error,omitempty"` // only for the collections of a bucket
}

// Run publishes the changes that exist and, with Follow, those that come until ctx ends. The
// result is nil if the run failed, but not if ctx has ended.
func (b *BridgeKinto) Run(ctx context.Context, e *Env) (*KintoBridged, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	config, err := b.config()
	if err != nil {
		return nil, err
	}
	config.Attempts = e.attempts(b.Retries)
	config.Producer.Observe = tracing.FromContext(ctx).Writes()
	at, store, err := b.open(ctx, e)
	if err != nil {
		return nil, err
	}
	if config, err = b.Source.Config(e, at, store, config); err != nil {
		return nil, err
	}
	result := &KintoBridged{Source: sink.Redact(b.Source.URL), Feed: at.Name}
	b.job.Config = config
	if b.Snapshot {
		b.job.CaughtUp = func(ctx context.Context) (err error) {
			result.Snapshot, err = snapshotOfBridge(ctx, e, bridged{store: store, feed: at.Name, index: config.Index, follow: b.Follow})
			return err
		}
	}
	report, err := b.job.Run(ctx)
	result.Published, result.Quarantined, result.Repeated = report.Published, report.Quarantined, report.Repeated
	switch {
	case err != nil && ctx.Err() == nil:
		return nil, hintKinto(err)
	case err != nil:
		return result, err
	}
	result.OK = true
	return result, b.check(report.Progress)
}

// hintKinto adds a remedy to an error that stops a bridge.
func hintKinto(err error) error {
	switch {
	case errors.Is(err, bridgekinto.ErrGone):
		return exit.WithHint(err, "another URL; or, if the collection was deleted, --on-gone delete, which deletes its records from the feed")
	case errors.Is(err, bridgekinto.ErrManyGone):
		return exit.WithHint(err, "another URL or credential, if the records still exist; or, to delete them from the feed, --max-gone 100 for one run")
	case errors.Is(err, bridgekinto.ErrRights):
		return exit.WithHint(err, "a credential with the right to read the collection: --credentials-file FILE or FEEDCTL_CREDENTIALS; or another URL, if the bucket does not exist")
	}
	return HintSource(err)
}

// Progress returns the progress so far. It may be called while the task runs.
func (b *BridgeKinto) Progress() bridge.Progress {
	if b.OfBucket() {
		return b.bucket.Progress()
	}
	return b.job.Progress()
}

// Status returns the progress, to be shown to users.
func (b *BridgeKinto) Status() progress.Status { return statusOfBridge(b.Progress()) }
