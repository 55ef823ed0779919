package producer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// A DeleteReport lists what was deleted from a feed.
type DeleteReport struct {
	Pages   int64 `json:"pagesDeleted"`   // pages that were deleted
	Objects int64 `json:"objectsDeleted"` // other objects: pages that a repair set aside, the quarantine of a bridge, the list of turns, the retention policy, and state digests
	Bytes   int64 `json:"bytesDeleted"`   // the size of all these pages and objects
}

// Delete deletes a feed, even a damaged one. The feed ceases to exist for all readers at one moment
// (see [chain.Delete]); then its objects are deleted. Entities published before that moment are gone
// with the feed; entities published after it begin a new feed of the same name, which does not reuse
// page numbers.
//
// Delete completes an interrupted deletion. The error matches [chain.ErrNoFeed] if there is nothing
// to delete. If dryRun is true, Delete only reports what it would delete.
func Delete(ctx context.Context, store storage.Store, name string, dryRun bool) (DeleteReport, error) {
	report, err := deleteFeed(ctx, store, name, dryRun)
	if err != nil {
		return report, fmt.Errorf("delete feed %q: %w", name, err)
	}
	return report, nil
}

func deleteFeed(ctx context.Context, store storage.Store, name string, dryRun bool) (DeleteReport, error) {
	var report DeleteReport
	if err := layout.CheckName(name); err != nil {
		return report, err
	}
	floor, absent := int64(0), error(nil)
	if !dryRun {
		floor, absent = chain.Delete(ctx, store, name)
		if absent != nil && !errors.Is(absent, chain.ErrNoFeed) {
			return report, absent
		}
	}
	pages := PruneReport{Floor: floor}
	if dryRun {
		pages.Floor = math.MaxInt64
	}
	err := sweep(ctx, store, name, &pages, dryRun)
	report.Pages, report.Bytes = pages.Pages, pages.Bytes
	for _, prefix := range [...]string{
		layout.FeedAside(name), layout.FeedQuarantine(name), layout.FeedTurns(name), layout.FeedRetention(name),
		layout.DigestRoots(name), layout.DigestNodes(name),
	} {
		for entry, listErr := range store.List(ctx, prefix, "") {
			if err = errors.Join(err, listErr); err == nil && !dryRun {
				err = store.Delete(ctx, entry.Key)
			}
			if err != nil {
				return report, err
			}
			report.Objects++
			report.Bytes += entry.Size
		}
	}
	if err == nil && report == (DeleteReport{}) {
		if dryRun {
			_, absent = chain.NewReader(store, name).Newest(ctx)
		}
		err = absent
	}
	return report, err
}
