package producer

import (
	"context"
	"fmt"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/draft"
)

// A request is a call of Publish or Begin on its way to a commit.
type request struct {
	feed       *Feed
	items      []item
	one        [1]item // the memory for items if there is only one item
	bytes      int64   // size of all headers, and of the bodies that are not spooled
	spools     int     // number of spooled bodies
	spooled    int64   // size of the spooled bodies
	given      bool    // whether the caller set the Content-ID of any item
	checkpoint []byte
	previous   []byte
	known      int64 // the number of a page before which there are no items of the request; 0: not known

	after  *request // the request that must be published before this one
	more   bool     // whether another request follows at once
	weight int64    // how much of Feed.room the request holds

	tried   bool // whether any entity is or may be in the feed
	left    int  // number of items that have neither been written nor found to be duplicates
	receipt Receipt
	err     error
	done    chan struct{} // closed when receipt and err are set

	publication Publication
}

// An item is one entity of a request, on its way to a commit.
type item struct {
	request *request
	entity  *Entity
	id      idHash       // hash of the Content-ID
	spool   *draft.Spool // holds the body if the entity came with a stream
	load    int64        // how many bytes the item adds to a page
	place   int          // place in the batch
	given   bool         // whether the caller set the Content-ID, so that it may already be in the feed
	tried   bool         // whether a write that contained the item may have taken effect
}

func (i item) size() int64 {
	if i.spool != nil {
		return i.spool.Size()
	}
	return int64(len(i.entity.Body))
}

// loadOf returns the number of bytes that an entity with a body of the given size
// adds to a page.
func loadOf(e *Entity, size int64) int64 {
	const boundary = 26 // characters of page.NewBoundary
	n := len("--") + boundary + len("\r\nContent-Length: ") + len("\r\n\r\n") + len("\r\n")
	for digits := size; digits > 9; digits /= 10 {
		n++
	}
	n++ // for the last digit
	fields, header := e.HeaderSize()
	return int64(n+fields*len(": \r\n")+header) + size
}

// newRequest checks the entities and spools their streams.
func (f *Feed) newRequest(ctx context.Context, entities []*Entity, b Batch) (_ *request, err error) {
	switch {
	case len(entities) == 0:
		return nil, fmt.Errorf("%w: a batch needs at least one entity", ErrInvalid)
	case len(b.Checkpoint) > chain.MaxCheckpoint:
		return nil, fmt.Errorf("%w: checkpoint has %d bytes, at most %d fit", ErrInvalid, len(b.Checkpoint), chain.MaxCheckpoint)
	}
	r := &request{
		feed: f, checkpoint: b.Checkpoint, previous: b.Previous,
		more: b.More, left: len(entities), done: make(chan struct{}),
	}
	r.publication.request = r
	if r.items = r.one[:]; len(entities) > 1 {
		r.items = make([]item, len(entities))
	}
	if len(b.Previous) > 0 {
		r.known = b.Known
	}
	if b.After != nil {
		r.after = b.After.request
	}
	defer func() {
		if err != nil {
			r.discard()
		}
	}()
	trace := feed.TraceOfContext(ctx)
	for n, e := range entities {
		i := item{request: r, entity: e, given: e.ContentID != ""}
		if !i.given {
			e.ContentID = f.contentID()
		}
		if err := e.Check(true); err != nil {
			return nil, fmt.Errorf("%w: entity %d: %w", ErrInvalid, n, err)
		}
		e.SetTrace(trace)
		i.id = hashID(e.ContentID)
		if e.Stream != nil {
			if i.spool, err = draft.NewSpool(ctx, f.config.SpoolDir, e, f.config.MaxEntity); err != nil {
				return nil, fmt.Errorf("entity %d: %w", n, err)
			}
		}
		i.load = loadOf(e, i.size())
		r.items[n] = i // from now on, discard removes the spool
		if limit := f.config.MaxEntity; limit > 0 && i.size() > limit {
			return nil, fmt.Errorf("%w: entity %d: body has %d bytes, the limit is %d", ErrInvalid, n, i.size(), limit)
		}
		r.bytes += i.load
		if i.spool != nil {
			r.spools++
			r.bytes -= i.spool.Size()
			r.spooled += i.spool.Size()
		}
		r.given = r.given || i.given
	}
	r.weight = min(r.bytes, f.config.MaxWaiting)
	return r, nil
}

// load returns the amount that the request adds to pages.
func (r *request) load() amount { return amount{r.bytes + r.spooled, len(r.items)} }

// release frees what the request occupies.
func (r *request) release() {
	r.feed.room.Release(r.weight)
	r.discard()
}

// discard removes the spooled bodies of the request.
func (r *request) discard() {
	for _, i := range r.items {
		if i.spool != nil {
			i.spool.Remove()
		}
	}
}
