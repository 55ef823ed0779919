package restore

import (
	"context"
	"fmt"
	"slices"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// A Database reads the documents of a database in CouchDB.
type Database struct{ *couchdb.DB }

// leavesOfRequest is how many leaves are requested together.
const leavesOfRequest = 50

// Leaves calls use with each leaf revision, including those of deleted documents. No one may write
// to the database meanwhile.
func (d Database) Leaves(ctx context.Context, use func(*Leaf) error) error {
	follower, err := changes.New(d.DB, changes.Options{AllDocs: true, PageRows: 1000})
	if err != nil {
		return err
	}
	return follower.Follow(ctx, func(batch *changes.Batch) error {
		defer batch.Close()
		var all []couchdb.IDRev
		for _, row := range batch.Rows {
			if row.Err != nil {
				return row.Err
			}
			for _, rev := range row.Revs {
				all = append(all, couchdb.IDRev{ID: row.ID, Rev: rev})
			}
		}
		for some := range slices.Chunk(all, leavesOfRequest) {
			if err := d.read(ctx, some, use); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d Database) read(ctx context.Context, some []couchdb.IDRev, use func(*Leaf) error) error {
	n := 0
	for doc, err := range d.BulkGet(ctx, some, couchdb.GetOptions{Revs: true, Attachments: couchdb.Multipart}) {
		if err == nil {
			err = doc.Err
		}
		if err != nil {
			return fmt.Errorf("read documents: %w", err)
		}
		n++
		leaf, err := readDoc(doc)
		if err != nil {
			return fmt.Errorf("document %q, revision %q: %w", doc.ID, doc.Rev, err)
		}
		if err := use(leaf); err != nil {
			return err
		}
	}
	if n < len(some) {
		return fmt.Errorf("read documents: %w: %d of %d revisions were sent", couchdb.ErrMalformed, n, len(some))
	}
	return nil
}

func readDoc(doc *couchdb.Doc) (*Leaf, error) {
	body := doc.Stream
	if doc.Stream == nil {
		defer doc.Body.Close()
		body = doc.Body.Reader()
	}
	return ReadLeaf(doc.ContentType, body)
}
