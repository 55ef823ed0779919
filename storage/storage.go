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
	// ErrNotFound: the object does not exist.
	ErrNotFound = errors.New("object not found")
	// ErrExists: Create found an object at the key.
	ErrExists = errors.New("object exists already")
	// ErrConflict: the object does not have the version given by the caller, or
	// does not exist. Nothing was written.
	ErrConflict = errors.New("object has another version")
	// ErrFull: the store has no room left. Nothing was written.
	ErrFull = errors.New("store is full")
	// ErrPermission: the store refuses this operation to this user.
	ErrPermission = errors.New("store denies access")
	// ErrNoStore: there is no store at the URL, or the store has been removed or replaced by
	// another one. Perhaps it was not created yet, a disk is not mounted, or a bucket was deleted.
	ErrNoStore = errors.New("there is no store")
	// ErrUnavailable: the server of the store does not answer, or does not accept
	// connections at present, for example while it starts. The outcome of a write is
	// unknown.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrLayout: the store was written by an unknown version of the layout, or
	// is damaged.
	ErrLayout = errors.New("store has an unknown layout")
	// ErrKey: the key or prefix is not well-formed.
	ErrKey = errors.New("invalid key")
	// ErrSize: a body was shorter or longer than its Size. Nothing was written.
	ErrSize = errors.New("body does not have the size it declares")
	// ErrMeta: the metadata exceeds the limits of [Meta]. Nothing was written.
	ErrMeta = errors.New("invalid metadata")
	// ErrUnsafe: the server of the store does not meet the guarantees of [Store].
	// Nothing was written.
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
	// Data is opaque to the store, at most MaxMeta bytes.
	Data []byte
}

// MaxMeta limits Meta.Data, in bytes. Every driver supports this size.
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

// An Object is one state of an object, opened for reading. Body reads the requested
// range; the caller must close it, and not use it afterwards. Body may implement
// io.WriterTo, which makes io.Copy the fastest way to read it, and [Loaded].
type Object struct {
	Info
	Body io.ReadCloser
}

// An Entry is one object of a listing.
type Entry struct {
	Key      string
	Size     int64 // of the body, in bytes, or of the stored object, which is slightly larger
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
// No key may be another key with "/" and more appended.
//
// Every driver guarantees:
//
//   - A write that returned nil is durable.
//   - A write that returned ErrExists, ErrConflict, ErrFull, ErrPermission,
//     ErrNoStore, ErrKey, ErrMeta, ErrSize or ErrUnsafe changed nothing. Nor did a
//     write whose Body could not be read.
//   - A write that returned any other error, or never returned, has an unknown
//     outcome: it may have taken effect, or may still do so. The caller has to
//     read the object to find out.
//   - Of conditional writes that race for one object, exactly one takes effect.
//   - Get and Stat return body and metadata of the same version. An open body can be
//     read to its end, or reading fails; it never continues with bytes of another
//     version.
//   - Reads see every write that returned before they began.
//
// All methods may be called concurrently, even by several processes.
type Store interface {
	// Create writes a new object. It returns ErrExists if there is one.
	Create(ctx context.Context, key string, meta Meta, body Body) (Version, error)

	// Append adds tail to the object's body and replaces its metadata if the object
	// is still at the given version; otherwise it returns ErrConflict. The tail may
	// be empty.
	Append(ctx context.Context, key string, at Version, meta Meta, tail Body) (Version, error)

	// Replace replaces body and metadata of the object if it is still at the given
	// version; otherwise it returns ErrConflict.
	Replace(ctx context.Context, key string, at Version, meta Meta, body Body) (Version, error)

	// Get opens length bytes of the body starting at offset, or all of the rest if
	// length is negative. A range that extends beyond the body is truncated; one
	// that begins beyond it is empty. A negative offset is an error. Get returns
	// ErrNotFound if the object does not exist.
	Get(ctx context.Context, key string, offset, length int64) (*Object, error)

	// Stat returns what Get returns, without the body.
	Stat(ctx context.Context, key string) (Info, error)

	// List yields the objects whose key begins with prefix and is greater than
	// after, in the order of the keys' bytes. A prefix need not end at a "/".
	// On an error, List yields it once and stops.
	List(ctx context.Context, prefix, after string) iter.Seq2[Entry, error]

	// Delete removes an object. It is not an error if the object does not exist.
	Delete(ctx context.Context, key string) error

	// Close releases the resources of the store. Open objects stay open.
	Close() error
}

// A Watcher is a Store that reports changes.
type Watcher interface {
	// Watch sends a value soon after objects under prefix may have changed. The
	// values are hints: they are coalesced, may be spurious and, on a broken
	// connection, late. A caller that must not miss a change also has to poll. The
	// channel is closed when ctx ends. The prefix ends in "/".
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

// A Clock is a Store that has a clock, against which writers can check their own.
type Clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// A Sweeper is a Store in which killed writers leave files or uploads behind. These
// are invisible and only take up space.
type Sweeper interface {
	// Sweep removes what killed writers left behind at least age ago by the store's
	// clock, and returns the number of bytes freed. It may run concurrently with
	// writers of any process. A negative age also covers leftovers whose time is
	// slightly ahead of that clock.
	Sweep(ctx context.Context, age time.Duration) (freed int64, err error)
}

// A Syncer is a Store in which a write may be visible before it is durable. A caller
// that reads an object to learn the outcome of a write that did not return must call
// Sync before it relies on the result.
type Syncer interface {
	// Sync makes the current state of the object at key, or its absence, durable.
	Sync(ctx context.Context, key string) error
}

// A Presigner is a Store whose objects can be read over plain HTTP with presigned URLs.
type Presigner interface {
	// Presign returns a URL that reads the object at key, which need not exist, and
	// is valid for the given time.
	Presign(ctx context.Context, key string, valid time.Duration) (string, error)
}

// A Counter is a Store that counts the requests it sends, which may cost money.
type Counter interface {
	// Requests returns the number of requests sent so far, including failed
	// attempts, by the name of the operation.
	Requests() map[string]uint64
}

// A Prober is a Store that can test whether its server meets the guarantees of
// [Store].
type Prober interface {
	// Probe tests the server, even if it was tested before, and removes the objects
	// that it wrote. An error means that the outcome is unknown.
	Probe(ctx context.Context) ([]Check, error)
}

// A Check is the result of one test by a [Prober].
type Check struct {
	Name   string // the expected behaviour, such as "If-None-Match: * protects an existing object"
	OK     bool
	Detail string // the observed behaviour, and the remedy if it is not OK
}
