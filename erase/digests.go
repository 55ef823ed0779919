package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// findDigests counts the state digests that contain one of the keys. A digest that was made before a key was
// deleted contains the key, even if all that the feed has for it is the DELETE. A digest that cannot be read
// is counted, since it may contain a key.
func (p *Plan) findDigests(ctx context.Context) error {
	ids, err := digests.List(ctx, p.store, p.feed)
	if err != nil {
		return err
	}
	if len(ids) == 0 { // an erasure that was killed may have left nodes without roots
		for _, err := range p.store.List(ctx, layout.DigestNodes(p.feed), "") {
			if err == nil {
				p.digests = 1
			}
			return err
		}
	}
	for _, id := range ids {
		has, err := p.inDigest(ctx, id)
		for _, unreadable := range [...]error{storage.ErrNotFound, digests.ErrCorrupt, digest.ErrInvalid, digest.ErrVersion} {
			if errors.Is(err, unreadable) {
				has, err = true, nil
			}
		}
		if err != nil {
			return fmt.Errorf("search state digest %s: %w", id, err)
		}
		if has {
			p.digests++
		}
	}
	return nil
}

// inDigest reports whether a state digest contains one of the keys.
func (p *Plan) inDigest(ctx context.Context, id string) (bool, error) {
	root, err := digests.Read(ctx, p.store, p.feed, id)
	if err != nil {
		return false, err
	}
	r := digest.Reader{Root: root, Objects: digests.Objects(p.store, p.feed)}
	for key := range p.keys.names {
		keys := digest.Range{From: key, To: key + "\x00"}
		if root.Versions { // the key is percent-encoded, and followed by a space and a version
			keys = digest.Range{From: feed.EncodeKey(key), To: feed.EncodeKey(key) + "!"}
		}
		for _, err := range r.In(ctx, keys) {
			return err == nil, err
		}
	}
	return false, nil
}
