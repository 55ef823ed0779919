package consumer

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/snapshot"
)

// Pages returns an iterator over the pages of the feed at url, from start on,
// in order. The next page is requested as soon as the header of the current one
// has been received. If there is an error, it is yielded last.
//
// Each range over the iterator makes its own requests. If the client follows, the iteration ends
// only when ctx ends or an error occurs; the newest page is yielded again each time it has grown.
func (c *Client) Pages(ctx context.Context, url string, start Start) iter.Seq2[*Page, error] {
	return func(yield func(*Page, error) bool) {
		s, url, err := c.open(ctx, url)
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.close()
		s.pages(url, start)(yield)
	}
}

// Newest returns the time of the newest entity of a feed.
func (c *Client) Newest(ctx context.Context, url string) (time.Time, error) {
	for p, err := range c.Pages(ctx, url, Latest()) {
		if err != nil {
			return time.Time{}, err
		}
		return p.LastModified, nil
	}
	return time.Time{}, fmt.Errorf("feed %s is empty", url)
}

// Entities returns an iterator over the entities of the feed at url, from start
// on, in order, as [Client.Pages] does over its pages. To continue later, start [After] the
// [Entity.Position] of the last entity.
//
// A page whose transfer fails is requested again as a whole, and the entities
// already yielded are skipped. If the transfer fails while a Stream is being read,
// its Read fails, and so does the iteration; see [Retryable].
func (c *Client) Entities(ctx context.Context, url string, start Start) iter.Seq2[*Entity, error] {
	return flatten(c.Pages(ctx, url, start))
}

// Snapshot returns an iterator over the entities of a snapshot, in the order of
// its index, from the given position on. The position's Index may be empty. Pages
// are requested concurrently.
func (c *Client) Snapshot(ctx context.Context, indexURL string, from feed.SnapshotPosition) iter.Seq2[*Entity, error] {
	return flatten(func(yield func(*Page, error) bool) {
		s, indexURL, err := c.open(ctx, indexURL)
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.close()
		if from.Index != "" {
			indexURL = from.Index
		}
		x, err := s.index(indexURL, time.Time{})
		if err != nil {
			yield(nil, err)
			return
		}
		s.snapshotPages(x, from)(yield)
	})
}

// Index requests a snapshot index and checks it.
func (c *Client) Index(ctx context.Context, indexURL string) (*snapshot.Index, error) {
	s, indexURL, err := c.open(ctx, indexURL)
	if err != nil {
		return nil, err
	}
	defer s.close()
	x, err := s.index(indexURL, time.Time{})
	if err != nil {
		return nil, err
	}
	return x.Index, nil
}

// pages yields the pages of a feed; if start is in a snapshot, it first yields the pages of the
// snapshot.
func (s *session) pages(url string, start Start) iter.Seq2[*Page, error] {
	return func(yield func(*Page, error) bool) {
		if from, ok := start.snapshot(); ok {
			s.trust(start.index)
			x, err := s.index(from.Index, time.Time{})
			if err != nil {
				yield(nil, err)
				return
			}
			for p, err := range s.snapshotPages(x, from) {
				if !yield(p, err) || err != nil {
					return
				}
			}
			start = After(x.handOff(url))
		}
		s.feedPages(url, start)(yield)
	}
}

// flatten yields the entities of pages.
func flatten(pages iter.Seq2[*Page, error]) iter.Seq2[*Entity, error] {
	return func(yield func(*Entity, error) bool) {
		for p, err := range pages {
			if err != nil {
				yield(nil, err)
				return
			}
			for e, err := range p.Entities() {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}
