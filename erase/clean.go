package erase

import (
	"bytes"
	"context"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/layout"
)

// formerPages calls do with the object key of each page that no longer exists.
func (p *Plan) formerPages(ctx context.Context, do func(key string) error) error {
	floor, err := p.reader.Floor(ctx)
	if err != nil {
		return err
	}
	for entry, err := range p.store.List(ctx, layout.FeedPages(p.feed), "") {
		if err != nil {
			return err
		}
		n, err := layout.ParseFeedPage(p.feed, entry.Key)
		if err != nil {
			continue
		}
		if n >= floor {
			return nil
		}
		if err := do(entry.Key); err != nil {
			return err
		}
	}
	return nil
}

// findFormer finds the objects that hold former content of the feed outside its pages.
func (p *Plan) findFormer(ctx context.Context) error {
	if err := p.formerPages(ctx, func(string) error { p.report.Former++; return nil }); err != nil {
		return err
	}
	for entry, err := range p.store.List(ctx, layout.FeedAside(p.feed), "") {
		if err != nil {
			return err
		}
		p.former = append(p.former, entry.Key)
	}
	for thing, err := range bridge.List(ctx, p.store, p.feed) {
		if err != nil {
			return err
		}
		if p.keys.in(&thing) {
			p.former = append(p.former, layout.FeedQuarantine(p.feed)+thing.Name)
		}
	}
	p.report.Former += int64(len(p.former)) + p.digests
	return nil
}

// in reports whether an entry in quarantine is about one of the keys.
func (k *keys) in(thing *bridge.Quarantined) bool {
	for key := range k.names {
		if thing.ID == key || bytes.Contains(thing.Row, []byte(key)) {
			return true
		}
	}
	return false
}

// dropDigests deletes the state digests of the feed, which hold its keys and digests of bodies. Digests made
// after the DELETEs were published have none of the erased keys.
func (p *Plan) dropDigests(ctx context.Context) error {
	for _, prefix := range [...]string{layout.DigestRoots(p.feed), layout.DigestNodes(p.feed)} {
		for entry, err := range p.store.List(ctx, prefix, "") {
			if err == nil {
				err = p.store.Delete(ctx, entry.Key)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// clean deletes the pages that no longer exist, and the other objects that findFormer found.
func (p *Plan) clean(ctx context.Context) error {
	for _, key := range p.former {
		if err := p.store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return p.formerPages(ctx, func(key string) error { return p.store.Delete(ctx, key) })
}
