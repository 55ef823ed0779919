// Package maintain carries out the retention policies of feeds (package retention): it makes
// snapshots, prunes the pages that they cover, and deletes old snapshots.
//
// Each step leaves the store in a state that any reader may see, and each may be repeated: several
// processes may maintain a feed at the same time, and may be killed at any moment. At worst, each
// process makes a snapshot.
package maintain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// ReadingTime is how long a reader may take to read a snapshot: for this time after a newer one was made, a
// snapshot is kept, together with the pages of the feed that come after it.
const ReadingTime = 24 * time.Hour

// Config holds the settings of a run.
type Config struct {
	// Fold writes a snapshot of the state of a feed, named like the feed, as [snapshot/fold.Feed] does;
	// keyPointer is the KeyPointer of the policy.
	Fold func(ctx context.Context, store storage.Store, feed, keyPointer string) error
	// DryRun makes a run only report what it would do.
	DryRun bool
	// Now is the clock for stores that have none. Defaults to time.Now.
	Now func() time.Time
	// Logger logs what is done. Defaults to discarding it.
	Logger *slog.Logger
}

// A Report says what a run has done, or would do.
type Report struct {
	// Snapshot reports whether a snapshot was made. Its name is that of the feed.
	Snapshot bool `json:"snapshotMade"`
	// Deleted holds the IDs of the snapshots that were deleted.
	Deleted []string `json:"snapshotsDeleted"`
	// Kept is how many snapshots of the feed are left.
	Kept int `json:"snapshotsKept"`
	producer.PruneReport
}

// Feed carries out the policy of a feed once. The error matches [retention.ErrNone] if the feed has no
// policy, and [chain.ErrNoFeed] if it has no pages.
func Feed(ctx context.Context, store storage.Store, name string, c Config) (Report, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	r := run{Config: c, store: store, feed: name, report: Report{Deleted: []string{}}}
	report, err := r.run(ctx)
	if err != nil {
		return report, fmt.Errorf("maintain feed %q: %w", name, err)
	}
	return report, nil
}

// A run carries out one policy.
type run struct {
	Config
	store  storage.Store
	feed   string
	policy retention.Policy
	now    time.Time
	newest *chain.Page
	have   []made // oldest first
	report Report
}

func (r *run) run(ctx context.Context) (_ Report, err error) {
	if r.policy, err = retention.Read(ctx, r.store, r.feed); err != nil {
		return r.report, err
	}
	if r.now, err = storage.Now(ctx, r.store, r.Now); err != nil {
		return r.report, err
	}
	if r.newest, err = chain.NewReader(r.store, r.feed).Newest(ctx); err != nil {
		return r.report, err
	}
	// The order matters: pages are deleted only after a snapshot covers them, and snapshots only after a
	// newer one is complete.
	for _, step := range []func(context.Context) error{r.list, r.snapshot, r.prune, r.deleteOld} {
		if err := step(ctx); err != nil {
			return r.report, err
		}
	}
	return r.report, nil
}

// A made is a finished snapshot of the feed.
type made struct {
	id       string
	finished time.Time // by the store's clock
	created  time.Time // the time at which a reader that knows only the specification enters the feed
	page     int64     // the page at which other readers continue
	last     string    // Content-ID of the last entity in it
}

// list lists the snapshots of the feed. Snapshots that have its name but were not made from it are left
// alone.
func (r *run) list(ctx context.Context) error {
	r.have = nil
	for entry, err := range r.store.List(ctx, layout.SnapshotIndexes(r.feed), "") {
		if err != nil {
			return fmt.Errorf("list snapshots: %w", err)
		}
		id, err := layout.ParseSnapshotIndex(r.feed, entry.Key)
		if err != nil {
			continue
		}
		index, err := snapshots.Read(ctx, r.store, r.feed, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return err
		}
		if index.Feed == nil {
			continue
		}
		if of, page, err := layout.ParseFeedPageURL(index.Feed.Page); err == nil && of == r.feed {
			r.have = append(r.have, made{id, entry.Modified, index.CreatedAt, page, index.Feed.ContentID})
		}
	}
	return nil
}

