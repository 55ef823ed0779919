package task

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/bridge/couchdb"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/retention/maintain"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage"
)

// A Retain carries out the retention policy of a feed once.
type Retain struct {
	Feed   string // NAME or STORE#NAME
	Tables string
	DryRun bool // only report

	counted
}

// Flags adds the flags.
func (r *Retain) Flags(flags *pflag.FlagSet) { TablesVar(flags, &r.Tables) }

// TablesVar adds the flag for the directory that is passed to [Maintenance].
func TablesVar(flags *pflag.FlagSet, dir *string) {
	flags.StringVar(dir, "tables", "", "keep the state of each feed in `DIR`, so that the next snapshot reads only new entities (default: a temporary file)")
}

// Check returns an error if an argument is invalid. It does not use the network.
func (r *Retain) Check() error { return checkStored(r.Feed) }

// A Retained is the result of a run of [Retain].
type Retained struct {
	Feed   string          `json:"feed"`
	Policy RetentionPolicy `json:"policy"`
	DryRun bool            `json:"dryRun"` // nothing was done
	maintain.Report
}

// Run carries out the policy.
func (r *Retain) Run(ctx context.Context, e *Env) (*Retained, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	store, name, err := e.OpenNamed(ctx, r.Feed)
	if err != nil {
		return nil, err
	}
	config, err := Maintenance(e, r.Tables, r.set)
	if err != nil {
		return nil, err
	}
	config.DryRun = r.DryRun
	policy, err := retention.Read(ctx, store, name)
	if errors.Is(err, retention.ErrNone) {
		err = exit.WithHint(exit.Errorf(exit.NotFound, "%w", err), "\"feedctl retain FEED --keep-age DURATION\", which sets one")
	}
	if err != nil {
		return nil, err
	}
	report, err := maintain.Feed(ctx, store, name, config)
	if err != nil {
		return nil, err
	}
	return &Retained{name, RetentionPolicy(policy), r.DryRun, report}, nil
}

// Maintenance returns the configuration of maintenance. The parameter tables is the directory in which the tables of
// its folds are kept, or "" for none. The parameter progress, if not nil, is called with the progress of the folds.
func Maintenance(e *Env, tables string, progress func(consumer.Progress)) (maintain.Config, error) {
	if tables != "" {
		if err := os.MkdirAll(tables, 0o700); err != nil {
			return maintain.Config{}, exit.Usagef("--tables: %w", err)
		}
	}
	return maintain.Config{Logger: e.Log, Fold: func(ctx context.Context, store storage.Store, name, key string) error {
		conflicts := false
		if key == "" { // otherwise the flag says what identifies a thing
			var err error
			if conflicts, err = couchdb.HasConflicts(ctx, store, name); err != nil {
				return err
			}
		}
		c := fold.Config{KeyPointer: key, Version: versionsOf(conflicts), Progress: progress, Logger: e.Log}
		if tables != "" {
			c.Table = filepath.Join(tables, name+".db")
		}
		_, err := fold.Feed(ctx, store, name, c)
		return err
	}}, nil
}
