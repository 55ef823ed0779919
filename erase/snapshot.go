package erase

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
)

// InSnapshot reports whether a snapshot of the feed in the store contains one of the keys. It returns false
// for a snapshot that is being deleted. If all entities of a key have been pruned but the snapshot contains
// the key, consumers may have its data as well: Run then publishes a DELETE or, with [Config.ForgetKeys], the
// error matches [ErrTold].
func (p *Plan) InSnapshot(ctx context.Context, name, id string) (has bool, err error) {
	for entry, err := range p.store.List(ctx, layout.SnapshotPages(name, id), "") {
		found := false
		if err == nil {
			found, err = p.inPage(ctx, entry.Key)
		}
		if err != nil {
			return false, fmt.Errorf("search snapshot %s/%s: %w", name, id, err)
		}
		has = has || found
	}
	return has, nil
}

// inPage reports whether a page of a snapshot contains one of the keys.
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
		key, ours := e.Key(), false
		if _, ours = p.keys.names[key]; !ours { // a snapshot has Content-Location even if its feed does not
			if key, ours, err = p.keys.of(&e); err != nil && e.ContentLocation == "" {
				return false, err
			}
		}
		if ours {
			has = true
			if err := p.noteState(key, e.ContentLocation); err != nil {
				return false, err
			}
		}
	}
	return has, nil
}

// noteState records that a snapshot contains a key.
func (p *Plan) noteState(key, location string) error {
	if _, ok := p.last[key]; ok {
		return nil
	}
	if p.config.ForgetKeys {
		return fmt.Errorf("key %q: %w", key, ErrTold)
	}
	p.last[key] = state{feed.Put, location}
	p.report.Deletes++
	p.report.Unknown = slices.DeleteFunc(p.report.Unknown, func(k string) bool { return k == key })
	return nil
}
