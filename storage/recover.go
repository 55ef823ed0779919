package storage

import (
	"context"
	"io"
	"iter"
	"time"
)

// A Recoverer is a Store that can recover objects from parts that survived a loss.
type Recoverer interface {
	// LeftoverKeys yields, in byte order, the keys below prefix under which at least a part of an
	// object is stored. The prefix ends in "/".
	LeftoverKeys(ctx context.Context, prefix string) iter.Seq2[string, error]

	// Leftovers returns the bodies that are stored under key, except empty ones and those
	// that a writer has open.
	Leftovers(ctx context.Context, key string) ([]Leftover, error)

	// OpenLeftover opens a leftover body.
	OpenLeftover(ctx context.Context, r Leftover) (io.ReadCloser, error)

	// Restore replaces the object at the body's key, whatever state it is in, with one that
	// consists of the first size bytes of the body and the given metadata.
	Restore(ctx context.Context, r Leftover, size int64, meta Meta) (Version, error)
}

// A Leftover is a stored body, whether or not it is part of an object.
type Leftover struct {
	Key      string
	Body     string // identifies the body among those under Key
	Size     int64  // in bytes; may exceed the object's size if a writer was killed
	Modified time.Time
	// Current reports whether the metadata of the object is readable and names this body.
	Current bool
	// States are the readable states of the object with this body: the current state, if it has
	// this body, and then former ones.
	States []Info
}
