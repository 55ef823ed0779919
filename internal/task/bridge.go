package task

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/couchdb"
	"github.com/feedctl/feedctl/consumer"
	couch "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/tracing"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage"
)

// A CouchSource holds the flags that say how to reach a database, and where a bridge keeps its index.
type CouchSource struct {
	URL string // of the database
	// Credential is the credential for the database.
	Credential  credential.Source
	Index       string
	MaxDocument int64
}

// Flags adds the flags.
func (s *CouchSource) Flags(flags *pflag.FlagSet) {
	s.Credential.Variable = "FEEDCTL_CREDENTIALS"
	flags.StringVar(&s.Credential.File, "credentials-file", "", "`FILE` with the credential for the database (default: the variable FEEDCTL_CREDENTIALS)")
	flags.StringVar(&s.Index, "index", "", "index `FILE` of the revisions in the feed (default: one in the user's cache directory); rebuilt from the feed if it is lost")
	units.SizeVar(flags, &s.MaxDocument, "max-document", 0, "put documents of more than this many `BYTES` into quarantine; 0: no limit")
}

func (s *CouchSource) check() error {
	_, err := locate.ParseURL(s.URL)
	problems := []error{ofArgument(err)}
	if s.MaxDocument < 0 {
		problems = append(problems, exit.Usagef("--max-document %d must not be negative", s.MaxDocument))
	}
	return errors.Join(problems...)
}

// sourceMemory is the size up to which a document is held in memory, in bytes.
const sourceMemory = 256 << 10

// Config returns c with the settings that a bridge from the database to a feed in a store needs.
func (s *CouchSource) Config(e *Env, at locate.Stored, store storage.Store, c couchdb.Config) (couchdb.Config, error) {
	if err := s.check(); err != nil {
		return c, err
	}
	auth, err := s.Credential.ReadCouch()
	if err != nil {
		return c, err
	}
	c.Source, err = couch.Open(couch.Config{HTTP: &http.Client{Transport: e.Transport}, URL: s.URL, Auth: auth, MaxWhole: sourceMemory, Log: e.Log})
	if err != nil {
		return c, exit.Usagef("%w", err)
	}
	c.Target = at.Identity()
	c.Store, c.Feed, c.Log, c.MaxDocument = store, at.Name, e.Log, s.MaxDocument
	c.Index, err = indexFile(s.Index, "couchdb", c.Target)
	return c, err
}

// indexFile returns the index file of a kind of bridge: one for each feed, unless a file is given.
func indexFile(given, kind, target string) (string, error) {
	if given != "" {
		return given, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", exit.Usagef("there is no cache directory (%w): give --index FILE", err)
	}
	sum := sha256.Sum256([]byte(target))
	return filepath.Join(dir, "feedctl", kind, fmt.Sprintf("%s.index", hex.EncodeToString(sum[:12]))), nil
}

// HintSource adds a remedy to an error if it is about the connection to the server of the source.
func HintSource(err error) error {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return exit.WithHint(err, "renewing or correcting the server's certificate, with its intermediate certificates; for a private authority, the variable SSL_CERT_FILE with its certificate")
	case errors.Is(err, http.ErrSchemeMismatch):
		return exit.WithHint(err, "http:// in the URL of the source, or another port")
	case errors.As(err, &network) && network.Op == "dial":
		return exit.WithHint(err, "another host or port in the URL of the source, or starting its server; --retries NUMBER waits for it")
	}
	return err
}

// A BridgeRun holds the flags that all bridges have, except those for the source.
type BridgeRun struct {
	Feed       string // NAME or STORE#NAME
	Follow     bool
	Retries    int
	Snapshot   bool // make a snapshot when all changes have been published
	Quarantine units.Limit
	Pages      PageLimits
	// Idle is called when the bridge waits for more changes; nil: never.
	Idle func()
}

