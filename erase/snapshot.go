package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
)

// InSnapshot reports whether a snapshot in the store has one of the keys. A snapshot that is being
// deleted has none.
func (p *Plan) InSnapshot(ctx context.Context, name, id string) (bool, error) {
	for entry, err := range p.store.List(ctx, layout.SnapshotPages(name, id), "") {
		has := false
		if err == nil {
			has, err = p.inPage(ctx, entry.Key)
		}
		if err != nil {
			return false, fmt.Errorf("search snapshot %s/%s: %w", name, id, err)
		}
		if has {
			return true, nil
		}
	}
	return false, nil
}

// inPage reports whether a page of a snapshot has one of the keys.
func (p *Plan) inPage(ctx context.Context, key string) (has bool, err error) {
	object, err := p.store.Get(ctx, key, 0, -1)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, object.Body.Close()) }()
	boundary, err := page.Boundary(object.Meta.ContentType)
	if err != nil {
		return false, fmt.Errorf("%s: %w", key, err)
	}
	var e feed.Entity
	for part, err := range page.NewReader(object.Body, boundary, page.ReaderOptions{}).Parts() {
		if err == nil {
			err = feed.Parse(&e, part, false)
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", key, err)
		}
		// A snapshot of a feed without Content-Location has the keys there.
		if _, ok := p.keys.names[e.Key()]; ok {
			return true, nil
		}
		if _, ours, err := p.keys.of(&e); ours || err != nil && e.ContentLocation == "" {
			return ours, err
		}
	}
	return false, nil
}
