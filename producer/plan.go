package producer

import (
	"context"
	"fmt"
	"hash"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/draft"
	"github.com/feedctl/feedctl/storage"
)

// A write is one of the conditional writes of a commit.
type write struct {
	draft.Draft
	page  chain.Page      // the metadata to be written
	at    storage.Version // the version to append to or to replace; empty: create the page
	grow  bool            // whether to append
	items int             // number of items of the batch on this page; they follow those of earlier writes
	// traces holds the traces of the items. It is set only if Config.Observe is.
	traces feed.Traces

	begun     time.Time
	version   storage.Version
	orphan    *chain.Page // the orphan after the page, if the page itself replaced an orphan
	err       error
	landed    bool // whether the store has the page
	confirmed bool // whether the page is known not to be below the floor
}

// A planner turns items into writes that follow the newest page: an append if that page is open,
// and new pages after it. It plans ahead while writes are under way, since the next write depends
// only on what the end of the feed will be after the previous write.
type planner struct {
	feed       *Feed
	end        *chain.Page // the page after which the next page is written; nil: none
	first      int64       // number of the next page if end is nil
	hash       hash.Cloner // of the body of end, if end is open
	orphan     *chain.Page // the page with the number after end, if any
	checkpoint []byte      // the checkpoint of the next page
	stamp      time.Time   // Last-Modified of the entities on the page
}

// begin returns an empty write at the end of the feed.
func (p *planner) begin(ctx context.Context) (*write, error) {
	previous := p.stamp
	if p.end != nil && p.end.Last.After(previous) {
		previous = p.end.Last
	}
	stamp, err := p.feed.clock.stamp(ctx, previous)
	if err != nil {
		return nil, err
	}
	p.stamp = stamp
	w := &write{begun: time.Now()}
	if p.end != nil && !p.end.Closed {
		h, err := p.hash.Clone()
		if err != nil {
			return nil, fmt.Errorf("copy the state of a hash: %w", err)
		}
		w.Draft = draft.Append(p.end.Boundary, p.end.Entities, p.end.Size, h, p.feed.buffer())
		w.page, w.at, w.grow = *p.end, p.end.Version, true
	} else {
		w.Draft = draft.New(p.feed.buffer())
		w.page = chain.Page{Feed: p.feed.name, Number: p.first, Prev: chain.FirstPrev(p.feed.name, p.first)}
		if p.end != nil {
			w.page.Number, w.page.Prev = p.end.Number+1, p.end.Digest()
		}
		if p.orphan != nil {
			w.at = p.orphan.Version
		}
	}
	w.page.Checkpoint = p.checkpoint
	return w, nil
}

// add adds an item to the page of w. It returns false if the item belongs on the next page.
func (p *planner) add(w *write, i item) (bool, error) {
	if w.Closed || w.Entities >= p.feed.config.MaxPageEntities {
		return false, nil
	}
	ok, err := w.Put(p.feed.header.Header(i.entity, p.stamp), i.entity.Body, i.spool, p.feed.config.MaxPageBytes)
	if err != nil {
		return false, fmt.Errorf("%s: %w", i.entity.ContentID, err)
	}
	if !ok {
		return false, nil
	}
	if w.Entities == 1 {
		w.page.First = p.stamp
	}
	w.page.Last, w.page.LastContentID = p.stamp, i.entity.ContentID
	w.items++
	if p.feed.config.Observe != nil {
		w.traces.Add(i.entity)
	}
	return true, nil
}

// finish completes the metadata of the page, which becomes the end of the feed. A page is closed if
// it is full, or if it could not hold as much again, so that the next commit need not write to two
// pages.
func (p *planner) finish(w *write, full bool) error {
	limits := &p.feed.config
	full = full || w.Size()+w.Added() > limits.MaxPageBytes || w.Entities >= limits.MaxPageEntities
	if full && !w.Closed {
		w.Close()
	}
	sum, err := w.Finish()
	if err != nil {
		return err
	}
	w.page.Boundary, w.page.Entities, w.page.Closed = w.Boundary, w.Entities, w.Closed
	w.page.SHA256, w.page.Size = sum, w.Size()
	p.end, p.hash, p.orphan, p.checkpoint = &w.page, w.Hash, nil, w.page.Checkpoint
	return nil
}
