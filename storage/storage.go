// Package storage defines the store that everything durable lives in: objects
// with a key, metadata, a body and a version, and conditional writes. It knows
// nothing of feeds. Drivers live in sub-packages; package storagetest is the
// contract as a test suite.
package storage

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Errors that every driver returns, wrapped, to be matched with [errors.Is].
var (
	// ErrNotFound: the object does not exist.
	ErrNotFound = errors.New("object not found")
	// ErrExists: Create found an object at the key.
	ErrExists = errors.New("object exists already")
	// ErrConflict: the object is not at the version that the caller named, or
	// is gone. Nothing was written.
	ErrConflict = errors.New("object has another version")
	// ErrFull: the store has no room left. Nothing was written.
	ErrFull = errors.New("store is full")
	// ErrPermission: the store refuses this operation to this user.
	ErrPermission = errors.New("store denies access")
	// ErrNoStore: there is no store where the URL says, or it is gone, or another
	// one is in its place: nothing was made there yet, a disk is not mounted, a
	// bucket was deleted.
	ErrNoStore = errors.New("there is no store")
	// ErrUnavailable: the server of the store does not answer, or takes no
	// connections for now, as while it starts. The outcome of a write is unknown then.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrLayout: the store was written by an unknown version of the layout, or
	// is damaged.
	ErrLayout = errors.New("store has an unknown layout")
	// ErrKey: the key or prefix is not well-formed.
	ErrKey = errors.New("invalid key")
	// ErrSize: a body was shorter or longer than its Size. Nothing was written.
	ErrSize = errors.New("body does not have the size it declares")
	// ErrMeta: the metadata is longer than the limits of [Meta]. Nothing was
	// written.
	ErrMeta = errors.New("invalid metadata")
	// ErrUnsafe: the server behind the store does not keep the promises of
	// [Store], so that nothing is written to it.
	ErrUnsafe = errors.New("server is unfit for writing")
)

// A Version identifies one state of one object. It is opaque and compared for
// equality only.
type Version string

// Meta is stored with a body and always replaced together with it.
type Meta struct {
	// ContentType and CacheControl are for stores whose objects can be read by
	// plain HTTP; others keep them. At most MaxHeader bytes each, printable
	// ASCII.
	ContentType  string
	CacheControl string
	// Data is opaque to the store, at most MaxMeta bytes.
	Data []byte
}

// MaxMeta limits Meta.Data, in bytes. Every driver can hold this much.
const MaxMeta = 64 << 10

// MaxHeader limits Meta.ContentType and Meta.CacheControl, in bytes.
const MaxHeader = 256

// Info describes one state of an object.
type Info struct {
	Key      string
	Version  Version
	Size     int64     // of the body, in bytes
	Modified time.Time // when this state was written, by the store's clock
	Meta     Meta
}

// An Object is one state of an object, opened for reading. Body holds the
// bytes of the range asked for. The caller closes it. A Body may implement
// io.WriterTo; io.Copy from it is then the fastest way out.
type Object struct {
	Info
	Body io.ReadCloser
}

// An Entry is a line of a listing.
type Entry struct {
	Key      string
	Size     int64 // of the body, in bytes, or what it takes in the store, which is little more
	Modified time.Time
}

// A Body is what a write sends. Open may be called several times (a driver may
// retry) and must give Size bytes each time.
type Body interface {
	Open() (io.ReadCloser, error)
	Size() int64
}

