package couchdb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// A write is a change as it is logged.
type write struct {
	ID        string          `json:"id"`
	ContentID string          `json:"content_id,omitempty"`
	Deleted   bool            `json:"deleted,omitempty"`
	Rev       string          `json:"rev,omitempty"` // that it replaces; empty if there is none, or it is deleted
	Doc       json.RawMessage `json:"doc,omitempty"` // without _rev
}

func (w write) name() (id, rev string) { return w.ID, w.Rev }

// maxPart is the size in bytes of the documents in a part of the log, unless one is larger.
const maxPart = 512 << 10

// update writes the changes of a step. It writes all of them to the log first, so that
// an interrupted update can be completed, each change replacing the revision that was
// read before. Then it advances the position.
func (t *target) update(ctx context.Context, s *step, p pending) error {
	last := make(map[string]*change, len(s.changes))
	for _, c := range s.changes {
		last[c.id] = c
	}
	switch len(last) {
	case 0:
		return t.finish(ctx, p, outcome{})
	case 1:
		return t.updateOne(ctx, s.changes[len(s.changes)-1], p)
	}
	all := slices.DeleteFunc(slices.Clone(s.changes), func(c *change) bool { return last[c.id] != c })
	creates := t.creates(all)
	changes, revs, err := t.plan(ctx, all, creates)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return t.finish(ctx, p, outcome{})
	}
	parts, err := t.writeLog(ctx, changes, revs, s.name)
	if err != nil {
		return err
	}
	p.Parts = len(parts)
	// If another sink takes over after this, its writes replace the revisions that were
	// read before, and those below conflict.
	if err := t.load(ctx); err != nil {
		return err
	}
	if err := t.save(ctx, func(c *checkpoint) { c.Pending = &p }); err != nil {
		return err
	}
	var o outcome
	start, existed := 0, 0
	for _, end := range parts {
		writes, err := t.writes(changes[start:end], revs)
		if err != nil {
			return err
		}
		n, err := t.sendFirst(ctx, writes, creates, &o)
		if err != nil {
			return err
		}
		existed += n
		start = end
	}
	t.replaces = existed > len(changes)/mostlyNew
	return t.finish(ctx, p, o)
}

// plan returns the changes that have an effect, and the revisions that they replace. Deleting a document
// that does not exist has none. If the step creates documents, their revisions are not looked up.
func (t *target) plan(ctx context.Context, all []*change, creates bool) ([]*change, map[string]string, error) {
	var ids []string
	for _, c := range all {
		if !creates || c.deleted || c.patched {
			ids = append(ids, c.id)
		}
	}
	revs, err := t.revs(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	changes := slices.DeleteFunc(all, func(c *change) bool { return c.deleted && revs[c.id] == "" })
	return changes, revs, nil
}

// revs returns the revisions of documents that exist, by id.
func (t *target) revs(ctx context.Context, ids []string) (map[string]string, error) {
	revs := make(map[string]string, len(ids))
	for some := range slices.Chunk(ids, maxDiff) {
		found, err := t.rows(ctx, some, false)
		if err != nil {
			return nil, fmt.Errorf("look up revisions: %w", err)
		}
		for i, id := range some {
			if rev := found[i].rev(); rev != "" {
				revs[id] = rev
			}
		}
	}
	return revs, nil
}

// writeLog writes the changes into the log. It returns where its parts end.
func (t *target) writeLog(ctx context.Context, changes []*change, revs map[string]string, step string) (ends []int, err error) {
	var writes []write
	size := 0
	for i, c := range changes {
		w, err := t.writes(changes[i:i+1], revs)
		if err != nil {
			return nil, err
		}
		if size > 0 && (size+len(w[0].Doc) > maxPart || len(writes) == maxBulk) {
			if err := t.writePart(ctx, len(ends), step, writes); err != nil {
				return nil, err
			}
			ends = append(ends, i)
			writes, size = nil, 0
		}
		writes = append(writes, w[0])
		size += len(w[0].Doc) + len(c.id)
	}
	if err := t.writePart(ctx, len(ends), step, writes); err != nil {
		return nil, err
	}
	return append(ends, len(changes)), nil
}

// writes returns the writes for changes.
func (t *target) writes(changes []*change, revs map[string]string) ([]write, error) {
	all := make([]write, len(changes))
	for i, c := range changes {
		doc, err := t.document(c)
		if err != nil {
			return nil, err
		}
		all[i] = write{ID: c.id, ContentID: c.contentID, Deleted: c.deleted, Rev: revs[c.id], Doc: doc}
	}
	return all, nil
}

// redo completes a pending step, begun by this sink or an earlier one.
func (t *target) redo(ctx context.Context) error {
	p := t.state.Pending
	if p == nil {
		return nil
	}
	if p.Single != nil {
		r, err := t.rows(ctx, []string{p.Single.ID}, true)
		if err != nil {
			return err
		}
		if r[0].has(p.Single) {
			return t.finish(ctx, *p, outcome{written: 1})
		}
		return t.save(ctx, func(c *checkpoint) { c.Pending = nil })
	}
	var o outcome
	for n := range p.Parts {
		writes, err := t.readPart(ctx, n, p.Step)
		if err != nil {
			return err
		}
		if err := t.send(ctx, writes, &o); err != nil {
			return err
		}
	}
	return t.finish(ctx, *p, o)
}
