package producer

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// minPruneAge is the minimum age of pages that may be pruned: no producer can still be trying to
// write near a page of this age.
const minPruneAge = chain.MaxCommit

// A PrunePolicy says which of a feed's oldest pages may be deleted: those that no rule keeps. The
// newest page is always kept.
type PrunePolicy struct {
	// KeepAge keeps pages with entities younger than this.
	KeepAge time.Duration
	// KeepPages keeps this many of the newest pages.
	KeepPages int64
	// Before keeps the page with this number and all pages after it: for instance, the page at
	// which the feed is read after the oldest snapshot.
	Before int64
	// Entry keeps the last page that is strictly older than this time, in whole seconds as on the
	// wire, and all pages after that page. It is, for instance, the createdAt of the oldest
	// snapshot. A consumer that knows only the specification enters the feed at such a page
	// (section "Consumer Algorithm": crawl back via timestamp).
	Entry time.Time
	// MinAge keeps pages that were last written less than this time ago, according to the store's
	// clock. It may not be less than 1 hour, the default.
	MinAge time.Duration
	// DryRun only reports.
	DryRun bool
	// Now returns the current time for stores that have no clock. Defaults to time.Now.
	Now func() time.Time
}

// A PruneReport describes what was pruned.
type PruneReport struct {
	Floor   int64 `json:"oldestPage"`   // the oldest page that is left
	Newest  int64 `json:"newestPage"`   // the newest page
	Pages   int64 `json:"pagesDeleted"` // pages that were deleted
	Bytes   int64 `json:"bytesDeleted"` // the size of these pages
	Limited bool  `json:"limited"`      // whether MinAge kept pages from being deleted
}

// Prune removes old pages from a feed. First it raises the floor, which hides the pages from all
// readers and producers; then it deletes them. If it is interrupted, the next call deletes the
// rest.
func Prune(ctx context.Context, store storage.Store, name string, policy PrunePolicy) (PruneReport, error) {
	report, err := prune(ctx, store, name, policy)
	if err != nil {
		return report, fmt.Errorf("prune feed %q: %w", name, err)
	}
	return report, nil
}

func prune(ctx context.Context, store storage.Store, name string, policy PrunePolicy) (PruneReport, error) {
	var report PruneReport
	if err := layout.CheckName(name); err != nil {
		return report, err
	}
	policy.MinAge = cmp.Or(policy.MinAge, minPruneAge)
	if policy.Now == nil {
		policy.Now = time.Now
	}
	switch {
	case policy.KeepAge <= 0 && policy.KeepPages <= 0 && policy.Before <= 0 && policy.Entry.IsZero():
		return report, fmt.Errorf("the policy has no rule: say what to keep")
	case policy.KeepAge < 0 || policy.KeepPages < 0 || policy.Before < 0:
		return report, fmt.Errorf("the policy has a negative rule")
	case policy.MinAge < minPruneAge:
		return report, fmt.Errorf("minimum age %v is less than %v: a producer may still be writing for that long", policy.MinAge, minPruneAge)
	}
	now, err := storage.Now(ctx, store, policy.Now)
	if err != nil {
		return report, err
	}
	reader := chain.NewReader(store, name)
	newest, err := reader.Newest(ctx)
	if err != nil {
		return report, err
	}
	floor, err := reader.Floor(ctx)
	if err != nil {
		return report, err
	}
	report.Newest, report.Floor = newest.Number, floor
	if err := policy.raise(ctx, reader, newest, now, &report); err != nil {
		return report, err
	}
	if !policy.DryRun {
		if report.Floor > floor { // the floor object is written in any case, so it may as well get an identity
			if err := reader.Identify(ctx); err != nil {
				return report, err
			}
		}
		if report.Floor, err = chain.RaiseFloor(ctx, store, name, report.Floor); err != nil {
			return report, err
		}
	}
	return report, sweep(ctx, store, name, &report, policy.DryRun)
}

// raise raises the floor in the report to the number of the first page that the policy keeps.
func (policy PrunePolicy) raise(ctx context.Context, reader *chain.Reader, newest *chain.Page, now time.Time, report *PruneReport) error {
	if report.Floor >= newest.Number {
		return nil
	}
	p, err := reader.Stat(ctx, report.Floor)
	for ; err == nil && p.Number < newest.Number; report.Floor++ {
		after := newest
		if p.Number+1 < newest.Number {
			if after, err = reader.Stat(ctx, p.Number+1); err != nil {
				return err
			}
		}
		if policy.keeps(p, after, newest, now) {
			return nil
		}
		if now.Sub(p.Modified) < policy.MinAge {
			report.Limited = true
			return nil
		}
		p = after
	}
	return err
}

// keeps reports whether the policy keeps page p; after is the page that follows it.
func (policy PrunePolicy) keeps(p, after, newest *chain.Page, now time.Time) bool {
	return policy.KeepAge > 0 && now.Sub(p.Last) < policy.KeepAge ||
		policy.KeepPages > 0 && p.Number > newest.Number-policy.KeepPages ||
		policy.Before > 0 && p.Number >= policy.Before ||
		!policy.Entry.IsZero() && !feed.Truncate(after.Last).Before(feed.Truncate(policy.Entry))
}

// sweep deletes the pages below the floor, oldest first, including pages that an earlier call left
// behind. Unknown keys are left alone.
func sweep(ctx context.Context, store storage.Store, name string, report *PruneReport, dryRun bool) error {
	for entry, err := range store.List(ctx, layout.FeedPages(name), "") {
		if err != nil {
			return err
		}
		n, err := layout.ParseFeedPage(name, entry.Key)
		if err != nil {
			continue
		}
		if n >= report.Floor {
			return nil
		}
		if !dryRun {
			if err := store.Delete(ctx, entry.Key); err != nil {
				return err
			}
		}
		report.Pages++
		report.Bytes += entry.Size
	}
	return nil
}
