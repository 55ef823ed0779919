package erase

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/together"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// parallel is how many pages are read or written at the same time.
const parallel = 4

// each calls do for the pages from first to last, several at a time, and calls done with the results of each
// group, in order. It skips pages that were pruned.
func (p *Plan) each(ctx context.Context, first, last int64, do func(n int64) (*rewritten, error), done func([]*rewritten) error) error {
	for first <= last {
		pages := make([]*rewritten, min(parallel, last-first+1))
		err := together.Do(len(pages), func(i int) (err error) {
			pages[i], err = do(first + int64(i))
			return err
		})
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil {
			floor, floorErr := p.reader.Floor(ctx)
			if floorErr != nil || floor <= first {
				return errors.Join(err, floorErr)
			}
			first = floor
			continue
		}
		if err := done(pages); err != nil {
			return err
		}
		first += int64(len(pages))
	}
	return nil
}

// search reads all pages up to newest, and adds to the plan what is to be erased.
func (p *Plan) search(ctx context.Context, newest *chain.Page) error {
	first, entities := p.reader.SeenFloor(), int64(0)
	read := func(n int64) (*rewritten, error) {
		page, err := p.stat(ctx, n, newest)
		if err != nil {
			return nil, err
		}
		have, err := p.rewrite(ctx, page, io.Discard, math.MaxInt)
		return &rewritten{found: have, page: page}, err
	}
	return p.each(ctx, first, newest.Number, read, func(pages []*rewritten) error {
		for _, r := range pages {
			p.report.Pages++
			entities += int64(r.page.Entities)
			p.report.Bytes += r.page.Size
			p.report.Entities += r.erased
			if r.erased > 0 {
				p.report.Affected++
			}
			for key, last := range r.last {
				p.last[key] = last
			}
		}
		p.progress(Progress{Entities: entities, Bytes: p.report.Bytes})
		return nil
	})
}

// stat returns page n of the feed, whose newest page is newest.
func (p *Plan) stat(ctx context.Context, n int64, newest *chain.Page) (*chain.Page, error) {
	if n == newest.Number {
		return newest, nil
	}
	return p.reader.Stat(ctx, n)
}

func (p *Plan) progress(now Progress) {
	if p.config.Progress != nil {
		p.config.Progress(now)
	}
}

// limit returns how many entities at the start of page n were searched. Only these may be erased.
func (p *Plan) limit(n int64) int {
	switch {
	case n < p.page:
		return math.MaxInt
	case n == p.page:
		return p.entities
	}
	return 0
}

// replace replaces the pages with copies.
func (p *Plan) replace(ctx context.Context) error {
	erasure, err := chain.BeginErasure(ctx, p.store, p.feed)
	if err != nil {
		return err
	}
	c := &copier{plan: p, erasure: erasure, copied: Progress{Total: p.report.Bytes}}
	if c.next, err = p.reader.Floor(ctx); err != nil {
		return err
	}
	for {
		if err := c.catchUp(ctx); err != nil {
			return err
		}
		if err := c.checkCopies(ctx); err != nil {
			return err
		}
		err := c.finish(ctx)
		if !errors.Is(err, chain.ErrFenceLost) {
			return err
		}
		p.config.Logger.Warn("producers stopped waiting, copying what they added", "feed", p.feed)
	}
}

// A copier writes the copies of the pages of a feed, in order.
type copier struct {
	plan    *Plan
	erasure *chain.Erasure
	next    int64       // the next page to be copied
	before  *chain.Page // the copy of the page before; nil if there is none
	first   int64       // the number of the first copy
	copied  Progress
	kept    int64 // how many entities of the keys were published too late to be erased
}

// catchUp copies closed pages until only a few are left.
func (c *copier) catchUp(ctx context.Context) error {
	for {
		newest, err := c.plan.reader.Newest(ctx)
		if err != nil {
			return err
		}
		last := newest.LastClosed()
		if last-c.next < parallel {
			return nil
		}
		if err := c.copy(ctx, last, newest); err != nil {
			return err
		}
	}
}

