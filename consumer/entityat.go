package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/feed"
)

// EntityAt first requests firstLength bytes, and then 16 times as many with each further request or, if
// that is more than maxLength, the rest of the page.
const (
	firstLength = 4 << 10
	maxLength   = 1 << 20
)

// EntityAt calls use with the entity that begins at an offset of a page of the feed at url, and returns
// the error of use. Only the bytes of the page from this offset on are requested, so the page is not
// verified, and the caller must check that the entity is the expected one. The error matches
// [ErrNotFound], or is a [*StatusError], if the page no longer exists.
func (c *Client) EntityAt(ctx context.Context, url, page string, offset int64, use func(*Entity) error) error {
	s, _, err := c.open(ctx, url)
	if err != nil {
		return err
	}
	defer s.close()
	q := Request{URL: page, Kind: FeedPage, Offset: offset, Length: firstLength}
	for {
		err := s.entityAt(q, use)
		if !errors.Is(err, errCut) {
			return err
		}
		if q.Length *= 16; q.Length > maxLength {
			q.Length = 0
		}
	}
}

// errCut means that the entity may extend beyond the part of the page that was requested.
var errCut = errors.New("the entity is not complete")

func (s *session) entityAt(q Request, use func(*Entity) error) error {
	resp, err := s.send(q)
	if err != nil {
		return err
	}
	defer resp.cancel()
	defer resp.Body.Close()
	base, cut := int64(0), false
	if resp.Answer == Part {
		base, cut = q.Offset, q.Length > 0
	}
	e := &s.entity
	s.parser.Reset(resp.Body, resp.Boundary)
	for p, err := range s.parser.Parts() {
		if err == nil && base+p.Offset != q.Offset {
			continue
		}
		if err == nil {
			err = feed.Parse(&e.Entity, p, true)
		}
		if cut && (err != nil || e.Stream != nil) {
			return errCut
		}
		if err != nil {
			return &PageError{URL: q.URL, Part: -1, Offset: q.Offset, Err: err}
		}
		e.Page, e.Part, e.Offset = q.URL, -1, base+p.Offset
		return use(e)
	}
	return &PageError{URL: q.URL, Part: -1, Offset: q.Offset, Err: fmt.Errorf("%w: no entity begins there", ErrPageChanged)}
}
