package chain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// deleteGap is how many page numbers are left out between the last page of a deleted
// feed and the first that it may have again. A producer that has not noticed yet may have
// twice Ahead pages on their way.
const deleteGap = 4 * Ahead

// Errors of deleted feeds, to be matched with [errors.Is].
var (
	// ErrDeleted: the feed was deleted, and not published to since. It matches [ErrNoFeed].
	ErrDeleted = fmt.Errorf("%w: it was deleted", ErrNoFeed)
	// ErrDeleting: the feed is about to be deleted, and takes no entities until it is.
	ErrDeleting = errors.New("feed is being deleted: if that was interrupted, complete it with \"feedctl delete\"")
)

// Delete makes all pages of a feed cease to exist, and returns the floor below which they
// were. They stay in the store: it is for the caller to remove them. A feed that is
// published to again begins at the floor. The error matches [ErrNoFeed] if there is no
// page.
//
// Each step can be repeated. First the floor object says that the feed is being deleted.
// From then on no producer confirms a page that it creates, as it reads the floor after
// that, nor does one that reads the end of the feed append to it. Then the pages that may
// be open are written to, so that no producer can append which has read the end before.
// Now that nothing can be acknowledged, the floor is raised beyond all pages that exist,
// or that are still on their way.
func Delete(ctx context.Context, store storage.Store, feed string) (int64, error) {
	fenced := int64(0) // the last page that was found when nothing could be added any more
	for {
		r, version, err := readFloor(ctx, store, feed)
		if err != nil {
			return 0, err
		}
		pages, err := lastPages(ctx, store, feed, r.Floor)
		switch {
		case err != nil:
			return 0, err
		case r.Deleted && fenced > 0 && r.Floor > fenced:
			return r.Floor, nil // another Delete was faster
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
			if pages, err = lastPages(ctx, store, feed, r.Floor); err != nil {
				return 0, err
			}
		}
		if err := fence(ctx, store, feed, pages); err != nil {
			return 0, err
		}
		fenced = r.Floor
		if n := len(pages); n > 0 {
			fenced = pages[n-1]
		}
		r.Floor, r.Deleting, r.Deleted = fenced+deleteGap, false, true
		_, err = writeFloor(ctx, store, version, r)
		if err == nil || !overtaken(err) {
			return r.Floor, err
		}
	}
}

// CopyDeletion makes the floor of a feed that of a copy of it in another store, if that
// was deleted and the floor is higher there. It reports whether it was.
func CopyDeletion(ctx context.Context, from, to storage.Store, feed string) (bool, error) {
	source, _, err := readFloor(ctx, from, feed)
	if err != nil || !source.Deleted {
		return false, err
	}
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
// they can be read: all that may be the newest page, or beyond it.
func lastPages(ctx context.Context, store storage.Store, feed string, floor int64) ([]int64, error) {
	var pages []int64
	for entry, err := range store.List(ctx, layout.FeedPages(feed), "") {
		if err != nil {
			return nil, fmt.Errorf("list pages of feed %q: %w", feed, err)
		}
		if n, err := layout.ParseFeedPage(feed, entry.Key); err == nil && n >= floor {
			pages = append(pages, n)
		}
	}
	return pages[max(0, len(pages)-deleteGap):], nil
}

// fence gives those of the pages that are open another version, so that an append to one
// that was read before fails.
func fence(ctx context.Context, store storage.Store, feed string, pages []int64) error {
	return each(len(pages), func(i int) error {
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

// FirstPrev returns the Prev of page n, the first of a feed: empty in page 1, and else,
// after a deletion, what is the digest of no page.
func FirstPrev(feed string, n int64) string {
	if n == 1 {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "feedctl deleted feed %d\n%s\n%d\n", format, feed, n))
	return hex.EncodeToString(sum[:])
}
