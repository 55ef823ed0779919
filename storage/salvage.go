package storage

import (
	"context"
	"io"
	"iter"
	"time"
)

// A Salvager is a Store whose objects have parts that can be lost one by one: what is
// left of an object may be of use.
type Salvager interface {
	// Remains yields the keys below prefix, which ends in "/", of which anything is
	// left, in the order of their bytes: an object, or parts of one.
	Remains(ctx context.Context, prefix string) iter.Seq2[string, error]

	// Remnants returns the bodies that are there under key, but for those that a writer
	// is at work on, and not those that are empty.
	Remnants(ctx context.Context, key string) ([]Remnant, error)

	// OpenRemnant opens a body.
	OpenRemnant(ctx context.Context, r Remnant) (io.ReadCloser, error)

	// Restore makes the first size bytes of a body an object, at the key that it is
	// under and with this metadata, whatever the state of the object is.
	Restore(ctx context.Context, r Remnant, size int64, meta Meta) (Version, error)
}

// A Remnant is a body, whether or not an object has it.
type Remnant struct {
	Key      string
	Body     string // tells it from others under the key
	Size     int64  // in bytes; more than an object's that has it, if a writer died
	Modified time.Time
	// Current says that the metadata of the object can be read and names this body.
	Current bool
	// States are what can be read of states that the object has, or had, with this body,
	// the present one first.
	States []Info
}
