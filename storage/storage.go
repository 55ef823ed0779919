// Package storage defines stores: objects with a key, metadata, a body and a
// version, and conditional writes. It knows nothing of feeds. Drivers are in
// sub-packages; package storagetest is a test suite for the contract of [Store].
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
	// ErrNotFound means that the object does not exist.
	ErrNotFound = errors.New("object not found")
	// ErrExists means that Create found an object at the key.
	ErrExists = errors.New("object exists already")
	// ErrConflict means that the object does not have the version given by the caller, or does not exist.
	// Nothing was written.
	ErrConflict = errors.New("object has another version")
	// ErrFull means that the store has no room left. Nothing was written.
	ErrFull = errors.New("store is full")
	// ErrPermission means that the store does not permit the operation to this user.
	ErrPermission = errors.New("store denies access")
	// ErrNoStore means that there is no store at the URL, or that the store has been removed or replaced
	// with another one. Perhaps it has not been created yet, a disk is not mounted, or a bucket was deleted.
	ErrNoStore = errors.New("there is no store")
	// ErrUnavailable means that the server of the store does not respond or, for example while it starts,
	// does not accept connections. The outcome of a write is unknown.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrLayout means that the store was written in an unknown version of the layout, or is damaged.
	ErrLayout = errors.New("store has an unknown layout")
	// ErrKey means that the key or prefix is not well-formed.
	ErrKey = errors.New("invalid key")
	// ErrSize means that a body was shorter or longer than its Size. Nothing was written.
	ErrSize = errors.New("body does not have the size it declares")
	// ErrMeta means that the metadata exceeds the limits of [Meta]. Nothing was written.
	ErrMeta = errors.New("invalid metadata")
	// ErrUnsafe means that the server of the store does not meet the guarantees of [Store]. Nothing was
	// written.
	ErrUnsafe = errors.New("server is unfit for writing")
)

// A Version identifies one state of one object. It is opaque, and compared only for
// equality.
type Version string

// Meta is the metadata of an object. It is stored with the body and replaced together
// with it.
type Meta struct {
	// ContentType and CacheControl are sent by stores whose objects can be read over plain HTTP;
	// other stores only keep them. They are at most MaxHeader bytes of printable ASCII each.
	ContentType  string
	CacheControl string
	// Data is opaque to the store. It has at most MaxMeta bytes.
	Data []byte
}

// MaxMeta is the maximum size of Meta.Data, in bytes. Every driver supports this size.
const MaxMeta = 64 << 10

// MaxHeader is the maximum size of Meta.ContentType and of Meta.CacheControl, in bytes.
const MaxHeader = 256

// Info describes one state of an object.
type Info struct {
	Key      string
	Version  Version
	Size     int64     // of the body, in bytes
	Modified time.Time // when this state was written, by the store's clock
	Meta     Meta
}

// An Object is one state of an object, opened for reading. Body reads the requested range; the caller must
// close it. Body may implement io.WriterTo, which makes io.Copy the fastest way to read it, and [Loaded].
type Object struct {
	Info
	Body io.ReadCloser
}

// An Entry is one object of a listing.
type Entry struct {
	Key      string
	Size     int64 // in bytes, of the body, or of the stored object, which is slightly larger
	Modified time.Time
}

// A Body is the body of an object to be written. Open may be called several times,
// since a driver may retry, and must return a reader of Size bytes each time.
type Body interface {
	Open() (io.ReadCloser, error)
	Size() int64
}

