package against

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// CouchDB is a database of CouchDB as a [Source]. Design documents are not compared. Bodies need not be
// compared, since a revision identifies the contents of a document.
type CouchDB struct{ DB *couchdb.DB }

// State returns the sequence at the end of the changes feed.
func (c CouchDB) State(ctx context.Context) (string, error) {
	info, err := c.DB.Info(ctx)
	if err != nil {
		return "", err
	}
	return couchdb.SeqText(info.UpdateSeq), nil
}

// IsTarget returns false. To compare a copy with its feed, use package reconcile.
func (CouchDB) IsTarget(context.Context) (bool, error) { return false, nil }

// List lists the winning revisions of all documents, as given by the changes feed. It may or may not
// include documents that change meanwhile.
func (c CouchDB) List(ctx context.Context, _ string, _ bool, add func(Item) error) error {
	f, err := changes.New(c.DB, changes.Options{Log: c.DB.Logger()})
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		var failed error // the error of add
		err := f.Follow(ctx, func(b *changes.Batch) error {
			defer b.Close()
			for i := range b.Rows {
				if failed = addRow(&b.Rows[i], add); failed != nil {
					return failed
				}
			}
			return nil
		})
		if err == nil || failed != nil || !couchdb.Retryable(err) || attempt == listAttempts {
			return err
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

var errRow = errors.New("the server sent a malformed row of _changes")

func addRow(r *changes.Row, add func(Item) error) error {
	switch {
	case r.Err != nil:
		return fmt.Errorf("%w: %w: %.200q", errRow, r.Err, r.Raw)
	case len(r.Revs) == 0:
		return fmt.Errorf("%w: document %q has no revision", errRow, r.ID)
	case isDesign(r.ID):
		return nil
	}
	return add(Item{Key: r.ID, Version: `"` + r.Revs[0] + `"`, Deleted: r.Deleted})
}

func isDesign(id string) bool { return strings.HasPrefix(id, "_design/") }

// Covers reports whether a key belongs to a document, not to an attachment or a design document.
func (CouchDB) Covers(key string) bool { return !isDesign(key) }