// A Store holds objects.
//
// Keys are one or more segments of A-Z, a-z, 0-9, ".", "_" and "-", joined by
// "/", none of them "." or "..", at most 512 bytes in all and 200 a segment. No key
// may be another key with "/" and more appended.
//
// What every driver promises:
//
//   - A write that returned nil is durable.
//   - A write that returned ErrExists, ErrConflict, ErrFull, ErrPermission,
//     ErrNoStore, ErrKey, ErrMeta, ErrSize or ErrUnsafe changed nothing. Neither did one whose Body
//     could not be read.
//   - A write that returned any other error, or never returned, has an unknown
//     outcome: it may have taken effect, or may still do so. The caller reads
//     again and decides.
//   - Of conditional writes that race for one object, exactly one takes effect.
//   - Get and Stat show a state that was whole at one moment: body and metadata
//     of the same version. A body once opened stays readable to its end, or
//     fails; it never continues with bytes of another version.
//   - Reads see every write that returned before they began.
//
// All methods may be called concurrently, also by several processes.
type Store interface {
	// Create writes a new object. It returns ErrExists if there is one.
	Create(ctx context.Context, key string, meta Meta, body Body) (Version, error)

	// Append adds tail to the object's body and replaces its metadata, if it is
	// still at the given version; otherwise ErrConflict. The tail may be empty.
	Append(ctx context.Context, key string, at Version, meta Meta, tail Body) (Version, error)

	// Replace puts a new body and metadata in the place of the object, if it
	// is still at the given version; otherwise ErrConflict.
	Replace(ctx context.Context, key string, at Version, meta Meta, body Body) (Version, error)

	// Get opens length bytes of the body from offset on; a negative length
	// means to the end. A range that ends beyond the body is cut; one that
	// begins beyond it is empty. A negative offset is an error. ErrNotFound if
	// there is no object.
	Get(ctx context.Context, key string, offset, length int64) (*Object, error)

	// Stat returns what Get returns, without the body.
	Stat(ctx context.Context, key string) (Info, error)

	// List yields the objects whose key begins with prefix and is greater than
	// after, in the order of the keys' bytes. A prefix need not end at a "/".
	// On an error it yields that once and stops.
	List(ctx context.Context, prefix, after string) iter.Seq2[Entry, error]

	// Delete removes an object; one that does not exist is no error.
	Delete(ctx context.Context, key string) error

	// Close releases what the store holds. Objects that are open stay open.
	Close() error
}

// A Watcher is a Store that can tell of changes.
type Watcher interface {
	// Watch sends a value soon after objects under prefix may have changed. It
	// is a hint: values are coalesced, may be spurious and, on a broken
	// connection, late; whoever must not miss a change also looks by himself
	// from time to time. The channel is closed when ctx ends. The prefix ends
	// in "/".
	Watch(ctx context.Context, prefix string) (<-chan struct{}, error)
}

// A Clock is a Store that can tell the time, so that a writer whose own clock
// is wrong can know it.
type Clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// A Sweeper is a Store in which writers that died leave something behind. It is
// never visible and does no harm but take room.
type Sweeper interface {
	// Sweep removes what dead writers left behind at least age ago by the store's
	// clock, and returns how many bytes that freed. It may run beside writers of
	// any process. A negative age takes also what is from just now by a clock
	// that is ahead of it.
	Sweep(ctx context.Context, age time.Duration) (freed int64, err error)
}

// A Syncer is a Store in which others may see a write before it is durable. That
// matters to who reads the outcome of a write that did not return, and is going to
// rely on it.
type Syncer interface {
	// Sync makes the object at key durable as it is now, or its absence.
	Sync(ctx context.Context, key string) error
}

// A Presigner is a Store whose objects can be read by plain HTTP with a URL that
// is its own credential.
type Presigner interface {
	// Presign returns a URL that reads the object at key, which need not exist,
	// for the given time from now on.
	Presign(ctx context.Context, key string, valid time.Duration) (string, error)
}

// A Counter is a Store that counts the requests it sends, which may cost money.
type Counter interface {
	// Requests returns how many requests were sent so far, by the name of the
	// operation, attempts that failed among them.
	Requests() map[string]uint64
}

// A Prober is a Store that can find out whether its server keeps the promises of
// [Store].
type Prober interface {
	// Probe tries the server out, whether or not that was done before, and
	// removes what it wrote for that. An error says that the outcome is not known.
	Probe(ctx context.Context) ([]Check, error)
}

// A Check is one thing that was tried out.
type Check struct {
	Name   string // what should be so, such as "If-None-Match: * refuses what exists"
	OK     bool
	Detail string // what was found, and what to do about it if that is not OK
}