// A Store holds objects.
//
// Keys are one or more segments of A-Z, a-z, 0-9, ".", "_" and "-", joined by
// "/". No segment is "." or "..". A key has at most 512 bytes, a segment at most 200.
// No key may begin with another key followed by "/".
//
// Every driver guarantees:
//
//   - A write that returned nil is durable.
//   - A write that returned ErrExists, ErrConflict, ErrFull, ErrPermission,
//     ErrNoStore, ErrKey, ErrMeta, ErrSize or ErrUnsafe changed nothing. The same
//     holds for a write whose Body could not be read.
//   - A write that returned any other error, or never returned, has an unknown
//     outcome: it may have taken effect, or may still do so. The caller has to
//     read the object to find out.
//   - If conditional writes of one object race, exactly one takes effect.
//   - Get and Stat return the body and the metadata of the same version. An open body
//     can be read to its end, or reading fails; it never continues with bytes of
//     another version.
//   - Reads see every write that returned before they began.
//
// All methods may be called concurrently, even by several processes.
type Store interface {
	// Create writes a new object. It returns ErrExists if there is an object at key.
	Create(ctx context.Context, key string, meta Meta, body Body) (Version, error)

	// Append adds tail to the object's body and replaces its metadata if the object still has the given
	// version; otherwise it returns ErrConflict. The tail may be empty.
	Append(ctx context.Context, key string, at Version, meta Meta, tail Body) (Version, error)

	// Replace replaces the body and the metadata of the object if it still has the given version; otherwise
	// it returns ErrConflict.
	Replace(ctx context.Context, key string, at Version, meta Meta, body Body) (Version, error)

	// Get opens length bytes of the body starting at offset, or the whole rest if length is negative. A
	// range that extends beyond the body is truncated; a range that begins beyond the body is empty. A
	// negative offset is an error. Get returns ErrNotFound if the object does not exist.
	Get(ctx context.Context, key string, offset, length int64) (*Object, error)

	// Stat returns the same information as Get, without the body.
	Stat(ctx context.Context, key string) (Info, error)

	// List yields the objects whose keys begin with prefix and are greater than the given string, in the
	// byte order of the keys. A prefix need not end at a "/". An error is yielded once, as the last element.
	List(ctx context.Context, prefix, after string) iter.Seq2[Entry, error]

	// Delete removes an object. It is not an error if the object does not exist.
	Delete(ctx context.Context, key string) error

	// Close releases the resources of the store. Open objects stay open.
	Close() error
}

// A Watcher is a Store that reports changes.
type Watcher interface {
	// Watch sends a value soon after objects under prefix may have changed. The values are hints: several
	// may be merged into one, and they may be spurious or, if a connection breaks, late. A caller that must
	// not miss a change also has to poll. The channel is closed when ctx ends. The prefix ends in "/".
	Watch(ctx context.Context, prefix string) (<-chan struct{}, error)
}

// A KeyWatcher is a Watcher that reports which objects have changed.
type KeyWatcher interface {
	Watcher
	// Until ctx ends, WatchKeys calls the function changed soon after objects under prefix may have changed,
	// with the key of one object, or with a prefix of several keys, which is empty or ends in "/". It makes
	// one call at a time. The calls are hints, like the values of Watch. The function must return at once,
	// and must not use the store.
	WatchKeys(ctx context.Context, prefix string, changed func(key string)) error
}

// A Clock is a Store with a clock, with which writers can compare their own clocks.
type Clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// A Sweeper is a Store in which killed writers leave files or uploads behind, which are invisible but take
// up space.
type Sweeper interface {
	// Sweep removes leftovers of killed writers that are at least as old as age by the store's clock, and
	// returns the number of bytes freed. Writers in any process may be active meanwhile. A negative age
	// includes leftovers whose time is slightly ahead of that clock.
	Sweep(ctx context.Context, age time.Duration) (freed int64, err error)
}

// A Syncer is a Store in which a write may be visible before it is durable. A caller that reads an object to
// find out whether an unacknowledged write took effect must call Sync before it relies on what it has read.
type Syncer interface {
	// Sync makes the current state of the object at key, or its absence, durable.
	Sync(ctx context.Context, key string) error
}

// A Presigner is a Store whose objects can be read over HTTP with presigned URLs.
type Presigner interface {
	// Presign returns a URL for reading the object at key, which need not exist. The URL is valid for the
	// given time.
	Presign(ctx context.Context, key string, valid time.Duration) (string, error)
}

// A Counter is a Store that counts the requests that it sends, since these may cost money.
type Counter interface {
	// Requests returns the numbers of requests sent so far, including failed attempts, by name of the
	// operation.
	Requests() map[string]uint64
}

// A Prober is a Store that can test whether the server meets the guarantees of [Store].
type Prober interface {
	// Probe tests the server, even if it was tested before, and removes the objects that the test wrote. An
	// error means that the test was not completed.
	Probe(ctx context.Context) ([]Check, error)
}

// A Check is the result of one test by a [Prober].
type Check struct {
	Name   string // the expected behaviour, such as "If-None-Match: * protects an existing object"
	OK     bool
	Detail string // the observed behaviour, and the remedy if it is not OK
}
