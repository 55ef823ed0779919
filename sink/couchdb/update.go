package couchdb

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
)

// A write is a change as it is logged.
type write struct {
	ID        string          `json:"id"`
	ContentID string          `json:"content_id,omitempty"`
	Deleted   bool            `json:"deleted,omitempty"`
	Rev       string          `json:"rev,omitempty"` // the revision that it replaces; empty if the document does not exist or is deleted
	Doc       json.RawMessage `json:"doc,omitempty"` // without _rev
}

func (w write) name() (id, rev string) { return w.ID, w.Rev }

// maxPart is the maximum size, in bytes, of the documents in a part of the log, or in a request, unless a
// single one is larger.
const maxPart = 1 << 20

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
	p.Parts = parts
	// If another sink takes over after this, its writes replace the revisions that were
	// read before, and the writes below conflict.
	if err := t.load(ctx); err != nil {
		return err
	}
	if err := t.save(ctx, func(c *checkpoint) { c.Pending = &p }); err != nil {
		return err
	}
	var o outcome
	existed := 0
	build := func(some []*change) ([]write, error) { return t.writes(some, revs) }
	for writes, err := range ahead(each(t.chunks(changes, maxBulk), build)) {
		if err != nil {
			return err
		}
		n, err := t.sendFirst(ctx, writes, creates, &o)
		if err != nil {
			return err
		}
		existed += n
	}
	t.replaces = existed > len(changes)/mostlyNew
	return t.finish(ctx, p, o)
}

// plan returns the changes that have an effect, and the revisions that they replace. Deleting a document
// that does not exist has no effect. If the step creates documents, their revisions are not looked up.
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

// writeLog writes the changes into the log. It returns how many parts the log has.
func (t *target) writeLog(ctx context.Context, changes []*change, revs map[string]string, step string) (parts int, err error) {
	pack := func(some []*change) (part, error) { return t.pack(step, some, revs) }
	for p, err := range ahead(each(t.chunks(changes, len(changes)), pack)) {
		if err != nil {
			return parts, fmt.Errorf("write log: %w", err)
		}
		if err := t.writePart(ctx, parts, p); err != nil {
			return parts, err
		}
		parts++
	}
	return parts, nil
}

// chunks yields changes in chunks of at most the given number of changes and maxPart bytes.
func (t *target) chunks(changes []*change, most int) iter.Seq[[]*change] {
	return func(yield func([]*change) bool) {
		size, start := int64(0), 0
		for i, c := range changes {
			n := t.size(c)
			if i > start && (size+n > maxPart || i-start == most) {
				if !yield(changes[start:i]) {
					return
				}
				size, start = 0, i
			}
			size += n
		}
		if start < len(changes) {
			yield(changes[start:])
		}
	}
}

// each calls do for each chunk, and yields the results.
func each[T any](chunks iter.Seq[[]*change], do func([]*change) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for some := range chunks {
			if !yield(do(some)) {
				return
			}
		}
	}
}

// writes returns the writes for changes.
func (t *target) writes(changes []*change, revs map[string]string) (all []write, err error) {
	all = make([]write, len(changes))
	for i, c := range changes {
		if all[i], err = t.writeOf(c, revs); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (t *target) writeOf(c *change, revs map[string]string) (write, error) {
	doc, err := t.document(c)
	return write{ID: c.id, ContentID: c.contentID, Deleted: c.deleted, Rev: revs[c.id], Doc: doc}, err
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
		for some := range slices.Chunk(writes, maxBulk) {
			if err := t.send(ctx, some, &o); err != nil {
				return err
			}
		}
	}
	return t.finish(ctx, *p, o)
}
