package couchdb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/sink"
)

// Expect makes the batch replace the document of a key only if the document still has the revision of the given
// row, or still does not exist if the row is nil. The batch leaves the position as it is. Commit returns a
// [*sink.ChangedError] with the keys of documents that have another revision now, which are left alone. The other
// documents are written nevertheless, each on its own, since CouchDB has no transactions. Applying them again
// does no harm.
func (t *target) Expect(_ context.Context, key string, was *sink.Row) error {
	if t.expected == nil {
		t.expected = make(map[string]*sink.Row)
	}
	t.expected[key] = was
	return nil
}

// errRevision means that an entity in a batch with expectations is a CouchDB document together with its
// revisions.
var errRevision = errors.New("its entity is a CouchDB revision, which cannot replace other revisions: " +
	"consume the feed into a new database")

// writeExpected writes the batch. It needs no log: a document that it has not written still has the
// revision that was compared.
func (t *target) writeExpected(ctx context.Context) error {
	if err := t.load(ctx); err != nil {
		return err
	}
	var o outcome
	var conflicts []write
	keys := make(map[string]string) // by id
	for _, s := range t.steps {
		if len(s.revisions) > 0 {
			return fmt.Errorf("write document %q: %w", s.revisions[0].id, errRevision)
		}
		for some := range slices.Chunk(s.changes, maxExpected) {
			revs := make(map[string]string, len(some))
			for _, c := range some {
				keys[c.id] = c.key
				if was := t.expected[c.key]; was != nil {
					revs[c.id] = was.Version
				}
			}
			writes, err := t.writes(some, revs)
			if err != nil {
				return err
			}
			if s.alone {
				err = t.putExpected(ctx, some[0], writes[0], &conflicts, &o)
			} else {
				err = inParts(t, writes, &o, func(some []write) error { return t.bulk(ctx, some, &conflicts, &o) })
			}
			if err != nil {
				return err
			}
		}
	}
	changed, err := t.settle(ctx, conflicts, &o) // leaves out those that an earlier attempt has done
	if err != nil {
		return err
	}
	if _, err := t.db.EnsureFullCommit(ctx); err != nil {
		return fmt.Errorf("ensure full commit: %w", err)
	}
	if len(changed) == 0 {
		return nil
	}
	var failed sink.ChangedError
	for _, w := range changed {
		failed.Keys = append(failed.Keys, keys[w.ID])
	}
	return &failed
}

// maxExpected is how many documents, of up to maxLogged bytes each, are written in one request.
const maxExpected = 50

// putExpected writes a change that is too large for a bulk request.
func (t *target) putExpected(ctx context.Context, c *change, w write, conflicts *[]write, o *outcome) error {
	refusal, err := t.putOne(ctx, c, withRev(w.Doc, w.Rev))
	switch {
	case err != nil:
		return fmt.Errorf("write document %q: %w", c.id, err)
	case errors.Is(refusal, couchdb.ErrConflict):
		*conflicts = append(*conflicts, w)
	case refusal != nil:
		t.refuse(o, w.ID, w.Rev, refusal)
	}
	return nil
}
