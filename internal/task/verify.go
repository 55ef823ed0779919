package task

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/against"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/verify"
)

// A Verify checks a feed or a snapshot against the specification, and a feed against its source.
type Verify struct {
	Feed   string // URL, NAME or STORE#NAME
	Client Client
	Index  bool // check a snapshot
	State  string
	// Against is the source to compare with, such as kinto:URL; "": none.
	Against string
	// AgainstCredential is the credential for the source.
	AgainstCredential credential.Source
	Deep              bool
	From              string
}

// Flags adds the flags.
func (v *Verify) Flags(flags *pflag.FlagSet) {
	flags.BoolVar(&v.Index, "index", false, "check a snapshot, even if the server does not say that it is one")
	flags.StringVar(&v.State, "state", "", "`FILE` in which to remember the pages from one run to the next; not for snapshots and stores")
	flags.StringVar(&v.Against, "against", "", "compare what the feed has for each key with its `SOURCE` or a copy: couchdb:URL, kinto:URL or the URL of an outbox")
	v.AgainstCredential.Variable = "FEEDCTL_AGAINST_CREDENTIALS"
	flags.StringVar(&v.AgainstCredential.File, "against-credentials-file", "", "`FILE` with the credential for the source (default: the variable FEEDCTL_AGAINST_CREDENTIALS)")
	flags.BoolVar(&v.Deep, "deep", false, "with --against: compare bodies too, as JSON values")
	flags.StringVar(&v.From, "from", "beginning", "with --against: `WHERE` a new consumer has to begin: beginning, snapshot or snapshot:URL")
	v.Client.RequestFlags(flags)
	v.Client.OriginFlags(flags)
}

