package storage

import (
	"context"
	"io"
	"iter"
	"time"
)

// A Salvager is a Store that can recover objects from parts that survived a loss.
type Salvager interface {
	// Remains yields the keys below prefix, which ends in "/", of objects of which at
	// least some part is left, in the order of the keys' bytes.
	Remains(ctx context.Context, prefix string) iter.Seq2[string, error]

	// Remnants returns the bodies that are stored under key, except empty ones and those
	// that a writer has open.
	Remnants(ctx context.Context, key string) ([]Remnant, error)

	// OpenRemnant opens a body.
	OpenRemnant(ctx context.Context, r Remnant) (io.ReadCloser, error)

	// Restore makes the first size bytes of a body the object at its key, with the given
	// metadata, regardless of the state of that object.
	Restore(ctx context.Context, r Remnant, size int64, meta Meta) (Version, error)
}

// A Remnant is a stored body, whether or not it is part of an object.
type Remnant struct {
	Key      string
	Body     string // identifies the body among those under Key
	Size     int64  // in bytes; may exceed the object's size if a writer was killed
	Modified time.Time
	// Current reports whether the metadata of the object is readable and names this body.
	Current bool
	// States are the readable states, current and former, of the object with this body,
	// the current one first.
	States []Info
}
