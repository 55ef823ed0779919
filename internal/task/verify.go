package task

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/verify"
)

// A Verify checks a feed or a snapshot against the specification.
type Verify struct {
	Feed   string // URL, NAME or STORE#NAME
	Client Client
	Index  bool // check a snapshot
	State  string
}

// Flags adds the flags.
func (v *Verify) Flags(flags *pflag.FlagSet) {
	flags.BoolVar(&v.Index, "index", false, "check a snapshot, whatever the server says it is")
	flags.StringVar(&v.State, "state", "", "`FILE` that keeps what the pages were, from one run to the next; not for snapshots and stores")
	v.Client.RequestFlags(flags)
	v.Client.OriginFlags(flags)
}

// Check returns what is wrong with the arguments and flags. It uses no network.
func (v *Verify) Check() error {
	if v.Index && v.State != "" {
		return exit.Usagef("--state is for feeds, --index for snapshots, which never change")
	}
	if err := v.Client.Check(); err != nil {
		return err
	}
	return checkArgument(v.Feed)
}

// Run checks the feed or snapshot. With violations, there is an error beside the report.
func (v *Verify) Run(ctx context.Context, e *Env) (*verify.Report, error) {
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
		return nil, exit.Usagef("--state is for feeds on a server: what is in the store has digests")
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
	if index && v.State != "" {
		return nil, exit.Usagef("--state is for feeds: there is a snapshot at %s, which never changes", at.URL)
	}
	report, err := verifyAt(ctx, at, index, config)
	if err != nil {
		return nil, Suggest(ctx, at, err)
	}
	if at.Store != nil {
		report.URL = at.Title
	}
	if n := len(report.Violations) + report.Omitted; n > 0 {
		return report, exit.Errorf(exit.Invalid, "verify %s: the specification is broken: %s", v.Feed, human.Plural(int64(n), "violation", "violations"))
	}
	return report, verify.WriteState(v.State, report.State)
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

// Status returns no progress: none is known.
func (v *Verify) Status() progress.Status { return progress.Status{Lag: -1} }
