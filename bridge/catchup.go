package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
)

// catchUp adds the versions in the feed that are not in the index, and returns the feed's
// checkpoint. If the index belongs to another feed, such as a deleted one of the same name, it is
// cleared first.
func (x *Index) catchUp(ctx context.Context, reader *feedstore.Reader, name string) (at Checkpoint, err error) {
	if err := x.settle(); err != nil {
		return at, err
	}
	f, newest, floor, err := reader.Look(ctx, name)
	if errors.Is(err, chain.ErrNoFeed) {
		return at, x.clear()
	}
	if err != nil {
		return at, err
	}
	if at, err = ParseCheckpoint(newest.Checkpoint, x.kind, name); err != nil {
		return at, err
	}
	at.known = newest.Number
	if len(f.Beyond()) == 0 {
		at.newest = newest
	}
	known, err := x.known()
	if err != nil {
		return at, err
	}
	if known.Page > newest.Number || known.Page > 0 && known.Feed != at.Feed {
		return x.startOver(ctx, reader, name)
	}
	if known.Page == newest.Number && known.ContentID == newest.LastContentID {
		return at, nil // nothing is new
	}
	first, after, partial := known.Page, known.ContentID, false
	if first < floor { // the index is empty, or those pages have been pruned
		first, after, partial = floor, "", floor > 1
	}
	for n := first; n <= newest.Number; n++ {
		found, err := x.addPage(ctx, f, n, place{Feed: at.Feed, ContentID: after, Partial: partial})
		switch {
		case errors.Is(err, chain.ErrPruned):
			continue
		case errors.Is(err, errMoved):
			return x.catchUp(ctx, reader, name)
		case err != nil:
			return at, fmt.Errorf("fill index %s: %w", x.path, err)
		case !found:
			return x.startOver(ctx, reader, name)
		}
		after = ""
	}
	if x.latest != nil { // Look does not see the queue
		return at, x.flushed(func() error { return nil })
	}
	return at, nil
}

func (x *Index) startOver(ctx context.Context, reader *feedstore.Reader, name string) (Checkpoint, error) {
	if err := x.clear(); err != nil {
		return Checkpoint{}, err
	}
	return x.catchUp(ctx, reader, name)
}

// addPage adds the versions of a page after the entity with at.ContentID, or all of them if
// at.ContentID is empty. It returns false if the page has no such entity.
func (x *Index) addPage(ctx context.Context, f *feedstore.Feed, n int64, at place) (found bool, err error) {
	after := at.ContentID
	found, at.Page = after == "", n
	var versions []change
	for h, err := range f.Headers(ctx, n) {
		if err != nil {
			return false, err
		}
		id := string(h.Get("Content-ID"))
		if found {
			location, tag := h.Get("Content-Location"), h.Get("ETag")
			if held, ok := VersionOf(string(location), string(tag)); ok {
				deleted := strings.HasSuffix(string(h.Get("Operation-Type")), "="+string(feed.Delete))
				versions = append(versions, change{held, deleted})
			}
			at.ContentID = id
		}
		found = found || id == after
	}
	if !found || at.ContentID == after {
		return found, nil
	}
	return true, x.add(versions, at)
}
