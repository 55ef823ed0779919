package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/bridge/couchdb"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// A Snapshot describes a snapshot that was made, or that is in a store.
type Snapshot struct {
	Name      string    `json:"name"`
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	Pages     int       `json:"pages"`
	Entities  *int64    `json:"entities,omitempty"` // absent if it is not in the index
	// Feed is the position in a feed that the snapshot corresponds to; absent
	// if it was not made from a feed.
	Feed *snapshot.FeedPosition `json:"feed,omitempty"`
	// URL is where the index can be read with plain HTTP; only snapshots that were made with
	// --public-url or --presign have one.
	URL string `json:"url,omitempty"`
}

// SnapshotOf describes a snapshot by its index, which may lack the list of pages.
func SnapshotOf(name string, x *snapshot.Index, pages int) Snapshot {
	result := Snapshot{Name: name, ID: x.ID, CreatedAt: x.CreatedAt, Pages: pages, Feed: x.Feed}
	if x.Entities > 0 || pages == 0 {
		result.Entities = &x.Entities
	}
	return result
}

// Public holds the flags that say how a snapshot in a bucket can be read without feedctl.
type Public struct{ snapshots.Config }

// Flags adds the flags, which cannot be combined.
func (p *Public) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&p.PublicURL, "public-url", "", "`URL` under which the store's objects can be read: the index lists URLs below it")
	units.DurationVar(flags, &p.Presign, "presign", 0, "the index lists URLs that are valid for this `DURATION` and need no credentials, such as 24h")
}

// Check returns an error if a flag is invalid.
func (p *Public) Check() error {
	var problems []error
	if p.PublicURL != "" {
		if u, err := locate.ParseURL(p.PublicURL); err != nil {
			problems = append(problems, exit.Usagef("--public-url: %w", err))
		} else if u.RawQuery != "" {
			problems = append(problems, exit.Usagef("--public-url %q has a query: URLs are made by appending to it", sink.Redact(p.PublicURL)))
		}
	}
	if p.Presign < 0 || p.Presign%time.Second != 0 {
		problems = append(problems, exit.Usagef("--presign %v is not a positive number of seconds", p.Presign))
	}
	if p.Presign > 0 && p.PublicURL != "" {
		problems = append(problems, exit.Usagef("--presign and --public-url cannot be combined"))
	}
	return errors.Join(problems...)
}

// CheckStore checks, before anything is read or written, that the store can presign.
func (p *Public) CheckStore(ctx context.Context, store storage.Store, name string) error {
	switch _, err := p.IndexURL(ctx, store, name, "index"); {
	case errors.Is(err, snapshots.ErrPresign):
		return exit.Usagef("--presign: %w: use one like s3://BUCKET/PREFIX", err)
	case err != nil:
		return fmt.Errorf("--presign %v: %w", p.Presign, err)
	}
	return nil
}

// Made describes a snapshot that was just made, with the URL of its index.
func (p *Public) Made(ctx context.Context, store storage.Store, name string, index *snapshot.Index) (*Snapshot, error) {
	result := SnapshotOf(name, index, len(index.Pages))
	var err error
	if result.URL, err = p.IndexURL(ctx, store, name, index.ID); err != nil {
		return nil, fmt.Errorf("made snapshot %s/%s, but could not make the URL of its index: %w", name, index.ID, err)
	}
	return &result, nil
}

// A SnapshotFromFeed makes a snapshot of the current state of a feed.
type SnapshotFromFeed struct {
	Feed     string // NAME or STORE#NAME
	Name     string // of the snapshot; "": the name of the feed
	Key      string
	StateDir string
	TempDir  string
	Digest   bool
	Public   Public

	counted
}

// Flags adds the flags.
func (s *SnapshotFromFeed) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.Name, "name", "", "`NAME` of the snapshot (default: that of the feed)")
	flags.StringVar(&s.Key, "key", "", keyUsage)
	flags.StringVar(&s.StateDir, "state-dir", "", stateDirUsage)
	flags.StringVar(&s.TempDir, "temp-dir", "", "`DIR` for the temporary file (default: the system's)")
	flags.BoolVar(&s.Digest, "digest", false, "also make a state digest (see \"feedctl digest\")")
	s.Public.Flags(flags)
}

// Check returns an error if an argument or a flag is invalid. It does not use the network.
func (s *SnapshotFromFeed) Check() error {
	problems := []error{checkStored(s.Feed), CheckPointer("--key", s.Key), s.Public.Check()}
	if s.Name != "" {
		if err := layout.CheckName(s.Name); err != nil {
			problems = append(problems, fmt.Errorf("--name: %w", err))
		}
	}
	return errors.Join(problems...)
}

// Run makes the snapshot.
func (s *SnapshotFromFeed) Run(ctx context.Context, e *Env) (*Snapshot, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	at, err := e.Parse(s.Feed)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(s.Name, at.Name)
	store, err := e.OpenStore(ctx, at.Store, Access{})
	if err != nil {
		return nil, err
	}
	if err := s.Public.CheckStore(ctx, store, name); err != nil {
		return nil, err
	}
	conflicts := false
	if s.Key == "" { // otherwise the flag says what identifies a thing
		if conflicts, err = couchdb.HasConflicts(ctx, store, at.Name); err != nil {
			return nil, fmt.Errorf("make snapshot of %s: %w", at.Identity(), err)
		}
	}
	var digested func(*digests.Result)
	if s.Digest {
		digested = func(d *digests.Result) { e.Log.Info("made state digest", "feed", at.Name, "id", d.ID) }
	}
	index, err := fold.Feed(ctx, store, at.Name, fold.Config{
		Digested:   digested,
		Table:      tableIn(s.StateDir, at.Name),
		Name:       name,
		KeyPointer: s.Key,
		Version:    versionsOf(conflicts),
		PublicURL:  s.Public.PublicURL,
		Presign:    s.Public.Presign,
		TempDir:    s.TempDir,
		Progress:   s.set,
		Logger:     e.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("make snapshot of %s: %w", at.Identity(), err)
	}
	return s.Public.Made(ctx, store, name, index)
}

// versionsOf returns a function that distinguishes the states that a document has at the same time
// in the feed of a bridge. With conflicts, each leaf revision is a state; otherwise there is one
// state, and the function is nil.
func versionsOf(conflicts bool) fold.VersionFunc {
	if conflicts {
		return new(couchdb.RevisionReader).Revision
	}
	return nil
}
