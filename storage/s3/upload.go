package s3

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/feedctl/feedctl/storage"
)

// An upload holds a state of an object that is to be written.
type upload struct {
	key    string
	meta   storage.Meta
	rec    record
	object storage.Body // the body and the trailer
	sum    string       // SHA-256 of the object, in hexadecimal
	parts  []part       // parts of a multipart upload; nil for a PutObject

	// These are set if the body is in memory, so that it can be cached for an append.
	body  []byte
	state hash.Hash // the SHA-256 of body
}

// A part is a piece of an object.
type part struct {
	offset, size int64
	sum          string // SHA-256 in hexadecimal
}

// A content is the body of an object to be written. For an append, it is the existing body, in
// memory or in the store, followed by the new bytes.
type content struct {
	begun  *cachedBody // the existing body; nil if it is not in memory
	stored *storedBody // the existing body; nil if there is none or it is in begun
	new    storage.Body
}

// prepare reads the content and returns an upload that writes it. It may use the spare capacity of
// a body in memory. The caller must call release when the upload has ended.
func (s *Store) prepare(ctx context.Context, key string, meta storage.Meta, plain bool, c content) (
	u *upload, release func(), err error,
) {
	u = &upload{key: key, meta: meta, rec: record{id: rand.Text()}}
	u.rec.payload = encodeMeta(meta)
	var trailer []byte
	switch {
	case len(u.rec.payload) > maxInline:
		trailer, u.rec.payload = makeTrailer(u.rec.id, u.rec.payload), nil
	case !plain:
		trailer = makeTrailer(u.rec.id, nil)
	}
	u.rec.trailer = len(trailer)
	body, before := c.new, int64(0)
	switch {
	case c.begun != nil:
		before = int64(len(c.begun.body))
	case c.stored != nil:
		body = storage.Concat(c.stored, body)
	}
	size := body.Size()
	// If the digest of a body is known, no append to the object is expected: the body is neither
	// read before it is sent nor cached.
	if d, ok := body.(storage.Digested); ok && c.begun == nil && size+int64(len(trailer)) < s.partSize(size) {
		u.rec.size = size
		u.object = storage.Concat(body, storage.Bytes(trailer))
		return u, func() {}, u.finish(d.SHA256(), trailer)
	}
	if size >= 0 && before+size <= s.whole && s.buffers.TryAcquire(before+size) {
		err = u.readWhole(c.begun, body, trailer)
		release = func() { s.buffers.Release(before + size) }
	} else {
		if c.begun != nil {
			body = storage.Concat(storage.Bytes(c.begun.body), body)
		}
		err = u.readThrough(body, trailer, s.partSize(body.Size()+int64(len(trailer))))
		release = func() {}
		// A server may lock the object during a PutObject, so reading the object meanwhile would
		// block for ever. UploadPart does not lock it.
		if len(u.parts) == 1 && c.stored == nil {
			u.parts = nil
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return u, release, nil
}

func (u *upload) readWhole(begun *cachedBody, body storage.Body, trailer []byte) error {
	u.state = sha256.New()
	if begun != nil {
		u.body, u.state = begun.body, begun.sum
	}
	before, size := len(u.body), int(body.Size())
	u.body = slices.Grow(u.body, size)[:before+size]
	if err := readInto(u.body[before:], body); err != nil {
		return err
	}
	u.state.Write(u.body[before:])
	u.rec.size = int64(len(u.body))
	u.object = storage.Bytes(u.body, trailer)
	return u.finish(u.state, trailer)
}

// readThrough reads the body without holding it in memory, to compute the digests.
func (u *upload) readThrough(body storage.Body, trailer []byte, partSize int64) error {
	state, parts := sha256.New(), &partSums{size: partSize, sum: sha256.New()}
	if err := readBody(io.MultiWriter(state, parts), body); err != nil {
		return err
	}
	_, _ = parts.Write(trailer) // never fails
	u.parts = parts.end()
	u.rec.size = body.Size()
	u.object = storage.Concat(body, storage.Bytes(trailer))
	return u.finish(state, trailer)
}

// finish sets the fields that depend on the digest of the body.
func (u *upload) finish(state hash.Hash, trailer []byte) error {
	u.rec.sum = [sha256.Size]byte(state.Sum(nil))
	all, err := state.(hash.Cloner).Clone()
	if err != nil {
		return fmt.Errorf("continue digest: %w", err)
	}
	all.Write(trailer)
	u.sum = hex.EncodeToString(all.Sum(nil))
	return nil
}

func readBody(w io.Writer, body storage.Body) error {
	r, err := storage.OpenExact(body)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	if cerr := r.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close body: %w", cerr)
	}
	return err
}

// readInto reads a body of size len(b) into b.
func readInto(b []byte, body storage.Body) error {
	r, err := storage.OpenExact(body)
	if err != nil {
		return err
	}
	if _, err = io.ReadFull(r, b); err == nil {
		_, err = io.Copy(io.Discard, r) // checks that the body has no more bytes
	}
	if cerr := r.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close body: %w", cerr)
	}
	return err
}

// partSums is a writer that computes the digest of each part.
type partSums struct {
	size  int64
	sum   hash.Hash
	at    int64
	begin int64 // of the current part
	done  []part
}

func (p *partSums) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if p.at == p.begin+p.size {
			p.next()
		}
		piece := b[:min(int64(len(b)), p.begin+p.size-p.at)]
		p.sum.Write(piece)
		p.at += int64(len(piece))
		b = b[len(piece):]
	}
	return n, nil
}

func (p *partSums) next() {
	p.done = append(p.done, part{offset: p.begin, size: p.at - p.begin, sum: hex.EncodeToString(p.sum.Sum(nil))})
	p.sum.Reset()
	p.begin = p.at
}

// end returns the parts, of which there is at least one.
func (p *partSums) end() []part {
	if p.at > p.begin || len(p.done) == 0 {
		p.next()
	}
	return p.done
}

// A source is the body of one request. It records read errors, which the HTTP client hides. It can
// be shut, since the client may still read the body after the call has returned.
type source struct {
	mu     sync.Mutex
	r      io.ReadCloser
	left   int64
	err    error
	open   bool // shut does not close r
	closed bool
}

func openSource(body storage.Body, offset, size int64) (*source, error) {
	r, err := storage.OpenFrom(body, offset)
	if err != nil {
		return nil, err
	}
	return &source{r: r, left: size}, nil
}

func (b *source) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return 0, errClosed
	case b.err != nil:
		return 0, b.err
	case b.left == 0:
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err == io.EOF && b.left > 0 {
		err = fmt.Errorf("%w: it ends %d bytes early when read again", storage.ErrSize, b.left)
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// unsent reports whether a part of the body was not read. That part was not sent, either, so the
// write cannot have taken effect.
func (b *source) unsent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left > 0
}

// shut prevents further reads and returns the recorded read error.
func (b *source) shut() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		if !b.open {
			b.r.Close()
		}
	}
	return b.err
}

// A bodyError is an error from reading the caller's body.
type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

func isBodyError(err error) bool {
	_, ok := errors.AsType[bodyError](err)
	return ok
}

// An unsentError means that the body of a request was not sent completely.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

func isUnsent(err error) bool {
	_, ok := errors.AsType[unsentError](err)
	return ok
}

// isPlain reports whether an object needs no trailer, provided that the payload fits into the
// record.
func isPlain(meta storage.Meta) bool { return strings.Contains(meta.CacheControl, "immutable") }