// checkCopies checks that all copies are in the store, since soon nothing else will be left of the feed.
func (c *copier) checkCopies(ctx context.Context) error {
	if c.before == nil {
		return nil
	}
	want := c.first
	for entry, err := range c.plan.store.List(ctx, layout.FeedPages(c.plan.feed), layout.FeedPage(c.plan.feed, want-1)) {
		if err != nil {
			return err
		}
		if entry.Key != layout.FeedPage(c.plan.feed, want) || want > c.before.Number {
			break
		}
		want++
	}
	if want <= c.before.Number {
		return fmt.Errorf("%w: page %d, a copy, is missing: repeat the command", chain.ErrCorrupt, want)
	}
	return nil
}

// finish makes producers wait, copies the rest of the feed, and replaces the pages with the copies.
func (c *copier) finish(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			// Producers need not wait any longer.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = c.erasure.Release(ctx)
		}
	}()
	newest, err := c.erasure.Fence(ctx)
	if err != nil {
		return err
	}
	if err := c.copy(ctx, newest.LastClosed(), newest); err != nil {
		return err
	}
	last, kept := c.before, c.kept
	if !newest.Closed {
		// The copy of the newest page may have to be replaced, so c.before and c.next are not advanced yet.
		r, err := c.plan.rewritePage(ctx, newest, c.plan.limit(newest.Number))
		if err != nil {
			return err
		}
		if last, err = c.link(r, c.before); err != nil {
			return err
		}
		kept += r.kept
		if err := c.write(ctx, last, r); err != nil {
			return err
		}
	}
	floor, err := c.erasure.Commit(ctx, last)
	if err != nil {
		return err
	}
	c.plan.report.Oldest, c.plan.report.Newest, c.plan.report.Kept = floor, last.Number, kept
	return nil
}

// copy copies the closed pages up to number last.
func (c *copier) copy(ctx context.Context, last int64, newest *chain.Page) error {
	p := c.plan
	read := func(n int64) (*rewritten, error) {
		page, err := p.stat(ctx, n, newest)
		if err != nil {
			return nil, err
		}
		return p.rewritePage(ctx, page, p.limit(n))
	}
	return p.each(ctx, c.next, last, read, func(pages []*rewritten) error {
		if pages[0].page.Number > c.next {
			c.before = nil // the page before was pruned
		}
		begins := c.before == nil
		copies, before, kept := make([]*chain.Page, len(pages)), c.before, int64(0)
		for i, r := range pages {
			page, err := c.link(r, before)
			if err != nil {
				return err
			}
			copies[i] = page
			before = copies[i]
			kept += r.kept
			c.copied.Entities += int64(r.page.Entities)
			c.copied.Bytes += r.page.Size
		}
		if err := together.Do(len(pages), func(i int) error { return c.write(ctx, copies[i], pages[i]) }); err != nil {
			return err
		}
		if begins {
			c.first = copies[0].Number
		}
		c.before, c.next = before, pages[len(pages)-1].page.Number+1
		c.kept += kept
		p.progress(c.copied)
		return nil
	})
}

// link returns the metadata for the copy of a page; before is the copy of the preceding page.
func (c *copier) link(r *rewritten, before *chain.Page) (*chain.Page, error) {
	page, err := c.erasure.Copy(r.page, before)
	if err != nil {
		return nil, err
	}
	page.SHA256, page.Size = hex.EncodeToString(r.sum.Sum(nil)), r.body.Size()
	return page, nil
}

// write writes a copy. If the object already exists, it is replaced only if it is a copy that this erasure
// made of an earlier state of the page; otherwise, the feed has grown up to the number of the copy, and
// write returns [chain.ErrOutgrown].
func (c *copier) write(ctx context.Context, page *chain.Page, r *rewritten) error {
	meta, err := page.Meta()
	if err != nil {
		return err
	}
	key := layout.FeedPage(page.Feed, page.Number)
	_, err = c.plan.store.Create(ctx, key, meta, r.body)
	if errors.Is(err, storage.ErrExists) {
		var there storage.Info
		if there, err = c.plan.store.Stat(ctx, key); err == nil {
			if p, err := chain.Decode(page.Feed, page.Number, there); err != nil || p.Floor != page.Floor {
				return errors.Join(chain.ErrOutgrown, err)
			}
			_, err = c.plan.store.Replace(ctx, key, there.Version, meta, r.body)
		}
	}
	if err != nil {
		return fmt.Errorf("write page %d, the copy of page %d: %w", page.Number, r.page.Number, err)
	}
	return nil
}
