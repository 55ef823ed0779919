package couchdb

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/sink"
)

// Limits of bulk requests.
const (
	maxBulk      = 500     // documents
	maxBulkBytes = 1 << 20 // unless one document is larger
	maxDiff      = 1000    // revisions in _revs_diff
)

// replicateAll stores the revisions that the database does not have, unchanged (protocol,
// "Calculate Revision Difference" and the following sections). It is idempotent.
func (t *target) replicateAll(ctx context.Context, all []revision) (o outcome, err error) {
	for some := range slices.Chunk(all, maxDiff) {
		missing, err := t.missing(ctx, some, &o)
		if err != nil {
			return o, err
		}
		if err := t.upload(ctx, missing, &o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// missing returns the revisions that the database does not have, each once.
func (t *target) missing(ctx context.Context, all []revision, o *outcome) (missing []revision, err error) {
	err = inParts(t, all, o, func(some []revision) error {
		wanted := make(map[[2]string]bool)
		asked := make(map[string][]string)
		for _, r := range some {
			asked[r.id] = append(asked[r.id], r.rev)
		}
		for id, revs := range asked {
			slices.Sort(revs)
			asked[id] = slices.Compact(revs)
		}
		diff, err := t.db.RevsDiff(ctx, asked)
		for id, m := range diff {
			for _, rev := range m.Missing {
				wanted[[2]string{id, rev}] = true
			}
		}
		for _, r := range some {
			name := [2]string{r.id, r.rev}
			if wanted[name] {
				missing = append(missing, r)
			}
			delete(wanted, name)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("compare revisions: %w", err)
	}
	return missing, err
}

// upload stores revisions, with bulk requests for small ones.
func (t *target) upload(ctx context.Context, all []revision, o *outcome) error {
	var bulk []revision
	size := int64(0)
	flush := func() error {
		err := inParts(t, bulk, o, func(some []revision) error { return t.uploadBulk(ctx, some, o) })
		bulk, size = nil, 0
		return err
	}
	for _, r := range all {
		if !r.small() {
			if err := t.uploadOne(ctx, r, o); err != nil {
				return err
			}
			continue
		}
		if len(bulk) == maxBulk || size+r.body.Size > maxBulkBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		bulk = append(bulk, r)
		size += r.body.Size
	}
	return flush()
}

// small reports whether a revision can be sent within a bulk request.
func (r revision) small() bool {
	return r.body.Size <= sink.MaxInline && boundaryOf(r.contentType) == ""
}

func (t *target) uploadBulk(ctx context.Context, all []revision, o *outcome) error {
	if len(all) == 0 {
		return nil
	}
	docs := make([][]byte, len(all))
	for i, r := range all {
		var err error
		if docs[i], err = t.spool.Append(nil, r.body); err != nil {
			return err
		}
	}
	results, err := t.bulkDocs(ctx, docs, false)
	if err != nil {
		return fmt.Errorf("upload %d documents: %w", len(all), err)
	}
	o.written += int64(len(all))
	for _, r := range results {
		if r.Err == nil {
			continue
		}
		if !couchdb.Permanent(r.Err) { // about the server, not the document
			return fmt.Errorf("upload document %q: %w", r.ID, r.Err)
		}
		t.refuse(o, r.ID, r.Rev, r.Err)
		o.written--
	}
	return nil
}

// uploadOne stores a large revision, streamed.
func (t *target) uploadOne(ctx context.Context, r revision, o *outcome) error {
	put := couchdb.Put{
		ID:          r.id,
		ContentType: r.contentType,
		Open:        func() (io.Reader, error) { return t.spool.Reader(r.body), nil },
		Length:      r.body.Size,
	}
	if err := t.decode(ctx, &put); err != nil {
		return err
	}
	refusal, err := t.putDoc(ctx, put)
	switch {
	case err != nil:
		return fmt.Errorf("upload document %q, revision %s: %w", r.id, r.rev, err)
	case refusal != nil:
		t.refuse(o, r.id, r.rev, refusal)
	default:
		o.written++
	}
	return nil
}
