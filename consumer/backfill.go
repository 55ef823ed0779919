package consumer

import (
	"context"
	"errors"
)

// ErrNoBackfill means that a sink is not a [Backfiller]: when applying an entity, it cannot check
// whether it already has something newer for the key.
var ErrNoBackfill = errors.New("the sink cannot be filled newest first: it must be able to apply an entity only if its key is unknown")

// A Backfiller is a [Sink] that can be filled from the newest entity back, as [Job.NewestFirst]
// requires. It keeps notes about keys together with its data. When a position without a Tail is
// committed, the notes are removed.
type Backfiller interface {
	Sink
	// BeginBackfill starts a batch like Begin.
	BeginBackfill(ctx context.Context) (Backfill, error)
}

// A Backfill is a [Batch] of a [Backfiller]. An older entity is applied only if its key is
// unknown. Rolling the batch back also undoes its notes.
type Backfill interface {
	Batch
	// Recall returns what is known about each of the keys, taking into account all that was applied
	// and noted before, in this batch and in earlier ones. There may be up to 512 keys.
	Recall(ctx context.Context, keys []string) ([]Recall, error)
	// Bury keeps a note that a key was deleted.
	Bury(ctx context.Context, key string) error
	// Hold keeps an encoded patch of a key, up to about 1 MiB. Patches of a key are ordered by n,
	// which is unique in the sink.
	Hold(ctx context.Context, key string, n int64, patch []byte) error
	// Release removes the patches held for a key. Unless fn is nil, it first calls fn with each
	// patch, in ascending order of n. fn may apply an entity with the key; it must not keep the
	// patch. Release returns the error of fn.
	Release(ctx context.Context, key string, fn func(patch []byte) error) error
}

// A Recall is what a [Backfill] knows about a key.
type Recall struct {
	// Known means that the sink has data for the key, or that the key was buried: older entities
	// must not be applied.
	Known bool
	// Held is the number of patches held for the key.
	Held int64
}
