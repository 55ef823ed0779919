package chain

import (
	"context"
	"iter"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// Feeds yields the names of the feeds that have objects in the store and come after the given name,
// which may be empty. Their order and cost are those of [storage.Names].
func Feeds(ctx context.Context, store storage.Store, after string) iter.Seq2[string, error] {
	return storage.Names(ctx, store, layout.FeedsPrefix, after)
}
