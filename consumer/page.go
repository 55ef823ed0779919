package consumer

import (
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// A Page is a page of a feed or of a snapshot. It is valid until the next
// page is requested.
type Page struct {
	// URL of the page: from its self link or, in a snapshot, from the index.
	URL string
	// Links of the page; none in a snapshot.
	Links feed.Links
	// LastModified of the page, in whole seconds; zero for a page of a snapshot that does not state
	// it.
	LastModified time.Time
	// Header of the response; nil if the page was not read over HTTP.
	Header http.Header

	chain    feed.Chain
	boundary string
	etag     string // "" if the page has none
	entities func(yield func(*Entity, error) bool)
	last     func() mark // the entity that was read last
	before   func() feed.Position
}

// end returns the position after the last entity that was read.
func (p *Page) end() feed.Position {
	m := p.last()
	return originOf(p.chain.Identity).at(feed.Position{LastModified: m.lastModified, ContentID: m.contentID, Page: p.URL, Prev: p.chain.Prev})
}

// Newest reports whether the page was the end of its feed when it was
// requested.
func (p *Page) Newest() bool { return p.Links.Next == "" }

// Entities yields the entities of the page that come after the start and, if the page has grown,
// were not yielded before. Entities that the caller does not read are skipped when the next page is
// requested. If there is an error, it is yielded last, and ends the iteration over the pages.
func (p *Page) Entities() iter.Seq2[*Entity, error] { return p.entities }

// An Entity is an entity and the place where it was read. The Entity, its Body and its Stream are
// valid until the next Entity is requested.
type Entity struct {
	feed.Entity
	Page   string // URL of the page
	Part   int    // index in the page, from 0
	Offset int64  // of the part, in bytes from the start of the page

	prev   string // digest of the page before
	origin origin
	index  string // in a snapshot, the URL of its index
	page   int    // in a snapshot, the number of the page
}

// Position returns the place in the feed or snapshot after e.
func (e *Entity) Position() feed.Position {
	if e.index != "" {
		return feed.Position{Snapshot: &feed.SnapshotPosition{Index: e.index, Page: e.page, Entities: e.Part + 1}}
	}
	return e.origin.at(feed.Position{LastModified: e.LastModified, ContentID: e.ContentID, Page: e.Page, Prev: e.prev})
}

// size returns the number of bytes in e's body, or 0 if it is not known.
func (e *Entity) size() int64 {
	if e.Stream != nil {
		return max(e.Size, 0)
	}
	return int64(len(e.Body))
}

// newFeedPage returns the page of a feed that a response describes, or an error if header fields
// are missing (specification, section "Feed", "Required headers").
func newFeedPage(r *response) (*Page, error) {
	p := newPage(r)
	switch {
	case r.Links.Self == "":
		return nil, &PageError{URL: p.URL, Part: -1, Err: fmt.Errorf("%w: there is no self link", ErrLinks)}
	case p.LastModified.IsZero():
		return nil, &PageError{URL: p.URL, Part: -1, Err: &feed.HeaderError{Part: -1, Name: "Last-Modified", Err: feed.ErrMissingHeader}}
	}
	p.URL, p.Links, p.chain = r.Links.Self, r.Links, r.Chain
	return p, nil
}

// newPage returns the page of a feed or snapshot that a response describes.
func newPage(r *response) *Page {
	return &Page{URL: r.URL, Header: r.Header, LastModified: r.LastModified, boundary: r.Boundary, etag: r.ETag}
}

// A Summary counts the entities of a page.
type Summary struct {
	Entities    int64
	Bytes       int64     // of their bodies
	First, Last time.Time // Last-Modified of the first and of the last entity
}

// Summarize reads the page to its end.
func (p *Page) Summarize() (s Summary, err error) {
	for e, err := range p.Entities() {
		if err != nil {
			return s, err
		}
		if s.Entities++; s.Entities == 1 {
			s.First = e.LastModified
		}
		s.Last = e.LastModified
		s.Bytes += int64(len(e.Body))
		if e.Stream != nil {
			n, err := io.Copy(io.Discard, e.Stream)
			if err != nil {
				return s, err
			}
			s.Bytes += n
		}
	}
	return s, nil
}
