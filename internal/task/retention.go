package task

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/storage"
)

// A RetentionPolicy is a policy in the form in which commands accept and print it.
type RetentionPolicy retention.Policy

// MarshalJSON implements [json.Marshaler].
func (p RetentionPolicy) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		KeepAge       int64  `json:"keepAgeSeconds"`
		SnapshotEvery int64  `json:"snapshotEverySeconds"`
		KeepSnapshots int    `json:"keepSnapshots"`
		Key           string `json:"key,omitempty"`
	}{int64(p.KeepAge / time.Second), int64(p.SnapshotEvery / time.Second), p.KeepSnapshots, p.KeyPointer})
}

// Flags adds the flags that make a policy, and returns their names.
func (p *RetentionPolicy) Flags(flags *pflag.FlagSet) []string {
	units.DurationVar(flags, &p.KeepAge, "keep-age", 0, "keep entities for this `DURATION`, such as 30d")
	units.DurationVar(flags, &p.SnapshotEvery, "snapshot-every", 24*time.Hour, "make a snapshot when the newest one has this age, a `DURATION`")
	flags.IntVar(&p.KeepSnapshots, "keep-snapshots", 3, "keep this `NUMBER` of snapshots")
	flags.StringVar(&p.KeyPointer, "key", "", keyUsage)
	return []string{"keep-age", "snapshot-every", "keep-snapshots", "key"}
}

// Store changes the policy of a feed according to the flags that were given. The other parts of an
// existing policy remain, and those of a new one have the defaults. Store does nothing if no flag was
// given.
func (p *RetentionPolicy) Store(ctx context.Context, store storage.Store, feed string, given func(flag string) bool) error {
	if !given("keep-age") && !given("snapshot-every") && !given("keep-snapshots") && !given("key") {
		return nil
	}
	if err := CheckPointer("--key", p.KeyPointer); err != nil {
		return err
	}
	if _, err := chain.NewReader(store, feed).Newest(ctx); err != nil {
		return err
	}
	_, err := retention.Change(ctx, store, feed, func(old *retention.Policy) error {
		fresh := *old == retention.Policy{}
		if fresh && !given("keep-age") {
			return exit.Usagef("--keep-age is missing: feed %q has no retention policy yet", feed)
		}
		if given("keep-age") {
			old.KeepAge = p.KeepAge
		}
		if fresh || given("snapshot-every") {
			old.SnapshotEvery = p.SnapshotEvery
		}
		if fresh || given("keep-snapshots") {
			old.KeepSnapshots = p.KeepSnapshots
		}
		if given("key") {
			old.KeyPointer = p.KeyPointer
		}
		return nil
	})
	if errors.Is(err, retention.ErrInvalid) {
		err = exit.Usagef("%w", err)
	}
	return err
}