func (b *BridgeRun) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&b.Follow, "follow", false, "wait for more at the end of the changes")
	flags.IntVar(&b.Retries, "retries", 0, "give up after this `NUMBER` of failed requests for changes in a row; negative: never (default 8, or never with --follow; at once if there is no server at the start)")
	flags.BoolVar(&b.Snapshot, "snapshot", false, "make a snapshot when all changes have been published")
	limitFlag(flags, &b.Quarantine)
	b.Pages.Flags(flags, "")
}

// open opens the store of the feed, and returns the store and the location of the feed in it.
func (b *BridgeRun) open(ctx context.Context, e *Env) (at locate.Stored, store storage.Store, err error) {
	if at, err = e.Parse(b.Feed); err != nil {
		return at, nil, err
	}
	store, err = e.OpenStore(ctx, at.Store, Access{Create: true, Follow: b.Follow})
	return at, store, err
}

// check returns an error if a run put too many entities into quarantine.
func (b *BridgeRun) check(p bridge.Progress) error {
	return checkLimit(&b.Quarantine, p.Quarantined, p.Published+p.Quarantined, `"feedctl bridge quarantine" lists them, with the reasons`)
}

// bridged describes the feed of a bridge.
type bridged struct {
	store       storage.Store
	feed, index string
	follow      bool
	version     fold.VersionFunc
}

