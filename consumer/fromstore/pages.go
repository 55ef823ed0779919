package fromstore

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
)

// feedPage answers requests for a page of a feed.
func (s *Source) feedPage(ctx context.Context, q consumer.Request, at location) (*consumer.Response, error) {
	f, err := s.reader.Feed(at.feed)
	if err == nil && at.timegate {
		at.page, err = s.reader.PageBefore(ctx, at.feed, q.At)
	}
	if err != nil {
		return nil, err
	}
	if at.page > 0 && f.Linked(at.page) {
		return s.linked(ctx, q, f, at.page)
	}
	f, newest, floor, err := s.reader.Look(ctx, at.feed)
	switch {
	case err != nil:
		return nil, err
	case at.page > newest.Number:
		return nil, fmt.Errorf("page %d of feed %q: %w (the newest is %d)", at.page, at.feed, chain.ErrNoPage, newest.Number)
	case at.page > 0 && at.page < newest.Number:
		return s.linked(ctx, q, f, at.page)
	}
	if q.Wait > 0 && s.watches && q.ETag == etag(newest, false) {
		number := newest.Number
		if newest, _, err = f.Wait(ctx, newest, q.Wait); err != nil {
			return nil, err
		}
		before := f
		if f, err = s.reader.Feed(at.feed); err != nil {
			return nil, err
		}
		if f != before {
			if floor, err = f.Floor(ctx); err != nil {
				return nil, err
			}
		}
		switch {
		case at.page == 0 || newest.Number == number:
		case newest.Number > number:
			return s.linked(ctx, q, f, number)
		default: // the store was restored to an older state
			return nil, fmt.Errorf("page %d of feed %q: %w (the newest is %d)", number, at.feed, chain.ErrNoPage, newest.Number)
		}
	}
	r := s.describe(f, newest, floor, false)
	switch {
	case q.ETag != "" && q.ETag == r.ETag:
		r.Answer, r.Body = consumer.NotModified, noBody{}
	case q.Head:
		r.Body = noBody{}
	default:
		p, body, _, err := f.OpenNewest(ctx, newest, q.Offset, -1)
		if err != nil {
			return nil, err
		}
		r = s.describe(f, p, floor, false)
		r.Body = wholeBody{p.Whole(body), body}
		r.answered(q)
	}
	return r.Response, nil
}

// linked answers requests for page n, which has a next page.
func (s *Source) linked(ctx context.Context, q consumer.Request, f *feedstore.Feed, n int64) (*consumer.Response, error) {
	floor, err := f.Floor(ctx)
	if err == nil && f.Stale() {
		return s.feedPage(ctx, q, location{feed: f.Name(), page: n})
	}
	if err == nil && n < floor {
		err = fmt.Errorf("page %d of feed %q: %w (the oldest is %d)", n, f.Name(), chain.ErrPruned, floor)
	}
	if err != nil {
		return nil, err
	}
	if q.Head {
		f.Crawl(n, floor)
	}
	if q.Head || q.ETag != "" {
		p, err := f.Stat(ctx, n)
		if err != nil {
			return nil, err
		}
		r := s.describe(f, p, floor, true)
		r.Body = noBody{}
		if q.ETag == r.ETag {
			r.Answer = consumer.NotModified
		}
		if q.Head || r.Answer == consumer.NotModified {
			return r.Response, nil
		}
	}
	p, body, err := f.Open(ctx, n, q.Offset, -1)
	if err != nil {
		return nil, err
	}
	r := s.describe(f, p, floor, true)
	r.Body = body
	r.answered(q)
	return r.Response, nil
}

// A response is a [consumer.Response] under construction.
type response struct{ *consumer.Response }

// answered sets the fields of r that say how its body answers the request q: whether it is
// verified, and whether it is a part.
func (r response) answered(q consumer.Request) {
	r.Verified = q.Offset == 0
	if q.Offset > 0 {
		r.Answer = consumer.Part
	}
}

// describe returns a response that describes page p of a feed, without a body.
func (s *Source) describe(f *feedstore.Feed, p *chain.Page, floor int64, linked bool) response {
	url := func(n int64) string { return s.name + layout.FeedPagePath(p.Feed, n) }
	r := &consumer.Response{
		URL: url(p.Number), ETag: etag(p, linked), Boundary: p.Boundary, LastModified: feed.Truncate(p.Last),
		Links: feed.Links{Self: url(p.Number), Last: s.Feed(p.Feed)}, Chain: feed.Chain{Prev: p.Prev, First: p.IsFirst(), Identity: f.Identity()},
	}
	if p.Number > floor {
		r.Links.Prev = url(p.Number - 1)
	}
	if linked {
		r.Chain.Identity.Epoch = feed.Epoch{} // as on a server
		r.Links.Next = url(p.Number + 1)
	} else {
		r.Links.First, r.Links.Timegate = url(min(floor, p.Number)), s.name+layout.FeedTimegatePath(p.Feed)
	}
	if p.Closed {
		r.Chain.Self = p.Digest()
	}
	return response{r}
}

// etag returns the entity tag of a state of a page, which includes its next link.
func etag(p *chain.Page, linked bool) string {
	if linked {
		return p.SHA256 + "-l"
	}
	return p.SHA256
}

// snapshotPage answers requests for a page of a snapshot.
func (s *Source) snapshotPage(ctx context.Context, at location) (*consumer.Response, error) {
	if err := s.reader.FindSnapshot(ctx, at.snapshot, at.id); err != nil {
		return nil, err
	}
	p, body, err := s.reader.OpenSnapshotPage(ctx, at.snapshot, at.id, int(at.page), 0, -1)
	if err != nil {
		return nil, err
	}
	boundary, err := page.Boundary(p.ContentType)
	if err != nil {
		body.Close()
		return nil, s.reader.Corrupt(p.Key, err)
	}
	return &consumer.Response{
		URL: s.name + at.path(), ETag: p.SHA256, Boundary: boundary, LastModified: feed.Truncate(p.Modified), Body: body, Verified: true,
	}, nil
}

// index answers requests for the index of a snapshot.
func (s *Source) index(ctx context.Context, at location, latest time.Time) (*consumer.Response, error) {
	var err error
	switch {
	case at.id != "":
	case latest.IsZero():
		at.id, err = s.reader.NewestSnapshot(ctx, at.snapshot)
	default:
		at.id, err = s.reader.SnapshotAt(ctx, at.snapshot, latest)
	}
	if err != nil {
		return nil, err
	}
	index, err := s.reader.SnapshotIndex(ctx, at.snapshot, at.id)
	if err != nil {
		return nil, err
	}
	for n := range index.PageCount {
		index.Pages = append(index.Pages, s.name+layout.SnapshotPagePath(at.snapshot, at.id, n))
	}
	if f := index.Feed; f != nil {
		for _, reference := range []*string{&f.URL, &f.Page} {
			if len(*reference) > 0 && (*reference)[0] == '/' {
				*reference = s.name + *reference
			}
		}
	}
	return &consumer.Response{URL: s.name + at.path(), Index: &index.Index, Body: noBody{}}, nil
}

// noBody is the body of a response without one.
type noBody struct{}

func (noBody) Read([]byte) (int, error) { return 0, io.EOF }
func (noBody) Close() error             { return nil }

// A wholeBody is a body followed by the closing delimiter, which is not stored.
type wholeBody struct {
	io.Reader
	io.Closer
}
