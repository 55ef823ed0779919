package couchdb

import (
	"context"
	"slices"
)

// mostlyNew is how many documents a step has to create for each one that it replaces before it is
// faster not to look up revisions.
const mostlyNew = 8

// creates reports whether to create the documents of a step as if none existed, because most documents of the
// previous step did not exist. Creating a document that exists after all causes a conflict, which costs less
// than looking up the revisions of all documents.
//
// The log names no revision for such a document. Redoing the step therefore cannot distinguish a
// document that the step has written from one that had the same Content-ID before. No document had
// that Content-ID before if the database was empty at the beginning and the step does not repeat
// earlier entities.
func (t *target) creates(all []*change) bool {
	at := t.state.Position
	return t.state.Empty && !t.replaces && !slices.ContainsFunc(all, func(c *change) bool {
		return at.Snapshot == nil && c.lastModified.Before(at.LastModified)
	})
}

// sendFirst sends writes that have not been sent before. It returns how many documents they replace.
func (t *target) sendFirst(ctx context.Context, writes []write, creates bool, o *outcome) (existed int, err error) {
	for _, w := range writes {
		if w.Rev != "" {
			existed++
		}
	}
	if !creates || len(writes) == 1 { // a single write may be sent repeatedly
		return existed, t.send(ctx, writes, o)
	}
	var conflicts []write
	switch err := t.bulk(ctx, writes, &conflicts, o); {
	case isMalformed(err) || isServerFault(err): // some may have been written
		return existed, t.send(ctx, writes, o)
	case err != nil || len(conflicts) == 0:
		return existed, err
	}
	ids := make([]string, len(conflicts))
	for i, w := range conflicts {
		ids[i] = w.ID
	}
	revs, err := t.revs(ctx, ids)
	if err != nil {
		return existed, err
	}
	if err := t.load(ctx); err != nil { // after the request for revisions, as in settle
		return existed, err
	}
	for i := range conflicts {
		if conflicts[i].Rev == "" {
			existed++
		}
		conflicts[i].Rev = revs[conflicts[i].ID]
	}
	return existed, t.send(ctx, conflicts, o)
}
