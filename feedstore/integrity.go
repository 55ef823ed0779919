package feedstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/lru"
	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/storage"
)

// These constants limit how bodies are verified.
const (
	// maxVerified is how many verified objects are remembered.
	maxVerified = 4096
	// maxEarly is the size, in bytes, up to which a body is verified before the response begins; maxEarlyAll
	// limits the memory for these bodies. Other bodies are verified as they are sent.
	maxEarly    = 256 << 10
	maxEarlyAll = 16 << 20
	// maxTwice is the size, in bytes, up to which a file is first read to verify it, and then sent as a
	// file.
	maxTwice = 16 << 20
)

// An integrity verifies that each body read from the store has the SHA-256 in its metadata. A
// verified object is trusted for [pagecache.VerifyAge]: during that time a part of it may be read alone, and
// the kernel may send it as a file.
type integrity struct {
	store    storage.Store
	network  bool                                   // see [Config]
	verified *lru.Cache[objectState, *atomic.Int64] // when, in Unix nanoseconds
	early    *semaphore.Weighted                    // in bytes
	corrupt  atomic.Uint64
}

// An objectState identifies a verified state of an object.
type objectState struct {
	key     string
	version storage.Version
	sha256  string
}

func newIntegrity(store storage.Store, network bool) *integrity {
	return &integrity{
		store:    store,
		network:  network,
		verified: lru.New[objectState, *atomic.Int64](maxVerified),
		early:    semaphore.NewWeighted(maxEarlyAll),
	}
}

// whole returns a verified body to be used in place of object.Body, which must be the whole body; the caller
// must close the result. sum is the expected SHA-256 in hex. If the body has another one, whole fails, or
// Read does before it returns the last bytes, with an error that matches [chain.ErrCorrupt]. For a reader in
// the same process, the body is always verified, in a single pass.
func (i *integrity) whole(object *storage.Object, sum string) (io.ReadCloser, error) {
	state := objectState{object.Key, object.Version, sum}
	if !i.network {
		return i.verifying(object, state), nil
	}
	if i.fresh(state) {
		return object.Body, nil
	}
	if file, ok := object.Body.(rewinder); ok && object.Size <= maxTwice {
		return object.Body, i.twice(object, file, state)
	}
	if object.Size > maxEarly || !i.early.TryAcquire(object.Size) {
		return i.verifying(object, state), nil
	}
	body := &heldBody{release: func() { i.early.Release(object.Size) }}
	data, err := i.load(object, sum)
	if err != nil {
		return nil, errors.Join(err, body.Close())
	}
	body.Reader.Reset(data)
	return body, nil
}

// load reads the whole body of an object into memory, verifies it, and closes it.
func (i *integrity) load(object *storage.Object, sum string) ([]byte, error) {
	data := make([]byte, object.Size)
	hash := sha256.New()
	err := errors.Join(readWhole(object, data, hash), object.Body.Close())
	if err == nil {
		err = i.check(objectState{object.Key, object.Version, sum}, hash)
	}
	return data, err
}

// part returns object.Body, which is a part of the object's body; the caller must close it. Unless the
// object was verified recently, the whole body is read and verified first. If the body is damaged, part
// fails as whole does.
func (i *integrity) part(ctx context.Context, object *storage.Object, sum string) (io.ReadCloser, error) {
	state := objectState{object.Key, object.Version, sum}
	if i.fresh(state) {
		return object.Body, nil
	}
	if err := i.readThrough(ctx, state, object.Size); err != nil {
		return nil, errors.Join(err, object.Body.Close())
	}
	return object.Body, nil
}

// readThrough verifies the first size bytes of an object; later appends are ignored.
func (i *integrity) readThrough(ctx context.Context, state objectState, size int64) error {
	object, err := i.store.Get(ctx, state.key, 0, size)
	if err != nil {
		return fmt.Errorf("verify object before reading a part: %w", err)
	}
	defer object.Body.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, object.Body); err != nil {
		return fmt.Errorf("read %s: %w", state.key, err)
	}
	return i.check(state, hash)
}

// fresh reports whether an object was verified within [pagecache.VerifyAge].
func (i *integrity) fresh(state objectState) bool {
	at, ok := i.verified.Get(state)
	return ok && time.Since(time.Unix(0, at.Load())) < pagecache.VerifyAge
}

// note records the time at which an object was verified.
func (i *integrity) note(state objectState, at time.Time) {
	i.verified.Add(state, new(atomic.Int64), 1).Store(at.UnixNano())
}

// A rewinder is a body that can be read again.
type rewinder interface{ Rewind() error }

// twice reads a body to verify it, and then rewinds it. After an error, the body is closed.
func (i *integrity) twice(object *storage.Object, file rewinder, state objectState) error {
	hash := sha256.New()
	_, err := io.Copy(hash, object.Body)
	if err == nil {
		err = i.check(state, hash)
	}
	if err == nil {
		err = file.Rewind()
	}
	if err != nil {
		return errors.Join(err, object.Body.Close())
	}
	return nil
}

// readWhole reads the body of an object into data, which must have the size of the body, and into hash.
func readWhole(object *storage.Object, data []byte, hash io.Writer) error {
	_, err := io.ReadFull(io.TeeReader(object.Body, hash), data)
	if err == nil {
		_, err = io.Copy(hash, object.Body) // detects excess data, and errors that the store returns at the end
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", object.Key, err)
	}
	return nil
}

// check compares the SHA-256 of what was read of an object with that in the metadata.
func (i *integrity) check(state objectState, hash hash.Hash) error {
	return i.compare(state, hash.Sum(nil))
}

// compare does the same as check. sum is the SHA-256 of what was read.
func (i *integrity) compare(state objectState, sum []byte) error {
	if got := hex.EncodeToString(sum); got != state.sha256 {
		return i.corrupted(state.key, fmt.Errorf("the SHA-256 of its body is %s, but %s in its metadata", got, state.sha256))
	}
	i.note(state, time.Now())
	return nil
}

// corrupted counts a corrupt object and returns the error for it.
func (i *integrity) corrupted(key string, cause error) error {
	i.corrupt.Add(1)
	return &corruptError{key, cause}
}

// A corruptError reports a corrupt object. It matches [chain.ErrCorrupt].
type corruptError struct {
	key   string
	cause error
}

func (e *corruptError) Error() string {
	return fmt.Sprintf("%s is corrupt in the store: %v: restore it", e.key, e.cause)
}

func (e *corruptError) Unwrap() []error { return []error{chain.ErrCorrupt, e.cause} }

// A heldBody is a body in memory.
type heldBody struct {
	bytes.Reader
	release func()
}

// Close implements [io.Closer]. It must be called only once.
func (b *heldBody) Close() error {
	b.release()
	return nil
}

// A verifiedBody is verified as it is read, before Read returns its last bytes.
type verifiedBody struct {
	io.ReadCloser
	integrity *integrity
	state     objectState
	hash      hash.Hash
	left      int64 // bytes to come
	right     bool  // all bytes have been read, and are correct
}

func (i *integrity) verifying(object *storage.Object, state objectState) *verifiedBody {
	return &verifiedBody{ReadCloser: object.Body, integrity: i, state: state, hash: sha256.New(), left: object.Size}
}

func (b *verifiedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.hash.Write(p[:n])
	b.left -= int64(n)
	if b.right = b.right && n == 0; b.right || b.left > 0 && err == nil || err != nil && err != io.EOF {
		return n, err
	}
	if wrong := b.integrity.check(b.state, b.hash); wrong != nil {
		return 0, wrong
	}
	b.right = true
	return n, err
}
