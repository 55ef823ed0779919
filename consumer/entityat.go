package consumer

import (
	"context"
	"fmt"

	"github.com/feedctl/feedctl/feed"
)

// EntityAt calls use with the entity that begins at an offset of a page of the feed at url, and returns
// its error. Only the rest of the page from there is requested, so that the page is not verified: the
// caller has to know what to expect. The error matches [ErrNotFound], or is a [*StatusError], if the
// page no longer exists.
func (c *Client) EntityAt(ctx context.Context, url, page string, offset int64, use func(*Entity) error) error {
	s, _, err := c.open(ctx, url)
	if err != nil {
		return err
	}
	defer s.close()
	resp, err := s.send(Request{URL: page, Kind: FeedPage, Offset: offset})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	base := int64(0)
	if resp.Answer == Part {
		base = offset
	}
	s.parser.Reset(resp.Body, resp.Boundary)
	for p, err := range s.parser.Parts() {
		if err != nil {
			return &PageError{URL: page, Part: -1, Offset: base, Err: err}
		}
		if base+p.Offset < offset {
			continue
		}
		e := &s.entity
		if err := feed.Parse(&e.Entity, p, true); err != nil {
			return &PageError{URL: page, Part: -1, Offset: offset, Err: err}
		}
		e.Page, e.Part, e.Offset = page, -1, base+p.Offset
		return use(e)
	}
	return &PageError{URL: page, Part: -1, Offset: offset, Err: fmt.Errorf("%w: no entity begins there", ErrPageChanged)}
}
