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
	changes, revs, err := t.plan(ctx, s.changes, last)
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
	start := 0
	for _, end := range parts {
		writes, err := t.writes(changes[start:end], revs)
		if err != nil {
			return err
		}
		if err := t.send(ctx, writes, &o); err != nil {
			return err
		}
		start = end
	}
	return t.finish(ctx, p, o)
}

// plan returns the changes that have an effect, and the revisions that they replace. Only the last
// change of each document has an effect, and deleting a document that does not exist has none.
func (t *target) plan(ctx context.Context, all []*change, last map[string]*change) ([]*change, map[string]string, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(c *change) bool { return last[c.id] != c })
	var changes []*change
	revs := make(map[string]string, len(last))
	for some := range slices.Chunk(all, maxDiff) {
		ids := make([]string, len(some))
		for i, c := range some {
			ids[i] = c.id
		}
		found, err := t.rows(ctx, ids, false)
		if err != nil {
			return nil, nil, fmt.Errorf("look up revisions: %w", err)
		}
		for i, c := range some {
			if rev := found[i].rev(); rev != "" || !c.deleted {
				changes = append(changes, c)
				revs[c.id] = rev
			}
		}
	}
	return changes, revs, nil
}

// writeLog writes the changes into the log. It returns where its parts end.
func (t *target) writeLog(ctx context.Context, changes []*change, revs map[string]string, step string) (ends []int, err error) {
	p := part{Step: step}
	size := 0
	for i, c := range changes {
		w, err := t.writes(changes[i:i+1], revs)
		if err != nil {
			return nil, err
		}
		if size > 0 && (size+len(w[0].Doc) > maxPart || len(p.Writes) == maxBulk) {
			if err := t.writePart(ctx, len(ends), p); err != nil {
				return nil, err
			}
			ends = append(ends, i)
			p.Writes, size = nil, 0
		}
		p.Writes = append(p.Writes, w[0])
		size += len(w[0].Doc) + len(c.id)
	}
	if err := t.writePart(ctx, len(ends), p); err != nil {
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
		read, err := t.readPart(ctx, n, p.Step)
		if err != nil {
			return err
		}
		if err := t.send(ctx, read.Writes, &o); err != nil {
			return err
		}
	}
	return t.finish(ctx, *p, o)
}
