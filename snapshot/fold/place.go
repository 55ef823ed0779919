package fold

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
)

// A place says where in the feed the last PUT of a row is.
type place struct {
	page   int64 // number; 0 if unknown
	offset int64 // of the PUT's part, in bytes from the start of the page
}

// placeField is the name of a header field that a row has in addition to those of its entity, and
// whose value is the place. An entity cannot have a field of this name, since the name is not a
// token.
const placeField = "@place"

func (p place) String() string { return fmt.Sprintf("%d %d", p.page, p.offset) }

// cutPlace cuts the place, which is the last member if there is one, from a row's headers, a JSON
// object. Other members cannot be mistaken for it, since quotes within a JSON string are escaped.
func cutPlace(headers string) (rest string, p place, err error) {
	rest, member, found := strings.Cut(headers, `"`+placeField+`":["`)
	if !found {
		return headers, p, nil
	}
	text, ends := strings.CutSuffix(member, `"]}`)
	page, offset, _ := strings.Cut(text, " ")
	p.page, err = strconv.ParseInt(page, 10, 64)
	if err == nil {
		p.offset, err = strconv.ParseInt(offset, 10, 64)
	}
	if err != nil || !ends {
		return "", place{}, fmt.Errorf("%w: place in %q", errMismatch, headers)
	}
	return strings.TrimSuffix(rest, ",") + "}", p, nil
}

// places is a table in which each row also has the place of its entity.
type places struct {
	consumer.Sink
	feed string
}

// Begin begins a batch.
func (p *places) Begin(ctx context.Context) (consumer.Batch, error) {
	batch, err := p.Sink.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &placeBatch{Batch: batch, feed: p.feed}, nil
}

type placeBatch struct {
	consumer.Batch
	feed string
	next place // of the entity that is applied next
}

// Place records the place of the entity that is applied next. An entity of a snapshot has no place
// in the feed.
func (b *placeBatch) Place(e *consumer.Entity) {
	b.next = place{}
	if name, n, err := layout.ParseFeedPageURL(e.Page); err == nil && name == b.feed {
		b.next = place{n, e.Offset}
	}
}

// Apply applies an entity together with its place. A PATCH leaves the headers of the row, and thus
// the place, unchanged.
func (b *placeBatch) Apply(ctx context.Context, e *feed.Entity) error {
	if b.next.page == 0 {
		return b.Batch.Apply(ctx, e)
	}
	row := *e
	row.Header = append(slices.Clip(e.Header), feed.Field{Name: placeField, Value: b.next.String()})
	return b.Batch.Apply(ctx, &row)
}
