package producer

import (
	"context"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
)

// A write is one conditional write of a commit.
type write struct {
	draft
	page  chain.Page      // the metadata that is written
	at    storage.Version // what is appended to or replaced; empty: create
	grow  bool            // append
	items int             // of the batch: all before this index are in the feed then
}

// A planner turns the beginning of a batch into writes.
type planner struct {
	feed   *Feed
	stamp  time.Time // Last-Modified of all entities of the commit
	text   []byte    // and as it is written
	writes []*write
}

// plan returns the writes that put the first items of the batch after the newest
// page: an append if that page is open, and pages created after it. What is
// beyond the limits of a commit is left for the next one.
func (f *Feed) plan(ctx context.Context, b *batch) ([]*write, error) {
	var previous time.Time
	if f.tail.newest != nil {
		previous = f.tail.newest.Last
	}
	stamp, err := f.clock.stamp(ctx, previous)
	if err != nil {
		return nil, err
	}
	p := planner{feed: f, stamp: stamp, text: []byte(feed.FormatTime(stamp))}
	if err := p.first(); err != nil {
		return nil, err
	}
	p.cur().page.Checkpoint = f.tail.checkpoint()
	checkpointAt := b.checkpointAt()
	planned := int64(0)
	for n, i := range b.items {
		if n > 0 && planned+i.weight() > f.config.MaxBatchBytes {
			break
		}
		fits, err := p.add(i)
		if err != nil {
			return nil, err
		}
		if !fits {
			break
		}
		planned += i.weight()
		p.cur().items = n + 1
		if n == checkpointAt {
			p.cur().page.Checkpoint = b.checkpointed.checkpoint
		}
	}
	// A page that will not hold as much again is closed now, so that the next commit
	// need not write to two pages.
	w := p.cur()
	if !w.closed && (w.size()+int64(len(w.buf)) > f.config.MaxPageBytes || w.entities >= f.config.MaxPageEntities) {
		w.close()
	}
	return p.writes, p.link()
}

func (p *planner) cur() *write { return p.writes[len(p.writes)-1] }

// first begins with the newest page if it is open, else with the page after it.
func (p *planner) first() error {
	t := &p.feed.tail
	if t.newest == nil || t.newest.Closed {
		p.next()
		return nil
	}
	h, err := t.hash.Clone()
	if err != nil {
		return fmt.Errorf("copy the state of a hash: %w", err)
	}
	p.writes = append(p.writes, &write{
		draft: draft{
			boundary: t.newest.Boundary, entities: t.newest.Entities, base: t.newest.Size,
			hash: h, buf: p.feed.buffer(),
		},
		page: *t.newest, at: t.newest.Version, grow: true,
	})
	return nil
}

// next begins a page after the last.
func (p *planner) next() {
	w := &write{draft: draft{boundary: page.NewBoundary(), hash: newHash(), buf: p.feed.buffer()}}
	w.page = chain.Page{Feed: p.feed.name, Number: 1}
	before := p.feed.tail.newest
	if len(p.writes) > 0 {
		before = &p.cur().page
		w.items = p.cur().items
	} else if p.feed.tail.orphan != nil {
		w.at = p.feed.tail.orphan.Version
	}
	if before != nil {
		w.page.Number, w.page.Checkpoint = before.Number+1, before.Checkpoint
	}
	p.writes = append(p.writes, w)
}

// add puts an item on the last page or a new one. It reports false if that would
// be a page too far.
func (p *planner) add(i item) (bool, error) {
	i.header[0].Value = p.text // Last-Modified is the first
	for {
		w := p.cur()
		if !w.closed && w.entities < p.feed.config.MaxPageEntities {
			ok, err := w.put(i.header, i.entity.Body, i.spool, p.feed.config.MaxPageBytes)
			if err != nil {
				return false, fmt.Errorf("%s: %w", i.entity.ContentID, err)
			}
			if ok {
				if w.entities == 1 {
					w.page.First = p.stamp
				}
				w.page.Last, w.page.LastContentID = p.stamp, i.entity.ContentID
				return true, nil
			}
		}
		if len(p.writes) == chain.Ahead {
			return false, nil
		}
		if !w.closed {
			w.close()
		}
		p.next()
	}
}

// link completes the metadata of the pages, each of which names the one before.
func (p *planner) link() error {
	before := p.feed.tail.newest
	for _, w := range p.writes {
		if !w.grow && before != nil {
			w.page.Prev = before.Digest()
		}
		sum, err := w.finish()
		if err != nil {
			return err
		}
		w.page.Boundary, w.page.Entities, w.page.Closed = w.boundary, w.entities, w.closed
		w.page.SHA256, w.page.Size = sum, w.size()
		before = &w.page
	}
	return nil
}
