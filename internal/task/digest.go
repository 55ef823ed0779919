package task

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/bridge/couchdb"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/fold"
)

// A MakeDigest makes a state digest of a feed in a store, or shows the newest one.
type MakeDigest struct {
	Feed     string // URL, NAME or STORE#NAME
	Show     bool   // show the newest digest; implied by a URL
	Key      string
	StateDir string
	TempDir  string
	Client   Client

	counted
	keys atomic.Int64
}

// A StateDigest describes a state digest.
type StateDigest struct {
	Feed     string                `json:"feed"`
	ID       string                `json:"id,omitempty"` // only if it was just made
	Position snapshot.FeedPosition `json:"position"`
	Snapshot string                `json:"snapshot,omitempty"`
	Versions bool                  `json:"versions"`
	Keys     int64                 `json:"keys"`
	Nodes    int                   `json:"nodes"`
	Hash     digest.Hash           `json:"hash"`
	Written  *WrittenDigest        `json:"written,omitempty"` // only if it was just made
}

// A WrittenDigest describes the nodes and leaves that were computed for a digest. New is how many
// of them were not in the store yet.
type WrittenDigest struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
	New     int64 `json:"new"`
}

// Flags adds the flags.
func (d *MakeDigest) Flags(flags *pflag.FlagSet) {
	flags.BoolVar(&d.Show, "show", false, "show the newest digest in the store instead of making one")
	flags.StringVar(&d.Key, "key", "", keyUsage)
	flags.StringVar(&d.StateDir, "state-dir", "", stateDirUsage)
	flags.StringVar(&d.TempDir, "temp-dir", "", "`DIR` for the temporary file (default: the system's)")
	d.Client.Flags(flags)
}

// stateDirUsage is the help of --state-dir.
const stateDirUsage = "`DIR` in which the state is kept, so that the next run reads only new entities"

// tableIn returns the file in which the state of a feed is kept, or "" if dir is empty. No other
// file may have this name, since a file that cannot be used as a table is replaced.
func tableIn(dir, feed string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "feedctl-"+feed+".state")
}

// Check returns an error if an argument or a flag is invalid. It does not use the network.
func (d *MakeDigest) Check() error {
	if d.shows() {
		if d.Key != "" || d.StateDir != "" || d.TempDir != "" {
			return exit.Usagef("--key, --state-dir and --temp-dir are for making a digest, which is done where the store is")
		}
		return d.Client.Check()
	}
	return errors.Join(checkStored(d.Feed), CheckPointer("--key", d.Key))
}

func (d *MakeDigest) shows() bool { return d.Show || locate.IsWeb(d.Feed) }

// Run makes or reads the digest.
func (d *MakeDigest) Run(ctx context.Context, e *Env) (*StateDigest, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	if d.shows() {
		return d.show(ctx, e)
	}
	at, err := e.Parse(d.Feed)
	if err != nil {
		return nil, err
	}
	store, err := e.OpenStore(ctx, at.Store, Access{})
	if err != nil {
		return nil, err
	}
	conflicts := false
	if d.Key == "" {
		if conflicts, err = couchdb.HasConflicts(ctx, store, at.Name); err != nil {
			return nil, fmt.Errorf("make state digest of %s: %w", at.Identity(), err)
		}
	}
	result, err := fold.Digest(ctx, store, at.Name, fold.Config{
		KeyPointer: d.Key,
		Version:    versionsOf(conflicts),
		Table:      tableIn(d.StateDir, at.Name),
		TempDir:    d.TempDir,
		Progress:   d.set,
		Digesting:  d.keys.Store,
		Logger:     e.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("make state digest of %s: %w", at.Identity(), err)
	}
	return digestOf(at.Identity(), result), nil
}

// show reads the newest digest.
func (d *MakeDigest) show(ctx context.Context, e *Env) (*StateDigest, error) {
	at, err := d.Client.Locate(ctx, e, d.Feed, layout.FeedPath, Access{})
	if err != nil {
		return nil, err
	}
	client, err := consumer.New(at.Config)
	if err != nil {
		return nil, err
	}
	r, err := at.Digest(ctx, client)
	if errors.Is(err, consumer.ErrNoDigest) {
		return nil, exit.WithHint(err, "\"feedctl digest FEED\" where the feed is published")
	}
	if err != nil {
		return nil, Suggest(ctx, at, err)
	}
	return describeDigest(at.Title, r.Root), nil
}

func describeDigest(feed string, root *digest.Root) *StateDigest {
	return &StateDigest{
		Feed: feed, Position: root.Feed, Snapshot: root.Snapshot, Versions: root.Versions,
		Keys: root.Count, Nodes: len(root.Nodes), Hash: root.Hash,
	}
}

func digestOf(feed string, result *digests.Result) *StateDigest {
	made := describeDigest(feed, result.Root)
	made.ID = result.ID
	made.Written = &WrittenDigest{Objects: result.Objects, Bytes: result.Bytes, New: result.Written}
	return made
}

// Status returns the progress, to be shown to users: the entities that were read and, after them, the keys.
func (d *MakeDigest) Status() progress.Status {
	s := d.counted.Status()
	s.Entities += d.keys.Load()
	return s
}
