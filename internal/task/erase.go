package task

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/bridge/couchdb"
	"github.com/feedctl/feedctl/erase"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// An Erase removes what a feed and its snapshots say about some keys.
type Erase struct {
	Feed       string // NAME or STORE#NAME
	Keys       []string
	KeysFrom   string
	Key        string
	ForgetKeys bool
	Snapshots  []string
	DryRun     bool
	Public     Public // of new snapshots
	// Confirm is called with a description of what will be erased. If it returns an error, nothing is erased.
	Confirm func(context.Context, *Erased) error

	last atomic.Pointer[erase.Progress]
}

// Flags adds the flags.
func (t *Erase) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&t.KeysFrom, "keys-from", "", "also erase the keys in this `FILE`, one on each line")
	flags.StringVar(&t.Key, "key", "", keyUsage)
	flags.BoolVar(&t.ForgetKeys, "forget-keys", false, "also replace the keys, when all consumers have read the DELETE")
	flags.StringSliceVar(&t.Snapshots, "snapshot", nil, "also replace snapshots with this `NAME`; may be repeated")
	flags.BoolVar(&t.DryRun, "dry-run", false, "change nothing, print what would be erased")
	t.Public.Flags(flags)
}

// Check returns an error if an argument or a flag is invalid. It does not use the network.
func (t *Erase) Check() error {
	problems := []error{checkStored(t.Feed), CheckPointer("--key", t.Key), t.Public.Check()}
	if len(t.Keys) == 0 && t.KeysFrom == "" {
		problems = append(problems, exit.Usagef("erase needs a KEY, or --keys-from"))
	}
	for _, name := range t.Snapshots {
		if err := layout.CheckName(name); err != nil {
			problems = append(problems, fmt.Errorf("--snapshot: %w", err))
		}
	}
	return errors.Join(problems...)
}

// Status returns the progress of a run.
func (t *Erase) Status() progress.Status {
	p := t.last.Load()
	if p == nil {
		return progress.Status{}
	}
	return progress.Status{Entities: p.Entities, Bytes: p.Bytes, Total: p.Total}
}

// Erased describes what a run of [Erase] will do, or has done.
type Erased struct {
	Feed   string `json:"feed"`
	DryRun bool   `json:"dryRun"` // nothing was changed
	erase.Report
	// Snapshots are the snapshots that contain a key, as NAME/ID. They are deleted after a new snapshot
	// has been made for each name.
	Snapshots []string `json:"snapshotsDeleted"`

	names []string // of the snapshots that are made again
}

// Run erases the keys.
func (t *Erase) Run(ctx context.Context, e *Env) (*Erased, error) {
	keys, err := t.keys()
	if err == nil {
		err = t.Check()
	}
	if err != nil {
		return nil, err
	}
	store, name, err := e.OpenNamed(ctx, t.Feed)
	if err != nil {
		return nil, err
	}
	if conflicts, err := couchdb.HasConflicts(ctx, store, name); err != nil || conflicts {
		return nil, errors.Join(err, conflicting(conflicts, name))
	}
	plan, err := erase.Find(ctx, store, name, erase.Config{
		Keys: keys, KeyPointer: t.Key, ForgetKeys: t.ForgetKeys, Logger: e.Log,
		Progress: func(p erase.Progress) { t.last.Store(&p) },
	})
	if err != nil {
		return nil, err
	}
	result := &Erased{Feed: name, DryRun: t.DryRun}
	if err := t.findSnapshots(ctx, store, plan, result); err != nil {
		return nil, err
	}
	result.Report = plan.Report()
	if plan.IsEmpty() && len(result.Snapshots) == 0 || t.DryRun {
		return result, nil
	}
	if t.Confirm != nil {
		if err := t.Confirm(ctx, result); err != nil {
			return nil, err
		}
	}
	if result.Report, err = plan.Run(ctx); err != nil {
		return nil, err
	}
	// Other snapshots may have been made since then, but none made after the DELETEs were published contains a key.
	if err := t.findSnapshots(ctx, store, plan, result); err != nil {
		return nil, err
	}
	return result, t.replaceSnapshots(ctx, e, store, plan, result)
}

func conflicting(conflicts bool, name string) error {
	if !conflicts {
		return nil
	}
	return exit.Usagef("erase from feed %q: it has conflicting revisions of documents, of which a DELETE removes only one: see \"Erase a key\" in docs/operations.md", name)
}

// keys returns the keys in the arguments and in the file.
func (t *Erase) keys() (keys []string, err error) {
	keys = slices.Clone(t.Keys)
	if t.KeysFrom == "" {
		return keys, nil
	}
	file, err := os.Open(t.KeysFrom)
	if err != nil {
		return nil, fmt.Errorf("--keys-from: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if key := strings.TrimSuffix(lines.Text(), "\r"); key != "" {
			keys = append(keys, key)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--keys-from %s: %w", t.KeysFrom, err)
	}
	if len(keys) == 0 {
		return nil, exit.Usagef("--keys-from %s has no key", t.KeysFrom)
	}
	return keys, nil
}

// findSnapshots finds the snapshots that contain one of the keys.
func (t *Erase) findSnapshots(ctx context.Context, store storage.Store, plan *erase.Plan, result *Erased) error {
	result.Snapshots, result.names = []string{}, nil
	for _, name := range append([]string{result.Feed}, t.Snapshots...) {
		ids, _, err := snapshots.List(ctx, store, name)
		if err != nil {
			return err
		}
		found := false
		for _, id := range ids {
			has, err := plan.InSnapshot(ctx, name, id)
			if err != nil {
				return err
			}
			if has {
				result.Snapshots, found = append(result.Snapshots, name+"/"+id), true
			}
		}
		if !found || slices.Contains(result.names, name) {
			continue
		}
		index, err := snapshots.Read(ctx, store, name, ids[len(ids)-1])
		if err != nil {
			return err
		}
		if index.Feed == nil {
			return fmt.Errorf("erase from feed %q: snapshot %s contains a key, but was not made from the feed: first make a snapshot without the key, and delete those with it", result.Feed, name)
		}
		result.names = append(result.names, name)
	}
	return nil
}

// replaceSnapshots makes new snapshots and deletes those that contain one of the keys.
func (t *Erase) replaceSnapshots(ctx context.Context, e *Env, store storage.Store, plan *erase.Plan, result *Erased) error {
	for _, name := range result.names {
		made, err := (&SnapshotFromFeed{Feed: t.Feed, Name: name, Key: t.Key, Public: t.Public}).Run(ctx, e)
		if err != nil {
			return err
		}
		if has, err := plan.InSnapshot(ctx, name, made.ID); err != nil {
			return err
		} else if has {
			return fmt.Errorf("erase from feed %q: the new snapshot %s/%s contains a key again, which was published meanwhile: repeat the command", result.Feed, name, made.ID)
		}
	}
	for _, snapshot := range result.Snapshots {
		name, id, _ := strings.Cut(snapshot, "/")
		if err := snapshots.Delete(ctx, store, name, id); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return nil
}
