package couchdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/couchdb"
)

// maxAttempts is how often a document is written if others keep changing it.
const maxAttempts = 5

// send sends writes. A write that conflicts may have been done before; otherwise the
// document was changed by another client, and is overwritten.
func (t *target) send(ctx context.Context, writes []write, o *outcome) error {
	for attempt := 1; ; attempt++ {
		conflicts, err := t.bulk(ctx, writes, o)
		if err != nil || len(conflicts) == 0 {
			return err
		}
		if writes, err = t.settle(ctx, conflicts, o); err != nil || len(writes) == 0 {
			return err
		}
		if attempt == maxAttempts {
			for _, w := range writes {
				t.refuse(o, w.ID, w.Rev, errBusy)
			}
			return nil
		}
	}
}

var errBusy = errors.New("conflict: others keep changing the document")

// bulk sends writes in one request. It returns those that conflict.
func (t *target) bulk(ctx context.Context, writes []write, o *outcome) (conflicts []write, err error) {
	docs := make([][]byte, len(writes))
	for i, w := range writes {
		docs[i] = withRev(w.Doc, w.Rev)
	}
	results, err := t.bulkDocs(ctx, docs, true)
	switch {
	case mustSplit(err) && len(writes) > 1:
		half := len(writes) / 2
		first, err := t.bulk(ctx, writes[:half], o)
		if err != nil {
			return nil, err
		}
		second, err := t.bulk(ctx, writes[half:], o)
		return append(first, second...), err
	case isMalformed(err):
		t.refuse(o, writes[0].ID, writes[0].Rev, err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("write %d documents: %w", len(writes), err)
	}
	byID := make(map[string]error, len(results)) // PouchDB Server does not keep the order
	for _, r := range results {
		byID[r.ID] = r.Err
	}
	for _, w := range writes {
		failure, ok := byID[w.ID]
		switch {
		case !ok:
			return nil, fmt.Errorf("write document %q: %w: no result", w.ID, couchdb.ErrMalformed)
		case failure == nil:
			o.written++
		case errors.Is(failure, couchdb.ErrConflict):
			conflicts = append(conflicts, w)
		case !couchdb.Permanent(failure): // about the server, not the document
			return nil, fmt.Errorf("write document %q: %w", w.ID, failure)
		default:
			t.refuse(o, w.ID, w.Rev, failure)
		}
	}
	return conflicts, nil
}

// bulkDocs writes documents in one request. A single document is sent with retryAlone.
func (t *target) bulkDocs(ctx context.Context, docs [][]byte, newEdits bool) (results []couchdb.BulkResult, err error) {
	send := func() (err error) {
		results, err = t.db.BulkDocs(ctx, docs, newEdits)
		return err
	}
	if len(docs) > 1 {
		err = send()
	} else {
		err = t.retryAlone(ctx, send)
	}
	return results, err
}

// settleRows is how many documents are read at once to settle conflicts. Together they
// must not exceed the limit of [couchdb.DB.JSON]; CouchDB's default limit is 8 MB for each.
const settleRows = 5

// settle reads the documents of writes that conflict. It returns the writes that have
// not been done, with the current revisions.
func (t *target) settle(ctx context.Context, conflicts []write, o *outcome) (again []write, err error) {
	for len(conflicts) > 0 {
		some := conflicts[:min(len(conflicts), settleRows)]
		conflicts = conflicts[len(some):]
		ids := make([]string, len(some))
		for i, w := range some {
			ids[i] = w.ID
		}
		found, err := t.rows(ctx, ids, true)
		if err != nil {
			return nil, fmt.Errorf("read conflicting documents: %w", err)
		}
		for i, w := range some {
			if found[i].has(w.ContentID, w.Deleted) {
				o.written++
				continue
			}
			w.Rev = found[i].rev()
			again = append(again, w)
		}
	}
	// The revisions were read before this check: if another sink takes over after it,
	// its writes make these conflict again.
	return again, t.load(ctx)
}
