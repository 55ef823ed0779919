package console

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/layout"
	multipart "github.com/feedctl/feedctl/page"
)

// An entityRow is an entity in a list, without its body.
type entityRow struct {
	Feed      string
	Page      int64
	Index     int // in the page, from 0
	Time      time.Time
	ContentID string
	Key       string
	Operation string
	Type      string
	Size      int64 // of the body, in bytes; -1 if not known
	Problem   string
	URL       string
	end       int64 // where the next entity begins, in a page that was not read as a whole
}

// entitiesTable is what the template "entities" shows.
type entitiesTable struct {
	Entities []entityRow
	Absolute bool // shows times, instead of how long ago they were
}

// Limits of what is read to list entities.
const (
	maxWhole  = 8 << 20   // bytes of a page that is read and verified as a whole
	chunkSize = 160 << 10 // bytes of a larger page that are read in one piece: more than the largest header
	maxText   = 160       // bytes of a text in a list, or of its HTML
)

// errNoEntity means that no entity was found where one should be.
var errNoEntity = errors.New("there is no entity here: the page may be damaged; check it with \"feedctl verify\"")

// listEntities returns at most limit entities of a page, beginning with the one at index from. If the page is too large
// to read as a whole, listEntities reads only the headers, and verifies nothing. In this case, at is the offset of the
// first entity in the page, as returned in next by the call that listed the entities before it.
func (c *Console) listEntities(ctx context.Context, f *feedstore.Feed, p *chain.Page, from int, at int64, limit int) (rows []entityRow, next int64, err error) {
	if p.Size > maxWhole {
		return c.skim(ctx, p, from, at, limit)
	}
	index := 0
	for header, err := range f.Headers(ctx, p.Number) {
		if err != nil {
			return nil, 0, err
		}
		if index >= from {
			rows = append(rows, newEntityRow(p, index, header))
		}
		if index++; len(rows) == limit {
			break
		}
	}
	return rows, 0, nil
}

// newEntityRow returns the row of the entity with the given header.
func newEntityRow(p *chain.Page, index int, header multipart.Header) entityRow {
	row := entityRow{Feed: p.Feed, Page: p.Number, Index: index, Size: -1, URL: entityRef{p.Feed, p.Number, index}.URL()}
	var e feed.Entity
	if err := feed.Parse(&e, &multipart.Part{Index: index, Header: header, Body: []byte{}}, true); err != nil {
		row.Problem = brief(err.Error())
		return row
	}
	row.Time, row.Operation, row.Size = e.LastModified, string(e.Operation), e.Size
	row.ContentID, row.Key, row.Type = brief(e.ContentID), brief(e.Key()), brief(e.ContentType)
	return row
}

// skim does the work of listEntities for a page that is too large to read as a whole: it skips the bodies.
func (c *Console) skim(ctx context.Context, p *chain.Page, from int, at int64, limit int) (rows []entityRow, next int64, err error) {
	for next = at; from+len(rows) < p.Entities && len(rows) < limit; {
		begin := len(rows)
		for row, err := range c.chunk(ctx, p, from+begin, next) {
			if err != nil && len(rows) == begin {
				return nil, 0, err
			}
			if err != nil {
				break // the next chunk begins with this entity
			}
			rows, next = append(rows, row), row.end
			if from+len(rows) == p.Entities || len(rows) == limit {
				break
			}
		}
		if len(rows) == begin {
			return nil, 0, fmt.Errorf("read page %d of %s at byte %d: %w", p.Number, p.Feed, next, errNoEntity)
		}
	}
	return rows, next, nil
}

// chunk yields the entities whose headers are in the chunk of a page that begins at the offset at; index is the index
// of the first one. If the chunk ends within a header, the sequence ends with an error; if it ends within a body, the
// entity with that body is the last one, and there is no error.
func (c *Console) chunk(ctx context.Context, p *chain.Page, index int, at int64) iter.Seq2[entityRow, error] {
	return func(yield func(entityRow, error) bool) {
		object, err := c.config.Store.Get(ctx, layout.FeedPage(p.Feed, p.Number), at, chunkSize)
		if err != nil {
			yield(entityRow{}, fmt.Errorf("read page %d of %s: %w", p.Number, p.Feed, err))
			return
		}
		defer object.Body.Close()
		r := multipart.NewReader(object.Body, p.Boundary, multipart.ReaderOptions{MaxWhole: 1})
		for part, err := range r.Parts() {
			if err != nil {
				yield(entityRow{}, fmt.Errorf("read page %d of %s: %w", p.Number, p.Feed, err))
				return
			}
			row := newEntityRow(p, index, part.Header)
			if row.end = at + r.Offset(); part.Stream != nil {
				if row.Size < 0 {
					yield(entityRow{}, fmt.Errorf("read page %d of %s: %w: %s", p.Number, p.Feed, errNoEntity, row.Problem))
					return
				}
				row.end += row.Size + int64(len("\r\n"))
			}
			if index++; !yield(row, nil) || row.end >= at+chunkSize {
				return
			}
		}
	}
}