// Check returns an error if an argument or a flag is invalid. It does not use the network.
func (v *Verify) Check() error {
	problems := []error{checkArgument(v.Feed), v.Client.Check()}
	if v.Index && v.State != "" {
		problems = append(problems, exit.Usagef("--state is for feeds, --index for snapshots, which never change"))
	}
	if v.From != "beginning" && v.From != "snapshot" && !strings.HasPrefix(v.From, "snapshot:") {
		problems = append(problems, exit.Usagef("--from %q is not one of beginning, snapshot, snapshot:URL", v.From))
	}
	switch {
	case v.Against == "" && (v.Deep || v.From != "beginning"):
		problems = append(problems, exit.Usagef("--deep and --from are for --against"))
	case v.Against != "" && v.Index:
		problems = append(problems, exit.Usagef("--against is for feeds, --index for snapshots"))
	case v.Against != "":
		_, _, err := v.parseAgainst()
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// parseAgainst returns the kind and the URL of the source or copy to compare with.
func (v *Verify) parseAgainst() (scheme, address string, err error) {
	scheme, address, _ = strings.Cut(v.Against, ":")
	shown := sink.Redact(address)
	switch {
	case scheme == "postgres" || scheme == "postgresql":
		_, err = locate.ParseDatabase("--against", v.Against)
		return "postgres", v.Against, err
	case scheme != "kinto" && scheme != "couchdb" || !locate.IsWeb(address):
		return "", "", exit.Usagef("--against %s: want couchdb:https://HOST/DATABASE, kinto:https://HOST/v1/buckets/BUCKET/collections/COLLECTION "+
			"or the --db of an outbox", sink.Redact(v.Against))
	case shown != address:
		return "", "", exit.WithHint(
			exit.Usagef("--against %s:%s contains credentials, which other users of this machine can see", scheme, shown),
			"--against-credentials-file FILE, or the variable FEEDCTL_AGAINST_CREDENTIALS, with a line \"basic USER:PASSWORD\"",
		)
	case scheme == "couchdb" && v.Deep:
		return "", "", exit.Usagef("--deep is not for couchdb:, where a revision identifies the body")
	case scheme == "couchdb":
		_, err = couchdb.Open(couchdb.Config{URL: address})
	default:
		_, err = kinto.Open(kinto.Config{URL: address})
	}
	if err != nil {
		return "", "", exit.Usagef("--against: %w", err)
	}
	return scheme, address, nil
}

// source opens the source or copy to compare the feed with.
func (v *Verify) source(ctx context.Context, e *Env, at *locate.Location) (against.Source, error) {
	scheme, address, err := v.parseAgainst()
	if err != nil {
		return nil, err
	}
	http := &http.Client{Transport: e.Transport}
	switch scheme {
	case "postgres":
		name := at.Name
		if at.Store == nil {
			_, name, _ = strings.Cut(at.URL, layout.FeedPath(""))
		}
		db, err := (&Outbox{DB: address}).Open(ctx, e, Access{})
		return against.Table{Outbox: db, Feed: name}, err
	case "couchdb":
		auth, err := v.AgainstCredential.ReadCouch()
		if err != nil {
			return nil, err
		}
		db, err := couchdb.Open(couchdb.Config{URL: address, Auth: auth, HTTP: http, Log: e.Log})
		return against.CouchDB{DB: db}, err
	}
	auth, err := v.AgainstCredential.ReadKinto()
	if err != nil {
		return nil, err
	}
	collection, err := kinto.Open(kinto.Config{URL: address, Auth: auth, HTTP: http, MaxRecord: maxAgainst, Log: e.Log})
	return against.Kinto{Collection: collection}, err
}

// A Verified is the result of a [Verify].
type Verified struct {
	*verify.Report
	Against *against.Report `json:"against,omitempty"` // set only if there were no violations
}

// Run checks the feed or snapshot. If there are violations or differences, it returns an error
// along with the result.
func (v *Verify) Run(ctx context.Context, e *Env) (*Verified, error) {
	if err := v.Check(); err != nil {
		return nil, err
	}
	path := layout.FeedPath
	if v.Index {
		path = layout.SnapshotPath
	}
	at, err := v.Client.Locate(ctx, e, v.Feed, path, Access{})
	if err != nil {
		return nil, err
	}
	if v.State != "" && at.Store != nil {
		return nil, exit.Usagef("--state is for feeds on a server: feeds in a store have digests")
	}
	config := verify.Config{
		HTTPClient:   at.Config.HTTPClient,
		Credentials:  verify.Credentials(at.Config.Credentials),
		Header:       at.Config.Header,
		AllowOrigins: at.Config.AllowOrigins,
		KeepState:    v.State != "",
	}
	if config.Since, err = verify.ReadState(v.State); err != nil {
		return nil, err
	}
	index := v.Index || at.Store == nil && verify.IsIndex(ctx, at.URL, config)
	if index && (v.State != "" || v.Against != "") {
		return nil, exit.Usagef("--state and --against are for feeds: there is a snapshot at %s, which never changes", at.URL)
	}
	report, err := verifyAt(ctx, at, index, config)
	if err != nil {
		return nil, Suggest(ctx, at, err)
	}
	if at.Store != nil {
		report.URL = at.Title
	}
	result := &Verified{Report: report}
	if n := len(report.Violations) + report.Omitted; n > 0 {
		return result, exit.Errorf(exit.Invalid, "verify %s: the specification is violated: %s", v.Feed, human.Plural(int64(n), "violation", "violations"))
	}
	if err := verify.WriteState(v.State, report.State); err != nil || v.Against == "" {
		return result, err
	}
	if result.Against, err = v.compare(ctx, e, at); err != nil {
		return nil, err
	}
	if n := result.Against.Count(); n > 0 {
		return result, exit.Errorf(exit.Invalid, "verify %s: it differs from %s: %s", v.Feed, v.Against, human.Plural(n, "difference", "differences"))
	}
	return result, nil
}

// maxAgainst is the size in bytes of the largest record that is read for a comparison. Sinks write
// records of up to 48 MiB.
const maxAgainst = 64 << 20

// compare compares a feed with its source, or with a copy.
func (v *Verify) compare(ctx context.Context, e *Env, at *locate.Location) (*against.Report, error) {
	source, err := v.source(ctx, e, at)
	if err != nil {
		return nil, err
	}
	_, isTable := source.(against.Table)
	c := against.Config{Source: source, URL: at.URL, Deep: v.Deep || isTable, Log: e.Log}
	if at.Store != nil {
		c.Feed = at.Title
	}
	if c.From, _, err = at.Start(v.From); err != nil {
		return nil, err
	}
	if c.Client, err = consumer.New(at.Config); err != nil {
		return nil, err
	}
	report, err := against.Compare(ctx, c)
	if errors.Is(err, against.ErrNoVersion) {
		err = exit.WithHint(err, "--deep, which compares the bodies")
	}
	return report, HintOutbox(HintSource(err))
}

func verifyAt(ctx context.Context, at *locate.Location, index bool, config verify.Config) (*verify.Report, error) {
	switch {
	case index && at.Store != nil:
		return verify.StoreSnapshot(ctx, at.Store, at.Name, at.Base())
	case index:
		return verify.Snapshot(ctx, at.URL, config)
	case at.Store != nil:
		return verify.Store(ctx, at.Store, at.Name, at.Base())
	}
	return verify.Feed(ctx, at.URL, config)
}