// snapshot makes a snapshot if one is due.
func (r *run) snapshot(ctx context.Context) error {
	if n := len(r.have); n > 0 {
		last := r.have[n-1]
		found, err := r.inFeed(ctx, last)
		if err != nil {
			return err
		}
		unchanged := last.page == r.newest.Number && last.last == r.newest.LastContentID
		if found && (unchanged || r.now.Sub(last.finished) < r.policy.SnapshotEvery) {
			return nil
		}
	}
	if r.DryRun {
		r.report.Snapshot = true
		r.have = append(r.have, made{"", r.now, feed.Truncate(r.newest.Last), r.newest.Number, r.newest.LastContentID})
		return nil
	}
	if err := r.Fold(ctx, r.store, r.feed, r.policy.KeyPointer); err != nil {
		return err
	}
	r.report.Snapshot = true
	r.Logger.InfoContext(ctx, "made a snapshot", "feed", r.feed)
	return r.list(ctx)
}

// inFeed reports whether the feed has the entity that a snapshot ends with. Otherwise the snapshot belongs to
// another history of the feed, such as one before a restore, and may not match what the pages before its
// position now contain. If the page of the entity was pruned, inFeed returns true, and nothing is pruned
// because of this snapshot.
func (r *run) inFeed(ctx context.Context, s made) (bool, error) {
	for header, err := range chain.NewReader(r.store, r.feed).Headers(ctx, s.page) {
		switch {
		case errors.Is(err, chain.ErrPruned):
			return true, nil
		case errors.Is(err, chain.ErrNoPage):
			return false, nil
		case err != nil:
			return false, err
		case string(header.Get("Content-ID")) == s.last:
			return true, nil
		}
	}
	return false, nil
}

// inUse returns the snapshots that a reader may be reading: the newest one, and those that were the
// newest less than ReadingTime ago.
func (r *run) inUse() []made {
	n := len(r.have) - 1
	for n > 0 && r.now.Sub(r.have[n].finished) < ReadingTime {
		n--
	}
	return r.have[max(n, 0):]
}

// prune prunes the pages that are too old and that no reader of a snapshot needs.
func (r *run) prune(ctx context.Context) (err error) {
	policy := producer.PrunePolicy{KeepAge: r.policy.KeepAge, DryRun: r.DryRun, Now: r.Now}
	for _, s := range r.inUse() {
		if policy.Before == 0 || s.page < policy.Before {
			policy.Before = s.page
		}
		if policy.Entry.IsZero() || s.created.Before(policy.Entry) {
			policy.Entry = s.created
		}
	}
	if policy.Before == 0 {
		return fmt.Errorf("the snapshot that was just made is gone: maintain the feed again")
	}
	r.report.PruneReport, err = producer.Prune(ctx, r.store, r.feed, policy)
	if r.report.Pages > 0 && !r.DryRun {
		r.Logger.InfoContext(ctx, "pruned pages", "feed", r.feed, "pages", r.report.Pages, "bytes", r.report.Bytes, "oldest", r.report.Floor)
	}
	return err
}

// deleteOld deletes surplus snapshots that no reader can be reading, oldest first.
func (r *run) deleteOld(ctx context.Context) error {
	keep := max(r.policy.KeepSnapshots, len(r.inUse()))
	old := r.have[:max(len(r.have)-keep, 0)]
	r.report.Kept = len(r.have) - len(old)
	for _, s := range old {
		if !r.DryRun {
			// If another run deleted the snapshot first, it may have been killed before it had deleted all
			// pages.
			if err := snapshots.Delete(ctx, r.store, r.feed, s.id); err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			r.Logger.InfoContext(ctx, "deleted an old snapshot", "feed", r.feed, "id", s.id)
		}
		r.report.Deleted = append(r.report.Deleted, s.id)
	}
	if r.DryRun || !r.report.Snapshot && len(old) == 0 {
		return nil
	}
	// Collect what killed runs have left behind. This lists the pages of all snapshots, so it is not done
	// each time.
	_, err := snapshots.Collect(ctx, r.store, r.feed, ReadingTime)
	return err
}