// snapshotOfBridge makes a snapshot of the feed of a bridge. If the bridge follows, the feed need
// not exist.
func snapshotOfBridge(ctx context.Context, e *Env, of bridged) (*Snapshot, error) {
	index, err := fold.Feed(ctx, of.store, of.feed, fold.Config{Table: of.index + ".state", Version: of.version, Logger: e.Log})
	if of.follow && errors.Is(err, consumer.ErrNotFound) {
		e.Log.Warn("no snapshot was made, because the feed is empty", "feed", of.feed)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	made := SnapshotOf(of.feed, index, len(index.Pages))
	return &made, nil
}

func statusOfBridge(p bridge.Progress) progress.Status {
	return progress.Status{Entities: p.Published, Bytes: p.Bytes, Lag: -1, Pending: max(p.Pending, 0)}
}

// A BridgeCouchDB publishes the changes of a database to a feed in a store.
type BridgeCouchDB struct {
	BridgeRun
	Source   CouchSource
	LongPoll bool
	Options  couchdb.Options
	Filter   couchdb.Filter
	Moved    bool

	attachments, selector string // flags for Options and Filter
	query                 []string
	job                   couchdb.Job
}

// Flags adds the flags.
func (b *BridgeCouchDB) Flags(flags *pflag.FlagSet) {
	b.BridgeRun.flags(flags)
	b.Source.Flags(flags)
	flags.BoolVar(&b.LongPoll, "long-poll", false, "with --follow: use one request for each change, for proxies that buffer streams")
	flags.BoolVar(&b.Options.Revs, "revs", false, "put the ancestors of each revision into the document, as _revisions")
	flags.BoolVar(&b.Options.Conflicts, "conflicts", false, "publish every leaf revision, not only the winner; for replication to CouchDB")
	flags.StringVar(&b.attachments, "attachments", string(couchdb.Stub), "`FORM` of attachments: none, stub (type, size and digest), inline (base64 in the document) or multipart (of any size)")
	flags.BoolVar(&b.Options.DesignDocs, "design-docs", false, "publish design documents too")
	flags.StringVar(&b.Filter.Name, "filter", "", "publish documents that pass the filter function `DESIGN/NAME`")
	flags.StringVar(&b.Filter.View, "view", "", "publish documents in the view `DESIGN/NAME`")
	flags.StringVar(&b.selector, "selector", "", "publish documents that match a `JSON` selector")
	flags.StringArrayVar(&b.Filter.DocIDs, "doc-id", nil, "publish the document `ID` only; may be given several times")
	flags.StringArrayVar(&b.query, "query", nil, "`NAME=VALUE` for the filter function; may be given several times")
	flags.BoolVar(&b.Moved, "moved", false, "continue the feed with a database that has moved, read from its beginning; for one run")
}

// Check returns an error if an argument or a flag is invalid. It does not use the network.
func (b *BridgeCouchDB) Check() error {
	_, err := b.config()
	return errors.Join(b.Source.check(), checkStored(b.Feed), err)
}

// config turns the flags into the settings of a bridge.
func (b *BridgeCouchDB) config() (couchdb.Config, error) {
	c := couchdb.Config{
		Options:  b.Options,
		Filter:   b.Filter,
		Follow:   b.Follow,
		LongPoll: b.LongPoll,
		Idle:     b.Idle,
		Moved:    b.Moved,
		Producer: b.Pages.config(),
	}
	c.Attachments = couchdb.Attachments(b.attachments)
	problems := []error{b.Pages.Check()}
	if b.Snapshot && b.Options.Conflicts && !b.Options.Revs {
		problems = append(problems, exit.Usagef("--snapshot with --conflicts needs --revs: without it, it is unknown which revisions are leaves"))
	}
	if b.LongPoll && !b.Follow {
		problems = append(problems, exit.Usagef("--long-poll is for --follow"))
	}
	if b.selector != "" {
		c.Filter.Selector = json.RawMessage(b.selector)
	}
	for _, parameter := range b.query {
		name, value, ok := strings.Cut(parameter, "=")
		if !ok || name == "" {
			problems = append(problems, exit.Usagef("--query %q is not NAME=VALUE", parameter))
			continue
		}
		if c.Filter.Query == nil {
			c.Filter.Query = url.Values{}
		}
		c.Filter.Query.Add(name, value)
	}
	check := func(flag string, part couchdb.Config) bool {
		err := part.Check()
		if err != nil {
			problems = append(problems, exit.Usagef("%s: %w", flag, err))
		}
		return err == nil
	}
	check("--attachments", couchdb.Config{Options: couchdb.Options{Attachments: c.Attachments}})
	selector := check("--selector", couchdb.Config{Filter: couchdb.Filter{Selector: c.Filter.Selector}})
	if query := check("--query", couchdb.Config{Filter: couchdb.Filter{Query: c.Filter.Query}}); selector && query {
		check("--filter, --view, --selector and --doc-id", couchdb.Config{Filter: c.Filter})
	}
	return c, errors.Join(problems...)
}

// A Replication is the result of CouchDB's replication protocol ("Replication Completed"), with a
// few additions. The history has the sessions of this run, newest first: two if it continued after
// a snapshot.
type Replication struct {
	OK bool `json:"ok"`
	couchdb.Report
	Source   string    `json:"source"` // URL of the database
	Feed     string    `json:"feed"`
	Snapshot *Snapshot `json:"snapshot,omitempty"`
}

// Run publishes the changes that exist and, with Follow, those that come until ctx ends. The
// result is nil if the run failed, but not if ctx has ended.
func (b *BridgeCouchDB) Run(ctx context.Context, e *Env) (*Replication, error) {
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
	result := &Replication{Source: b.Source.URL, Feed: at.Name}
	b.job.Config = config
	if b.Snapshot {
		b.job.CaughtUp = func(ctx context.Context) (err error) {
			result.Snapshot, err = snapshotOfBridge(ctx, e, bridged{store: store, feed: at.Name, index: config.Index, follow: b.Follow, version: versionsOf(config.Conflicts)})
			return err
		}
	}
	result.Report, err = b.job.Run(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		return nil, HintSource(err)
	case err != nil:
		return result, err
	}
	result.OK = true
	return result, b.check(result.Progress)
}

// Progress returns the progress so far. It may be called while the task runs.
func (b *BridgeCouchDB) Progress() bridge.Progress { return b.job.Progress() }

// Status returns the progress, to be shown to users.
func (b *BridgeCouchDB) Status() progress.Status { return statusOfBridge(b.Progress()) }
