package replica

import (
	"context"
	"errors"
	"io"
	"maps"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// A quarantine copies the quarantine of a bridge.
//
// A bridge writes an entry before the checkpoint that skips its document, and removes the entry after it has
// published the document. So that the copy is never incomplete, entries are copied before pages that were
// written after them, and removed after pages that were written before their removal. Only a document that is
// published, and whose entry is removed, while the copy lags behind is missing from the copy until the copy
// has caught up.
type quarantine struct {
	before  keys        // entries that the source had before this Sync read pages, or has had since; nil if unknown
	now     keys        // entries when they were last listed; nil if not listed in this Sync
	newest  *chain.Page // the source's newest page at the beginning of this Sync
	covered *chain.Page // the last page state for which the entries were listed, or nil
}

type keys map[string]bool

func (f *Feed) listQuarantine(ctx context.Context, store storage.Store) (keys, error) {
	found := make(keys)
	for entry, err := range store.List(ctx, layout.FeedQuarantine(f.name), "") {
		if err != nil {
			return nil, err
		}
		found[entry.Key] = true
	}
	return found, nil
}

// cover copies the entries that were written before p, the state of a page that has been
// read. A feed without a checkpoint has no bridge that could continue.
func (f *Feed) cover(ctx context.Context, p *chain.Page) (err error) {
	q := &f.quarantine
	if len(p.Checkpoint) == 0 || q.covered != nil && !later(p, q.covered) {
		return nil
	}
	if q.now, err = f.listQuarantine(ctx, f.from); err != nil {
		return err
	}
	maps.Copy(q.before, q.now)
	target, err := f.listQuarantine(ctx, f.to)
	if err != nil {
		return err
	}
	for key := range q.now {
		if !target[key] {
			if err := f.copyQuarantined(ctx, key); err != nil {
				return err
			}
		}
	}
	q.covered = p
	if later(q.newest, p) {
		q.covered = q.newest
	}
	return nil
}

// later reports whether a state of a page was written after another.
func later(p, than *chain.Page) bool {
	return p.Number > than.Number || p.Number == than.Number && p.Entities > than.Entities
}

// copyQuarantined copies one entry unless it has been removed. Entries are small and
// never change.
func (f *Feed) copyQuarantined(ctx context.Context, key string) error {
	o, err := f.from.Get(ctx, key, 0, -1)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := io.ReadAll(o.Body)
	if err = errors.Join(err, o.Body.Close()); err != nil {
		return err
	}
	return create(ctx, f.to, key, o.Meta, storage.Bytes(data))
}

// release removes from the target the entries that had left the source before the pages now in the target
// were read.
func (f *Feed) release(ctx context.Context) error {
	q := &f.quarantine
	if q.now == nil {
		return nil
	}
	target, err := f.listQuarantine(ctx, f.to)
	if err != nil {
		return err
	}
	for key := range target {
		if !q.before[key] {
			if err := f.to.Delete(ctx, key); err != nil {
				return err
			}
		}
	}
	q.before = q.now
	return nil
}
