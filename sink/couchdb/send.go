package couchdb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/feedctl/feedctl/couchdb"
)

// maxAttempts is how many times a document is written if others keep changing it.
const maxAttempts = 5

// send sends writes. A write that conflicts may have been done before; otherwise the
// document was changed by another client, and is overwritten.
func (t *target) send(ctx context.Context, writes []write, o *outcome) error {
	for attempt := 1; len(writes) > 0; attempt++ {
		var conflicts []write
		err := inParts(t, writes, o, func(some []write) error { return t.bulk(ctx, some, &conflicts, o) })
		if err != nil || len(conflicts) == 0 {
			return err
		}
		if writes, err = t.settle(ctx, conflicts, o); err != nil {
			return err
		}
		if attempt == maxAttempts {
			for _, w := range writes {
				t.refuse(o, w.ID, w.Rev, errBusy)
			}
			return nil
		}
	}
	return nil
}

var errBusy = errors.New("conflict: other clients keep changing the document")

// bulk sends writes in one request, and appends to conflicts those that conflict.
func (t *target) bulk(ctx context.Context, writes []write, conflicts *[]write, o *outcome) error {
	docs := make([][]byte, len(writes))
	for i, w := range writes {
		docs[i] = withRev(w.Doc, w.Rev)
	}
	results, err := t.bulkDocs(ctx, docs, true)
	if err != nil {
		return fmt.Errorf("write %d documents: %w", len(writes), err)
	}
	byID := make(map[string]error, len(results)) // PouchDB Server does not keep the order
	for _, r := range results {
		byID[r.ID] = r.Err
	}
	for _, w := range writes {
		failure, ok := byID[w.ID]
		switch {
		case !ok:
			return fmt.Errorf("write document %q: %w: no result", w.ID, couchdb.ErrMalformed)
		case failure == nil:
			o.written++
		case errors.Is(failure, couchdb.ErrConflict):
			*conflicts = append(*conflicts, w)
		case !couchdb.Permanent(failure): // about the server, not the document
			return fmt.Errorf("write document %q: %w", w.ID, failure)
		default:
			t.refuse(o, w.ID, w.Rev, failure)
		}
	}
	return nil
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
	for some := range slices.Chunk(conflicts, settleRows) {
		ids := make([]string, len(some))
		for i, w := range some {
			ids[i] = w.ID
		}
		found, err := t.rows(ctx, ids, true)
		if err != nil {
			return nil, fmt.Errorf("read conflicting documents: %w", err)
		}
		for i, w := range some {
			if found[i].has(&w) {
				o.written++
				continue
			}
			w.Rev = found[i].rev()
			again = append(again, w)
		}
	}
	// The revisions were read before this check: if another sink takes over afterwards, its
	// writes make these writes conflict again.
	return again, t.load(ctx)
}
