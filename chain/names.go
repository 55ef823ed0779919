package chain

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// Feeds yields the names of the feeds that have objects in the store, in the
// order of their bytes, with one listing request for each.
func Feeds(ctx context.Context, store storage.Store) iter.Seq2[string, error] {
	return names(ctx, store, layout.FeedsPrefix)
}

// Snapshots yields the names of the snapshots that have objects in the store, as
// [Feeds] does.
func Snapshots(ctx context.Context, store storage.Store) iter.Seq2[string, error] {
	return names(ctx, store, layout.SnapshotsPrefix)
}

// names yields the first segments of the keys below prefix.
func names(ctx context.Context, store storage.Store, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		after := ""
		for {
			name, err := firstName(ctx, store, prefix, after)
			if err != nil {
				yield("", err)
				return
			}
			if name == "" || !yield(name, nil) {
				return
			}
			after = prefix + name + "0" // "0" follows "/": beyond all keys of this name
		}
	}
}

func firstName(ctx context.Context, store storage.Store, prefix, after string) (string, error) {
	for entry, err := range store.List(ctx, prefix, after) {
		if err != nil {
			return "", fmt.Errorf("list %s: %w", prefix, err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, prefix), "/")
		return name, nil
	}
	return "", nil
}
