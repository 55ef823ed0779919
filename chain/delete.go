package chain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/internal/together"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// deleteGap is how many page numbers are skipped between the last page of a deleted feed
// and its next page. A producer that has not noticed the deletion may still create 2*Ahead pages.
const deleteGap = 4 * Ahead

// Errors of deleted feeds, to be matched with [errors.Is].
var (
	// ErrDeleted means that the feed was deleted and not published to since. It matches
	// [ErrNoFeed].
	ErrDeleted = fmt.Errorf("%w: it was deleted", ErrNoFeed)
	// ErrDeleting means that the feed is being deleted and cannot be published to until
	// the deletion is complete.
	ErrDeleting = errors.New("feed is being deleted: if that was interrupted, complete it with \"feedctl delete\"")
)

// Delete deletes all pages of a feed and returns the new floor, which is above them. Their
// objects stay in the store for the caller to remove. If the feed is published to again, it
// begins at the floor. The error matches [ErrNoFeed] if there is no page.
//
// Each step can be repeated. First the floor object is marked as deleting. From then on no
// producer confirms a page that it creates, since it reads the floor after creating it, and
// no producer that reads the end of the feed appends to it. Then the open pages are rewritten,
// so that producers that read the end earlier cannot append either. Now that no write can
// succeed, the floor is raised above all pages that exist or may still be created.
func Delete(ctx context.Context, store storage.Store, feed string) (int64, error) {
	sealed := int64(0) // the last page at the time when nothing could be added any more
	for {
		r, version, err := readFloor(ctx, store, feed)
		if err != nil {
			return 0, err
		}
		pages, err := lastPages(ctx, store, feed, r)
		switch {
		case err != nil:
			return 0, err
		case r.Deleted && sealed > 0 && r.Floor > sealed:
			return r.Floor, nil // another Delete was first
		case len(pages) > 0 || r.Deleting:
		case r.Deleted:
			return r.Floor, fmt.Errorf("feed %q: %w", feed, ErrDeleted)
		default:
			return r.Floor, fmt.Errorf("feed %q: %w", feed, ErrNoFeed)
		}
		if !r.Deleting {
			r.Deleting = true
			if version, err = writeFloor(ctx, store, version, r); overtaken(err) {
				continue
			} else if err != nil {
				return 0, err
			}
			if pages, err = lastPages(ctx, store, feed, r); err != nil {
				return 0, err
			}
		}
		if err := rewriteOpenPages(ctx, store, feed, pages); err != nil {
			return 0, err
		}
		sealed = r.Floor
		if n := len(pages); n > 0 {
			sealed = pages[n-1]
		}
		r.Floor, r.Deleting, r.Deleted = sealed+deleteGap, false, true
		r.endErasing()
		r.renew()
		_, err = writeFloor(ctx, store, version, r)
		if err == nil || !overtaken(err) {
			return r.Floor, err
		}
	}
}

// CopyDeletion copies the deletion of a feed between stores: if the feed was deleted in the first
// store, and its floor is higher there than in the second, it is deleted in the second. It reports
// whether it wrote the floor.
func CopyDeletion(ctx context.Context, from, to storage.Store, feed string) (bool, error) {
	source, _, err := readFloor(ctx, from, feed)
	if err != nil || !source.Deleted {
		return false, err
	}
	source.Erasing = nil // the target has no copies
	for {
		r, version, err := readFloor(ctx, to, feed)
		if err != nil || r.Floor >= source.Floor {
			return false, err
		}
		if _, err = writeFloor(ctx, to, version, source); !overtaken(err) {
			return err == nil, err
		}
	}
}

// lastPages returns the highest numbers of pages in the store, in order, whether or not
// they can be read: all that may be the newest page or beyond it.
func lastPages(ctx context.Context, store storage.Store, feed string, r floorRecord) ([]int64, error) {
	var pages []int64
	for entry, err := range store.List(ctx, layout.FeedPages(feed), "") {
		if err != nil {
			return nil, fmt.Errorf("list pages of feed %q: %w", feed, err)
		}
		if n, err := layout.ParseFeedPage(feed, entry.Key); err == nil && n >= r.Floor && r.beforeCopies(n) {
			pages = append(pages, n)
		}
	}
	return pages[max(0, len(pages)-deleteGap):], nil
}

// rewriteOpenPages gives each page that is open a new version, so that appends by
// producers that have read it before fail.
func rewriteOpenPages(ctx context.Context, store storage.Store, feed string, pages []int64) error {
	return together.Do(len(pages), func(i int) error {
		n := pages[i]
		for {
			info, err := store.Stat(ctx, key(feed, n))
			if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrLayout) {
				return nil // nothing can be appended
			}
			if err != nil {
				return fmt.Errorf("read page %d of feed %q: %w", n, feed, err)
			}
			if p, err := Decode(feed, n, info); err == nil && p.Closed {
				return nil
			}
			_, err = store.Append(ctx, info.Key, info.Version, info.Meta, storage.Bytes())
			if err == nil {
				return nil
			}
			if !overtaken(err) && !errors.Is(err, storage.ErrNotFound) {
				return fmt.Errorf("write page %d of feed %q: %w", n, feed, err)
			}
		}
	})
}

// FirstPrev returns [Page.Prev] of page n if it is the first page of a feed. For page 1 it is
// empty; for a later page, after a deletion, it is a value that no page has as its digest.
func FirstPrev(feed string, n int64) string {
	if n == 1 {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "feedctl deleted feed %d\n%s\n%d\n", format, feed, n))
	return hex.EncodeToString(sum[:])
}

// IsFirst reports whether p is the first page of its feed, or of what was published to the feed after
// it had been deleted.
func (p *Page) IsFirst() bool { return p.Prev == FirstPrev(p.Feed, p.Number) }
