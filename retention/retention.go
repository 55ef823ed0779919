// Package retention stores with each feed a policy of how much of it is kept: the age from which pages may be
// pruned, and how often a snapshot is made. Package retention/maintain carries out the policies.
package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/selfcheck"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// Limits of a [Policy].
const (
	// MinKeepAge is the minimum KeepAge: no producer still retries a write to a page of this age.
	MinKeepAge = chain.MaxCommit
	// MinSnapshotEvery is the minimum SnapshotEvery.
	MinSnapshotEvery = time.Minute
	// MaxKeepSnapshots is the maximum KeepSnapshots.
	MaxKeepSnapshots = 10_000
)

var (
	// ErrNone means that a feed has no policy.
	ErrNone = errors.New("feed has no retention policy")
	// ErrInvalid is matched by the error for a policy that exceeds a limit.
	ErrInvalid = errors.New("invalid retention policy")
)

// A Policy says how much of a feed is kept. Its times are in whole seconds.
type Policy struct {
	// KeepAge is the age up to which entities are kept. A page whose entities are all older may be
	// pruned, if a snapshot has their state.
	KeepAge time.Duration
	// SnapshotEvery is the age of the newest snapshot at which another one is made, if the feed has new
	// entities.
	SnapshotEvery time.Duration
	// KeepSnapshots is how many snapshots of the feed are kept.
	KeepSnapshots int
	// KeyPointer is a JSON Pointer (RFC 6901) to the key of an entity in its body, for the snapshots of
	// feeds without Content-Location.
	KeyPointer string
}

// Check returns an error that says what is wrong with the policy, or nil. The error matches
// [ErrInvalid].
func (p Policy) Check() error {
	var problems []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
		}
	}
	add(p.KeepAge < MinKeepAge, "keep-age %v is less than %v: a producer may still be writing for that long", p.KeepAge, MinKeepAge)
	add(p.SnapshotEvery < MinSnapshotEvery, "snapshot-every %v is less than %v", p.SnapshotEvery, MinSnapshotEvery)
	add(p.KeepSnapshots < 1, "keep-snapshots %d: at least one must be kept, since pruned pages are only in a snapshot", p.KeepSnapshots)
	add(p.KeepSnapshots > MaxKeepSnapshots, "keep-snapshots %d is more than %d", p.KeepSnapshots, MaxKeepSnapshots)
	add(p.KeepAge%time.Second != 0 || p.SnapshotEvery%time.Second != 0, "times must be whole seconds")
	return errors.Join(problems...)
}

// A record is the metadata of the object, whose body is empty.
type record struct {
	Format        int    `json:"format"`
	Feed          string `json:"feed"`
	KeepAge       int64  `json:"keepAgeSeconds"`
	SnapshotEvery int64  `json:"snapshotEverySeconds"`
	KeepSnapshots int    `json:"keepSnapshots"`
	KeyPointer    string `json:"key,omitempty"`
}

// format is the version of the record.
const format = 1

// Read returns the policy of a feed. The error matches [ErrNone] if there is none, and
// [chain.ErrCorrupt] if the object is damaged or of another version.
func Read(ctx context.Context, store storage.Store, feed string) (Policy, error) {
	p, _, err := read(ctx, store, feed)
	return p, err
}

// read returns the policy and the version of the object, or "" if there is none.
func read(ctx context.Context, store storage.Store, feed string) (Policy, storage.Version, error) {
	if err := layout.CheckName(feed); err != nil {
		return Policy{}, "", fmt.Errorf("read retention: %w", err)
	}
	info, err := store.Stat(ctx, layout.FeedRetention(feed))
	if errors.Is(err, storage.ErrNotFound) {
		return Policy{}, "", fmt.Errorf("feed %q: %w", feed, ErrNone)
	}
	if err != nil {
		return Policy{}, "", fmt.Errorf("read retention of feed %q: %w", feed, err)
	}
	var r record
	err = selfcheck.Verify(info.Meta.Data)
	if err == nil {
		err = json.Unmarshal(info.Meta.Data, &r)
	}
	p := Policy{time.Duration(r.KeepAge) * time.Second, time.Duration(r.SnapshotEvery) * time.Second, r.KeepSnapshots, r.KeyPointer}
	switch {
	case err != nil:
	case r.Format != format:
		err = fmt.Errorf("format %d is unknown", r.Format)
	case r.Feed != feed:
		err = fmt.Errorf("it belongs to feed %q", r.Feed)
	default:
		err = p.Check()
	}
	if err != nil {
		return Policy{}, "", fmt.Errorf("%w: metadata of %s: %w", chain.ErrCorrupt, info.Key, err)
	}
	return p, info.Version, nil
}

// Change changes the policy of a feed. It calls change with the current policy, or the zero Policy if
// there is none, and calls it again if another writer was first. Change returns the policy that it has
// written.
func Change(ctx context.Context, store storage.Store, feed string, change func(*Policy) error) (Policy, error) {
	for {
		p, at, err := read(ctx, store, feed)
		if err != nil && !errors.Is(err, ErrNone) {
			return Policy{}, err
		}
		if err := change(&p); err != nil {
			return Policy{}, err
		}
		if err := p.Check(); err != nil {
			return Policy{}, err
		}
		err = write(ctx, store, feed, at, p)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, storage.ErrExists) && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
			return Policy{}, fmt.Errorf("write retention of feed %q: %w", feed, err)
		}
	}
}

// write replaces the object at a version, or creates it if the version is "".
func write(ctx context.Context, store storage.Store, feed string, at storage.Version, p Policy) error {
	data, err := json.Marshal(record{
		format, feed, int64(p.KeepAge / time.Second), int64(p.SnapshotEvery / time.Second), p.KeepSnapshots, p.KeyPointer,
	})
	if err != nil {
		return err
	}
	meta := storage.Meta{ContentType: "application/octet-stream", Data: selfcheck.Add(data)}
	if at == "" {
		_, err = store.Create(ctx, layout.FeedRetention(feed), meta, storage.Bytes())
	} else {
		_, err = store.Append(ctx, layout.FeedRetention(feed), at, meta, storage.Bytes())
	}
	return err
}

// Remove removes the policy of a feed, so all of the feed is kept. The error matches [ErrNone] if there is no
// policy. A damaged policy can be removed, too.
func Remove(ctx context.Context, store storage.Store, feed string) error {
	if _, err := Read(ctx, store, feed); err != nil && !errors.Is(err, chain.ErrCorrupt) {
		return err
	}
	if err := store.Delete(ctx, layout.FeedRetention(feed)); err != nil {
		return fmt.Errorf("remove retention of feed %q: %w", feed, err)
	}
	return nil
}
