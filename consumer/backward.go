package consumer

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/feedctl/feedctl/feed"
)

// recallKeys is how many keys are passed to Recall at a time.
const recallKeys = 512

// maxPatch is the largest body, in bytes, of a patch that can be held.
const maxPatch = 1 << 20

// applyBack applies the entities in the spool of a page whose keys are unknown, from the last
// entity to the first. It commits batches when they are full.
func (r *run) applyBack(ctx context.Context, s *spool, p *Page) error {
	keys := make([]string, 0, recallKeys)
	for end := s.size; end > 0; {
		records, err := s.back(end, recallKeys)
		if err != nil {
			return err
		}
		keys = keys[:0]
		for i := range records {
			keys = append(keys, records[i].Key())
		}
		known, err := r.recall(ctx, keys)
		if err != nil {
			return err
		}
		for i := range records {
			if err := r.applyRecord(ctx, s, p, &records[i], known[keys[i]]); err != nil {
				return err
			}
		}
		end = records[len(records)-1].start
	}
	return nil
}

// recall returns what the sink knows about each of the keys, which may contain duplicates.
func (r *run) recall(ctx context.Context, keys []string) (map[string]*Recall, error) {
	if r.batch.Batch == nil {
		if err := r.begin(ctx); err != nil {
			return nil, err
		}
	}
	known := make(map[string]*Recall, len(keys))
	var ask []string
	for _, key := range keys {
		if known[key] == nil {
			known[key] = new(Recall)
			ask = append(ask, key)
		}
	}
	answers, err := r.batch.backfill.Recall(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("recall keys: %w", err)
	}
	for i, key := range ask {
		*known[key] = answers[i]
	}
	return known, nil
}

// applyRecord applies one entity of a spool if its key is unknown, and moves the tail to before
// this entity.
func (r *run) applyRecord(ctx context.Context, s *spool, p *Page, rec *record, m *Recall) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.batch.Batch == nil {
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	b := &r.batch
	if !m.Known {
		if err := s.load(rec, r.Client.config.MaxWhole); err != nil {
			return err
		}
		if err := r.applyUnknown(ctx, &rec.Entity, m); err != nil {
			b.partial = true
			return fmt.Errorf("apply %s: %w", describe(&Entity{Entity: rec.Entity, Page: p.URL, Part: rec.part, Offset: rec.offset}), err)
		}
		b.bytes += rec.size
	}
	b.count++
	b.changed = true
	if p.Links.Self != "" { // the page is not of a snapshot
		r.tail.LastModified, r.tail.ContentID, r.tail.Page, r.tail.Prev = rec.LastModified, rec.ContentID, p.URL, p.chain.Prev
	}
	return r.commitFull(ctx)
}

// applyUnknown applies an entity that is older than all entities that were applied before. m is
// what the sink knows about the key; applyUnknown updates m.
func (r *run) applyUnknown(ctx context.Context, e *feed.Entity, m *Recall) error {
	if e.Operation == feed.Patch && e.ContentLocation != "" {
		r.tail.Holds++
		m.Held++
		return r.hold(ctx, e, -r.tail.Holds)
	}
	m.Known = true
	b := r.batch.backfill
	if err := b.Apply(ctx, e); err != nil {
		return err
	}
	key := e.Key()
	if m.Held > 0 {
		if err := b.Release(ctx, key, func(patch []byte) error { return r.applyHeld(ctx, patch) }); err != nil {
			return err
		}
		r.tail.Held -= m.Held
		m.Held = 0
	}
	if e.Operation == feed.Delete {
		return b.Bury(ctx, key)
	}
	return nil
}

// applyNewer applies an entity of the head while the tail is not complete.
func (r *run) applyNewer(ctx context.Context, e *feed.Entity) error {
	b, key := r.batch.backfill, e.Key()
	var m Recall
	if e.Operation == feed.Patch || r.tail.Held > 0 {
		known, err := b.Recall(ctx, []string{key})
		if err != nil {
			return err
		}
		m = known[0]
	}
	if e.Operation == feed.Patch && !m.Known && e.ContentLocation != "" {
		r.tail.Holds++
		return r.hold(ctx, e, r.tail.Holds)
	}
	if err := b.Apply(ctx, e); err != nil {
		return err
	}
	if m.Held > 0 {
		if err := b.Release(ctx, key, nil); err != nil {
			return err
		}
		r.tail.Held -= m.Held
	}
	if e.Operation == feed.Delete {
		return b.Bury(ctx, key)
	}
	return nil
}

// hold keeps a patch until the PUT that it applies to has been read.
func (r *run) hold(ctx context.Context, e *feed.Entity, n int64) error {
	r.tail.Held++
	body := e.Body
	if e.Stream != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(e.Stream, maxPatch+1)); err != nil {
			return err
		}
	}
	if len(body) > maxPatch {
		return fmt.Errorf("hold patch of key %q: %w of %d bytes", e.Key(), ErrTooLarge, maxPatch)
	}
	encoded := appendEntity(nil, e)
	return r.batch.backfill.Hold(ctx, e.Key(), n, slices.Concat(encoded, body))
}

// applyHeld applies a patch that was kept by hold.
func (r *run) applyHeld(ctx context.Context, patch []byte) error {
	e, body, err := decodeEntity(patch)
	if err != nil {
		return err
	}
	e.Body = body
	return r.batch.backfill.Apply(ctx, &e)
}
