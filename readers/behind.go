package readers

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
)

// A Count is a number of entities.
type Count struct {
	Entities int64
	More     bool // whether there are more entities than these
}

// Limits of [Behind].
const (
	countPages = 256     // maximum number of pages whose metadata is read
	countBytes = 4 << 20 // maximum size, in bytes, of the page that contains the position
)

// Behind counts the entities of a feed after a position. It reads the metadata of at most 256 pages,
// and the body of one page if it has at most 4 MiB; beyond these limits, the Count says that there
// are more entities. It returns the same errors as [feedstore.Reader.Look].
func Behind(ctx context.Context, feeds *feedstore.Reader, name string, p Position) (Count, error) {
	f, newest, floor, err := feeds.Look(ctx, name)
	if err != nil {
		return Count{}, fmt.Errorf("count the entities after a position: %w", err)
	}
	if p.ContentID != "" && p.ContentID == newest.LastContentID {
		return Count{}, nil
	}
	at := p.Page
	if at == 0 {
		if at, err = pageOf(ctx, feeds, f, newest, p); err != nil {
			return Count{}, err
		}
	}
	var c Count
	if at >= floor && at <= newest.Number {
		if c, err = within(ctx, f, newest, at, p); err != nil {
			return Count{}, err
		}
	} else if at < floor {
		at, c.More = floor-1, true // pruned entities cannot be counted
	}
	last := min(newest.Number-1, at+countPages)
	for page, err := range f.LinkedPages(ctx, at+1, last) {
		if err != nil {
			return Count{}, fmt.Errorf("count the entities after a position: %w", err)
		}
		c.Entities += int64(page.Entities)
	}
	if at < newest.Number {
		c.Entities += int64(newest.Entities)
	}
	c.More = c.More || last < newest.Number-1
	return c, nil
}

// pageOf returns the first page that may contain the position p, for positions whose page is not
// known.
func pageOf(ctx context.Context, feeds *feedstore.Reader, f *feedstore.Feed, newest *chain.Page, p Position) (int64, error) {
	at, err := feeds.PageBefore(ctx, f.Name(), p.Time)
	if err != nil {
		return 0, fmt.Errorf("find the page of a position: %w", err)
	}
	if at < newest.Number {
		if page, err := f.Stat(ctx, at); err == nil && page.Last.Before(p.Time) {
			at++
		}
	}
	return at, nil
}

// within counts the entities that follow the position p on page at, the page of p.
func within(ctx context.Context, f *feedstore.Feed, newest *chain.Page, at int64, p Position) (Count, error) {
	page, err := newest, error(nil)
	if at < newest.Number {
		page, err = f.Stat(ctx, at)
	}
	switch {
	case errors.Is(err, chain.ErrPruned):
		return Count{More: true}, nil
	case err != nil:
		return Count{}, fmt.Errorf("count the entities after a position: %w", err)
	case p.ContentID == page.LastContentID, p.ContentID == "" && !feed.Truncate(page.Last).After(p.Time):
		return Count{}, nil // the reader has read the whole page
	case page.Size > countBytes:
		return Count{More: true}, nil
	}
	found, after := false, int64(0)
	for h, err := range f.Headers(ctx, at) {
		if err != nil {
			return Count{}, fmt.Errorf("count the entities after a position: %w", err)
		}
		if p.ContentID == "" { // the position is a time
			t, err := feed.ParseTime(string(h.Get("Last-Modified")))
			found = found || err == nil && t.After(p.Time)
		}
		if found {
			after++
		}
		found = found || p.ContentID != "" && string(h.Get("Content-ID")) == p.ContentID
	}
	return Count{Entities: after, More: !found}, nil
}
