package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/snapshot"
)

// An Oldest describes the beginning of a feed.
type Oldest struct {
	LastModified time.Time // of the oldest entity
	// Pruned means that there were older entities. It is false if the server does not report this
	// (see [feed.Chain]).
	Pruned bool
}

// Oldest returns the beginning of the feed at url.
func (c *Client) Oldest(ctx context.Context, url string) (Oldest, error) {
	for p, err := range c.Pages(ctx, url, Beginning()) {
		if err != nil {
			return Oldest{}, err
		}
		for e, err := range p.Entities() {
			if err != nil {
				return Oldest{}, err
			}
			return Oldest{LastModified: e.LastModified, Pruned: p.chain.Prev != "" && !p.chain.First}, nil
		}
	}
	return Oldest{}, fmt.Errorf("feed %s: %w", shown(url), errEmpty)
}

// Find returns the Last-Modified of the entity with the given Content-ID in the feed at url. The feed
// is read from its beginning until the entity is found. If the feed has no such entity, the error is
// an [*UntilNotFoundError].
func (c *Client) Find(ctx context.Context, url, contentID string) (time.Time, error) {
	found, err := c.find(ctx, url, Beginning(), contentID)
	if err == nil && found.IsZero() {
		err = &UntilNotFoundError{URL: shown(url), ContentID: contentID}
	}
	return found, err
}

// find is like Find, but reads the feed from start on, and returns the zero time if there is no such
// entity.
func (c *Client) find(ctx context.Context, url string, start Start, contentID string) (time.Time, error) {
	for e, err := range c.Entities(ctx, url, start) {
		if err != nil {
			return time.Time{}, fmt.Errorf("search for Content-ID %q: %w", contentID, err)
		}
		if e.ContentID == contentID {
			return e.LastModified, nil
		}
	}
	return time.Time{}, nil
}

// IndexAt requests the index of the newest of the snapshots at indexURL whose position in the feed is
// not later than t, in whole seconds, and returns it with its own URL, to which [FromSnapshot] can be
// applied. The error matches [ErrNotFound], or is a [*StatusError] for 404, if there is no such
// snapshot. If the source cannot search for it and returns a later snapshot, the error matches
// [ErrNoEarlier].
func (c *Client) IndexAt(ctx context.Context, indexURL string, t time.Time) (*snapshot.Index, string, error) {
	s, indexURL, err := c.open(ctx, indexURL)
	if err != nil {
		return nil, "", err
	}
	defer s.close()
	x, err := s.index(indexURL, t)
	if err != nil {
		return nil, "", err
	}
	if at := x.handOff("").LastModified; at.After(t) {
		return nil, "", indexError(x.position, fmt.Errorf("%w: it is from %s", ErrNoEarlier, at.UTC().Format(time.RFC3339)))
	}
	return x.Index, x.position, nil
}

// ErrNoEarlier means that a server offers only its newest snapshot.
var ErrNoEarlier = errors.New("the server offers only this snapshot")
