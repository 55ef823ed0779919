package couchdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/page"
)

// catchUp reads what the feed has and the index does not know yet, and returns the
// feed's checkpoint then; nil if there is no feed. An index that belongs to another
// feed, such as one of the same name that was deleted, is begun anew.
func (x *index) catchUp(ctx context.Context, pages *chain.Reader) (checkpoint []byte, err error) {
	if err := x.settle(); err != nil {
		return nil, err
	}
	newest, err := pages.Newest(ctx)
	if errors.Is(err, chain.ErrNoFeed) {
		return nil, x.clear()
	}
	if err != nil {
		return nil, err
	}
	floor, err := pages.Floor(ctx)
	if err != nil {
		return nil, err
	}
	known, err := x.known()
	if err != nil {
		return nil, err
	}
	first, after := known.Page, known.ContentID
	if first < floor { // nothing is known, or those pages have been pruned
		first, after = floor, ""
	}
	if first > newest.Number {
		return x.startOver(ctx, pages)
	}
	for n := first; n <= newest.Number; n++ {
		found, err := x.addPage(ctx, pages, n, after)
		switch {
		case errors.Is(err, chain.ErrPruned):
			continue
		case err != nil:
			return nil, fmt.Errorf("fill index %s: %w", x.path, err)
		case !found:
			return x.startOver(ctx, pages)
		}
		after = ""
	}
	return newest.Checkpoint, nil
}

func (x *index) startOver(ctx context.Context, pages *chain.Reader) ([]byte, error) {
	if err := x.clear(); err != nil {
		return nil, err
	}
	return x.catchUp(ctx, pages)
}

// addPage adds the pairs of a page behind the entity with a Content-ID, or all if
// that is empty. It reports false if there is no such entity.
func (x *index) addPage(ctx context.Context, pages *chain.Reader, n int64, after string) (found bool, err error) {
	p, object, err := pages.Open(ctx, n, 0, -1)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, object.Body.Close()) }()
	parts := page.NewReader(p.Whole(object.Body), p.Boundary, page.ReaderOptions{})
	found = after == ""
	at := place{Page: n, ContentID: after}
	var pairs []pair
	for part, err := range parts.Parts() {
		if err != nil {
			return false, fmt.Errorf("read page %d of feed %q: %w", n, p.Feed, err)
		}
		id := string(part.Header.Get("Content-ID"))
		if found {
			location, tag := part.Header.Get("Content-Location"), part.Header.Get(etag)
			if held, ok := pairOf(string(location), string(tag)); ok {
				pairs = append(pairs, held)
			}
			at.ContentID = id
		}
		found = found || id == after
	}
	if !found || at.ContentID == after {
		return found, nil
	}
	return true, x.add(pairs, at)
}
