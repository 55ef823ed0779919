package against

import (
	"context"
	"io"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/outbox"
)

// Table is a table that is attached to a feed, as a [Source]. Its rows have no versions, so bodies must
// be compared.
type Table struct {
	Outbox *outbox.DB
	Feed   string // the name of the feed in the outbox
}

// State returns a different state after each change of the table, and after changes have been moved to
// the feed.
func (t Table) State(ctx context.Context) (string, error) { return t.Outbox.Mark(ctx, t.Feed) }

// IsTarget returns false. To compare a copy with its feed, use package reconcile.
func (Table) IsTarget(context.Context) (bool, error) { return false, nil }

// List lists the rows as of one moment.
func (t Table) List(ctx context.Context, _ string, _ bool, add func(Item) error) error {
	return t.Outbox.Rows(ctx, t.Feed, func(e *feed.Entity) error {
		i := Item{Key: e.Key(), Body: e.Body}
		if e.Stream != nil {
			var err error
			if i.Body, err = io.ReadAll(io.LimitReader(e.Stream, maxBody+1)); err != nil {
				return err
			}
		}
		return add(i)
	})
}

// Covers returns true: all keys of the feed belong to rows.
func (Table) Covers(string) bool { return true }
